"""From scores to one-hot vectors: rounding, class indices, exact draws."""

import math

import tensorflow as tf

from tfconcrete._seeds import as_seed, split
from tfconcrete.noise.gumbel import add_gumbel
from tfconcrete.relaxations.masking import FILL, prepare_logits, zero_masked

# From here on a draw goes by blocks of classes: a tenth faster at 64 (XLA and graph), twice
# as fast from 256, a quarter slower at 10.
MANY_CLASSES = 64


def _class_index(x, axis):
    """0, 1, ... along `axis`, shaped to broadcast against `x`."""
    rank = tf.rank(x) if x.shape.rank is None else x.shape.rank
    index = tf.range(tf.shape(x)[axis], dtype=tf.int32)
    trailing = rank - 1 - (axis % rank)
    return tf.reshape(index, tf.concat([[-1], tf.ones([trailing], tf.int32)], 0))


def discretize(x, axis=-1):
    """The one-hot vector of the largest entry; ties go to the smallest index.

    Concrete, Proposition 1 (b): applied to a Concrete sample this is an exact draw from
    the discrete distribution of its logits. No gradient passes.

    Args:
        x: float tensor `[..., num_classes]` (classes along `axis`).
        axis: The class axis.

    Returns:
        One-hot tensor of the shape and dtype of `x`.

    Example:

    >>> tfc.relaxations.discretize(tf.constant([[0.2, 0.7, 0.1]])).numpy()
    array([[0., 1., 0.]], dtype=float32)
    """
    x = tf.stop_gradient(tf.convert_to_tensor(x))
    return tf.cast(_class_index(x, axis) == _first_largest(x, axis), x.dtype)


def _first_largest(x, axis):
    """The index of the largest entry, size 1 along `axis`; ties go to the smallest."""
    index = _class_index(x, axis)
    # reduce_max, a comparison and the smallest index: `tf.argmax` fed by noise does not
    # finish compiling under XLA for a few hundred classes; this compiles in 0.25 s.
    top = tf.reduce_max(x, axis=axis, keepdims=True)
    # The filler is one past the last index: runtimes that select in float32 (OpenVINO)
    # turn the largest int32 into the smallest.
    past = tf.shape(x)[axis]
    return tf.reduce_min(tf.where(x >= top, index, past), axis=axis, keepdims=True)


def one_hot_argmax(x, axis=-1):
    """`discretize` in two ops, for graphs that XLA never sees.

    Args:
        x: float tensor `[..., num_classes]` (classes along `axis`).
        axis: The class axis.

    Returns:
        One-hot tensor of the shape and dtype of `x`.

    Example:

    >>> from tfconcrete.relaxations.discretize import one_hot_argmax
    >>> one_hot_argmax(tf.constant([[0.2, 0.7, 0.1]])).numpy()
    array([[0., 1., 0.]], dtype=float32)
    """
    x = tf.stop_gradient(tf.convert_to_tensor(x))
    depth = tf.shape(x)[axis] if x.shape[axis] is None else x.shape[axis]
    return tf.one_hot(codes(x, axis), depth, axis=axis, dtype=x.dtype)


def codes(x, axis=-1):
    """The index of the largest entry as int32; ties go to the smallest index.

    Args:
        x: float tensor `[..., num_classes]` (classes along `axis`).
        axis: The class axis.

    Returns:
        int32 tensor of the shape of `x` without `axis`.

    Example:

    >>> tfc.relaxations.codes(tf.constant([[0.2, 0.7, 0.1]])).numpy()
    array([1], dtype=int32)
    """
    return tf.argmax(x, axis=axis, output_type=tf.int32)


def categorical(logits, class_mask=None, axis=-1, seed=None):
    """An exact one-hot draw from softmax(logits) by the Gumbel-max trick (Eq. 9).

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        One-hot tensor of the shape and dtype of `logits`. A row whose classes are all
        masked is zero.

    Example:

    >>> draw = tfc.relaxations.categorical(tf.zeros([4, 3]), seed=0)
    >>> tf.reduce_sum(draw, -1).numpy()
    array([1., 1., 1., 1.], dtype=float32)
    """
    logits = tf.convert_to_tensor(logits)
    working, mask = prepare_logits(logits, class_mask, axis)
    hard = zero_masked(draw(working, axis, seed), mask)
    return tf.cast(hard, logits.dtype)


def draw(working_logits, axis, seed):
    """`categorical` on logits that `prepare_logits` has already brought in form."""
    shape = working_logits.shape
    many = shape.rank is not None and (shape[axis] or 0) >= MANY_CLASSES
    if many and axis in (-1, shape.rank - 1):
        return _draw_by_blocks(working_logits, seed)
    return discretize(add_gumbel(working_logits, seed), axis)


def _draw_by_blocks(logits, seed):
    """An exact draw along the last axis: first a block of classes, then a class of it.

    Both by the Gumbel-max trick, the first on the blocks' logsumexp. A row of K classes
    takes about 2 sqrt(K) noises instead of K, and noise is what a draw costs.
    """
    num_classes = logits.shape[-1]
    size = math.isqrt(num_classes - 1) + 1
    count = -(-num_classes // size)
    padding = [[0, 0]] * (logits.shape.rank - 1) + [[0, count * size - num_classes]]
    padded = tf.pad(tf.stop_gradient(logits), padding, constant_values=FILL)
    blocks = tf.reshape(padded, tf.concat([tf.shape(logits)[:-1], [count, size]], 0))
    # The row's largest logit is 0. A block that underflows has no chance next to its own.
    sums = tf.reduce_sum(tf.exp(blocks), axis=-1)
    seeds = split(as_seed(seed), 2)
    block = _winner(tf.math.log(tf.maximum(sums, 1e-37)), seeds[0])
    inside = tf.gather(blocks, block, batch_dims=logits.shape.rank - 1)
    inside -= tf.reduce_max(inside, axis=-1, keepdims=True)
    winner = block * size + _winner(inside, seeds[1])
    return tf.cast(tf.range(num_classes) == winner[..., tf.newaxis], logits.dtype)


def _winner(logits, seed):
    """The class, int32, that wins along the last axis with Gumbel noise added."""
    return tf.squeeze(_first_largest(add_gumbel(logits, seed), -1), -1)
