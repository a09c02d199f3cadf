"""From scores to one-hot vectors: rounding, class indices, exact draws."""

import tensorflow as tf

from tfconcrete.noise.gumbel import add_gumbel
from tfconcrete.relaxations.masking import prepare_logits, zero_masked


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
    index = _class_index(x, axis)
    # reduce_max, a comparison and the smallest index: `tf.argmax` fed by noise does not
    # finish compiling under XLA for a few hundred classes; this compiles in 0.25 s.
    top = tf.reduce_max(x, axis=axis, keepdims=True)
    # The filler is one past the last index: runtimes that select in float32 (OpenVINO)
    # turn the largest int32 into the smallest.
    past = tf.shape(x)[axis]
    first = tf.reduce_min(tf.where(x >= top, index, past), axis=axis, keepdims=True)
    return tf.cast(index == first, x.dtype)


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
    return discretize(add_gumbel(working_logits, seed), axis)
