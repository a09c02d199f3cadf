"""From scores to classes: rounding, codes, one-hot vectors, exact draws.

One rule everywhere. Ties go to the smallest index. A NaN in a kept entry makes a row of
NaN with the code -1; a row with no kept class is zero, and its code is -1 too. No
gradient passes.
"""

import math

import tensorflow as tf

from tfconcrete._checks import check_axis
from tfconcrete._floors import FILL, clip
from tfconcrete._seeds import Stream, as_seed, fold_in
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.noise.gumbel import add_gumbel
from tfconcrete.relaxations.masking import broadcast_mask, prepare_logits, zero_masked

# From here on a draw goes by blocks of classes: a tenth faster at 64 (XLA and graph), twice
# as fast from 256, a quarter slower at 10.
MANY_CLASSES = 64


def discretize(x: TensorLike, axis: int = -1) -> tf.Tensor:
    """The one-hot vector of the largest entry; ties go to the smallest index.

    Concrete, Proposition 1 (b): applied to a Concrete sample this is an exact draw from
    the discrete distribution of its logits. No gradient passes.

    Args:
        x: float tensor `[..., num_classes]` (classes along `axis`).
        axis: The class axis.

    Returns:
        Tensor of the shape and dtype of `x`: one-hot, or NaN where the row has a NaN.

    Example:

    >>> tfc.relaxations.discretize(tf.constant([[0.2, 0.7, 0.1]])).numpy()
    array([[0., 1., 0.]], dtype=float32)
    """
    x = tf.stop_gradient(tf.convert_to_tensor(x))
    index, first = _first_largest(x, axis)
    return _hot_or_nan(index, first, _has_no_nan(x, axis), x.dtype)


def _first_largest(x, axis):
    """0, 1, ... along `axis`, and where the largest entry is, size 1 along `axis`.

    Both are float32, exact up to 2**24: on a GPU int32 minima and comparisons run on the
    host. Ties go to the smallest index; a row with a NaN has any, or one past the last.
    """
    index, past = _class_index(x, axis), tf.cast(_num_classes(x, axis), tf.float32)
    # A maximum, a comparison and the smallest index: `tf.argmax` fed by noise does not
    # finish compiling under XLA for a few hundred classes; this compiles in 0.25 s.
    top = tf.reduce_max(x, axis=axis, keepdims=True)
    candidates = tf.where(x >= top, index, past)
    return index, tf.reduce_min(candidates, axis=axis, keepdims=True)


def _sum_with_nan(x, axis, keepdims=False):
    """A finite number for each row, or NaN where the row has one.

    A sum, which nothing drops a NaN from: a maximum does under XLA on CPU. The cut keeps
    infinities of both signs apart from it. (Any of `x != x` takes twice the time.)
    """
    return tf.reduce_sum(clip(x, -1.0, 1.0), axis=axis, keepdims=keepdims)


def _has_no_nan(x, axis):
    """Whether a row is free of NaN, size 1 along `axis`."""
    total = _sum_with_nan(x, axis, keepdims=True)
    return tf.equal(total, total)


def _class_index(x, axis, size=None):
    """0, 1, ... along `axis`, float32, shaped to broadcast against `x`."""
    rank = tf.rank(x) if x.shape.rank is None else x.shape.rank
    trailing = rank - 1 - (axis % rank)
    shape = tf.concat([[-1], tf.ones([trailing], tf.int32)], 0)
    size = _num_classes(x, axis) if size is None else size
    return tf.reshape(tf.range(tf.cast(size, tf.float32)), shape)


def _whole_index(x, axis, size=None):
    """`_class_index` as int64.

    An int8 LiteRT model rounds floats before it compares them, and then finds no class
    equal; of whole numbers int64 alone is compared on a GPU and not on its host.
    """
    return tf.cast(_class_index(x, axis, size), tf.int64)


def _num_classes(x, axis):
    size = None if x.shape.rank is None else x.shape[axis]
    return tf.shape(x)[axis] if size is None else size


def _hot_or_nan(index, chosen, has_no_nan, dtype):
    """1 where `index` is `chosen` and 0 elsewhere, or a row of NaN."""
    chosen = tf.where(has_no_nan, chosen, -1.0)
    rest = tf.where(has_no_nan, tf.zeros([], dtype), tf.constant(math.nan, dtype))
    return tf.where(index == chosen, tf.ones([], dtype), rest)


def codes(x: TensorLike, axis: int = -1, class_mask: TensorLike | None = None) -> tf.Tensor:
    """The index of the largest entry as int32; ties go to the smallest index.

    Args:
        x: float tensor `[..., num_classes]` (classes along `axis`).
        axis: The class axis.
        class_mask: boolean, broadcast against `x`; True keeps the class.

    Returns:
        int32 tensor of the shape of `x` without `axis`; -1 in a row with a NaN in a kept
        entry, and in a row with no kept class.

    Example:

    >>> tfc.relaxations.codes(tf.constant([[0.2, 0.7, 0.1]])).numpy()
    array([1], dtype=int32)
    """
    return argmax_and_codes(x, axis, class_mask)[1]


def argmax_and_codes(x, axis=-1, class_mask=None):
    """`discretize` and `codes` at once, in few ops, for graphs that XLA never sees.

    Args:
        x: float tensor `[..., num_classes]` (classes along `axis`).
        axis: The class axis.
        class_mask: boolean, broadcast against `x`; True keeps the class.

    Returns:
        `(one_hot, codes)`: a tensor of the shape and dtype of `x`, NaN in a row with a NaN
        in a kept entry (masked classes stay zero) and zero in a row with no kept class; and
        int32 without `axis`, -1 in both.

    Example:

    >>> from tfconcrete.relaxations.discretize import argmax_and_codes
    >>> hot, codes = argmax_and_codes(tf.constant([[0.2, 0.7, 0.1]]))
    >>> hot.numpy(), codes.numpy()
    (array([[0., 1., 0.]], dtype=float32), array([1], dtype=int32))
    """
    x = tf.stop_gradient(tf.convert_to_tensor(x))
    check_axis(axis, x.shape.rank)
    if class_mask is not None:
        return _masked_argmax_and_codes(x, axis, broadcast_mask(class_mask, x, axis))
    # A sum's difference to itself is 0, or NaN in a row with one: to add it to a one-hot takes
    # about half the time of a choice between the one-hot and a row of NaN.
    total = _sum_with_nan(x, axis)
    largest = tf.argmax(x, axis=axis, output_type=tf.int64)
    found = tf.where(tf.equal(total, total), largest, tf.constant(-1, tf.int64))
    hot = tf.cast(_whole_index(x, axis) == tf.expand_dims(found, axis), x.dtype)
    return hot + tf.expand_dims(total - total, axis), tf.cast(found, tf.int32)


def _masked_argmax_and_codes(x, axis, mask):
    # Masked classes get the row's own smallest number and are then left out by the mask: a
    # kept -inf wins against them, and an int8 LiteRT model, whose steps are as wide as its
    # numbers are far apart, keeps the logits'.
    kept = zero_masked(x, mask)
    filled = tf.where(mask, kept, tf.reduce_min(kept, axis=axis, keepdims=True))
    index, past = _class_index(x, axis), tf.cast(_num_classes(x, axis), tf.float32)
    is_top = mask & (filled >= tf.reduce_max(filled, axis=axis, keepdims=True))
    first = tf.reduce_min(tf.where(is_top, index, past), axis=axis, keepdims=True)
    has_no_nan = _has_no_nan(kept, axis)
    hot = zero_masked(_hot_or_nan(index, first, has_no_nan, x.dtype), mask)
    has_code = has_no_nan & tf.reduce_any(mask, axis=axis, keepdims=True)
    # Squeezed as floats: int32 is reshaped on the host of a GPU.
    has_code, first = tf.squeeze(has_code, axis), tf.squeeze(first, axis)
    return hot, tf.where(has_code, tf.cast(first, tf.int32), -1)


def one_hot_argmax(x, axis=-1, class_mask=None):
    """The first of `argmax_and_codes`."""
    return argmax_and_codes(x, axis, class_mask)[0]


def step(x):
    """1 where `x` is positive, else 0, for binary units; a NaN stays. No gradient passes."""
    x = tf.stop_gradient(x)
    return tf.where(tf.equal(x, x), tf.cast(x > 0.0, x.dtype), x)


def one_hot(
    codes: TensorLike, num_classes: int, axis: int = -1, dtype: tf.DType | str = tf.float32
) -> tf.Tensor:
    """One-hot vectors of class indices, by a comparison and a cast.

    `tf.one_hot` is not converted correctly to int8 LiteRT models, nor are comparisons of
    floats, and int32 comparisons run on the host of a GPU: int64 it is.

    Args:
        codes: integer tensor, up to 2**24.
        num_classes: whole number, or scalar integer tensor.
        axis: Where the class axis of the result is.
        dtype: dtype of the result.

    Returns:
        Tensor of the shape of `codes` with the class axis added. A code out of range, such
        as -1 for "no class", gives zeros.

    Example:

    >>> tfc.relaxations.one_hot(tf.constant([1, -1]), 3).numpy()
    array([[0., 1., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    codes = tf.expand_dims(tf.cast(codes, tf.int64), axis)
    return tf.cast(_whole_index(codes, axis, num_classes) == codes, dtype)


def categorical(
    logits: TensorLike, class_mask: TensorLike | None = None, axis: int = -1, seed: Seed = None
) -> tf.Tensor:
    """An exact one-hot draw from softmax(logits) by the Gumbel-max trick (Eq. 9).

    The class depends on seed, logits and axis alone. Below 64 classes it is that of
    `concrete` with the same seed; from 64 on noise for every class would be most of the
    cost, and the draw is that of a block of classes, then of a class inside it.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        One-hot tensor of the shape and dtype of `logits`. A row whose classes are all
        masked is zero; one with a NaN in a kept logit is NaN.

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
    """`categorical` on logits that `prepare_logits` has already brought in form.

    The class depends on seed, logits and axis alone, whether or not shapes are known.
    """
    logits = tf.stop_gradient(working_logits)
    num_classes = _num_classes(logits, axis)

    def by_blocks():
        order = _class_axis_last(logits, axis)
        if order is None:
            return _draw_by_blocks(logits, seed)
        drawn = _draw_by_blocks(tf.transpose(logits, order), seed)
        return tf.transpose(drawn, tf.math.invert_permutation(order))

    def directly():
        return discretize(add_gumbel(logits, seed), axis)

    if tf.is_tensor(num_classes):
        seed = as_seed(seed)  # in one of two branches, it would not advance a generator
        drawn = tf.cond(num_classes >= MANY_CLASSES, by_blocks, directly)
    else:
        drawn = by_blocks() if num_classes >= MANY_CLASSES else directly()
    return tf.ensure_shape(drawn, logits.shape)


def _class_axis_last(x, axis):
    """The permutation of dimensions that puts the class axis last; None where it is."""
    rank = x.shape.rank
    if axis == -1 or (rank is not None and axis == rank - 1):
        return None
    rank = tf.rank(x) if rank is None else rank
    return tf.concat([tf.range(axis % rank), tf.range(axis % rank + 1, rank), [axis % rank]], 0)


def _draw_by_blocks(logits, seed):
    """An exact draw along the last axis: first a block of classes, then a class of it.

    Both by the Gumbel-max trick, the first on the blocks' logsumexp. A row of K classes
    takes about 2 sqrt(K) noises instead of K, and noise is what a draw costs.
    """
    shape, num_classes = tf.shape(logits), _num_classes(logits, -1)
    size, count = _block_sizes(num_classes)
    rows = tf.reshape(logits, [-1, num_classes])
    padded = tf.pad(rows, [[0, 0], [0, count * size - num_classes]], constant_values=FILL)
    blocks = tf.reshape(padded, [-1, count, size])
    # The row's largest logit is 0. A block that underflows has no chance next to its own.
    sums = tf.reduce_sum(tf.exp(blocks), axis=-1)
    lead, seed = shape[:-1], as_seed(seed)
    log_sums = tf.math.log(tf.maximum(sums, 1e-37))
    block = _winner(log_sums, lead, fold_in(seed, 0, Stream.BLOCK))
    inside = tf.gather(blocks, tf.cast(block, tf.int32), batch_dims=1)
    inside -= tf.reduce_max(inside, axis=-1, keepdims=True)
    winner = block * tf.cast(size, tf.float32) + _winner(
        inside, lead, fold_in(seed, 0, Stream.CLASS_IN_BLOCK)
    )
    has_no_nan = tf.reduce_sum(sums, axis=-1, keepdims=True) >= 0.0
    index = _class_index(rows, -1)
    hot = _hot_or_nan(index, winner[:, tf.newaxis], has_no_nan, logits.dtype)
    return tf.reshape(hot, shape)


def _block_sizes(num_classes):
    """Classes in a block, ceil(sqrt(num_classes)), and blocks."""
    if tf.is_tensor(num_classes):
        root = tf.sqrt(tf.cast(num_classes - 1, tf.float64))
        size = tf.cast(root, tf.int32) + 1
    else:
        size = math.isqrt(num_classes - 1) + 1
    return size, -(-num_classes // size)


def _winner(logits, lead, seed):
    """The class, float32 `[rows]`, that wins in each row with Gumbel noise added.

    Any class in a row with a NaN. `lead` are the dimensions of the rows.
    """
    shape = tf.concat([lead, tf.shape(logits)[-1:]], 0)
    perturbed = tf.reshape(add_gumbel(tf.reshape(logits, shape), seed), tf.shape(logits))
    _, first = _first_largest(tf.ensure_shape(perturbed, logits.shape), -1)
    last = tf.cast(_num_classes(logits, -1), tf.float32) - 1.0
    return tf.minimum(tf.squeeze(first, -1), last)
