"""The k largest entries: k-hot vectors, codes, and Xie & Ermon's relaxed k-hot samples.

One rule everywhere. Ties go to the smallest index. Where a mask keeps fewer than k entries,
all of them are taken, and the codes end in -1. A NaN in a kept entry makes a row of NaN
with the codes -1.

Xie & Ermon (2019), "Reparameterizable Subset Sampling via Continuous Relaxations".
"""

import math

import tensorflow as tf

from tfconcrete._checks import check_axis, check_temperature
from tfconcrete._floors import FILL
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.noise.gumbel import add_gumbel
from tfconcrete.relaxations.discretize import one_hot
from tfconcrete.relaxations.masking import broadcast_mask, zero_masked
from tfconcrete.relaxations.subset_rows import (
    check_subset_size,
    from_rows,
    inverse_rows,
    prepare_subset,
    to_rows,
)
from tfconcrete.relaxations.successive_softmax import successive_softmax


def top_k_codes(
    x: TensorLike, k: int, axis: int = -1, class_mask: TensorLike | None = None
) -> tf.Tensor:
    """The indices of the k largest entries as int32, the largest first.

    Args:
        x: float tensor `[..., num_classes]` (classes along `axis`), their number known.
        k: whole number from 1 to `num_classes - 1`.
        axis: The class axis.
        class_mask: boolean, broadcast against `x`; True keeps the class.

    Returns:
        int32 tensor of the shape of `x` with k in the place of `num_classes`. Its last
        codes are -1 where fewer than k classes are kept, and all of them in a row with a
        NaN in a kept entry.

    Example:

    >>> tfc.relaxations.top_k_codes(tf.constant([0.2, 0.5, 0.1, 0.4]), k=2).numpy()
    array([1, 3], dtype=int32)
    """
    return top_k_and_codes(x, k, axis, class_mask)[1]


def top_k_hot(
    x: TensorLike, k: int, axis: int = -1, class_mask: TensorLike | None = None
) -> tf.Tensor:
    """The k-hot vector of the k largest entries; ties go to the smallest index.

    Args:
        x: float tensor `[..., num_classes]` (classes along `axis`), their number known.
        k: whole number from 1 to `num_classes - 1`.
        axis: The class axis.
        class_mask: boolean, broadcast against `x`; True keeps the class.

    Returns:
        Tensor of the shape and dtype of `x`. No gradient passes.

    Example:

    >>> tfc.relaxations.top_k_hot(tf.constant([0.2, 0.5, 0.1, 0.4]), k=2).numpy()
    array([0., 1., 0., 1.], dtype=float32)
    """
    return top_k_and_codes(x, k, axis, class_mask)[0]


def top_k_and_codes(x, k, axis=-1, class_mask=None):
    """`top_k_hot` and `top_k_codes` at once."""
    x = tf.stop_gradient(tf.convert_to_tensor(x))
    check_axis(axis, x.shape.rank)
    k = check_subset_size(k, x.shape[axis])
    mask = None if class_mask is None else to_rows(broadcast_mask(class_mask, x, axis), axis)
    hot, codes = _largest(to_rows(x, axis), mask, k)
    return from_rows(hot, x, axis), tf.cast(from_rows(codes, x, axis), tf.int32)


def k_hot(
    codes: TensorLike, num_classes: int, axis: int = -1, dtype: tf.DType | str = tf.float32
) -> tf.Tensor:
    """k-hot vectors of class indices.

    Args:
        codes: integer tensor `[..., k]` (along `axis`), up to 2**24.
        num_classes: whole number.
        axis: The axis of the codes, and of the classes in the result.
        dtype: dtype of the result.

    Returns:
        Tensor of the shape of `codes` with `num_classes` in the place of k. A code out of
        range, such as -1 for "no class", adds nothing, and a repeated one nothing more.

    Example:

    >>> tfc.relaxations.k_hot(tf.constant([3, 1, -1]), 4).numpy()
    array([0., 1., 0., 1.], dtype=float32)
    """
    codes = tf.convert_to_tensor(codes)
    axis = axis % codes.shape.rank
    return tf.reduce_max(one_hot(codes, num_classes, axis + 1, dtype), axis=axis)


def _largest(rows, mask, k):
    """`(k-hot, codes)` of a matrix: `[rows, num_classes]` in its dtype, `[rows, k]` float32.

    Indices are float32, exact up to 2**24: on a GPU int32 comparisons run on the host.
    """
    kept_nan = tf.math.is_nan(rows)
    if mask is not None:
        kept_nan = tf.logical_and(mask, kept_nan)
    is_number = tf.logical_not(tf.reduce_any(kept_nan, axis=-1, keepdims=True))
    scores = _ordered(tf.cast(rows, tf.float64 if rows.dtype == tf.float64 else tf.float32), mask)
    values, index = tf.math.top_k(scores, k)
    index = tf.cast(index, tf.float32)
    codes = tf.where(tf.logical_and(values > -math.inf, is_number), index, -1.0)
    # By the smallest value taken and the last index that has it. Both by reductions: of a
    # slice of `top_k` XLA on CPU makes a sort of the whole row.
    least = tf.reduce_min(values, axis=-1, keepdims=True)
    last = tf.reduce_max(tf.where(values > least, -1.0, index), axis=-1, keepdims=True)
    among = tf.range(float(rows.shape[-1])) <= last
    hot = tf.logical_or(scores > least, tf.logical_and(scores >= least, among))
    rest = tf.where(is_number, tf.zeros([], rows.dtype), tf.constant(math.nan, rows.dtype))
    hot = tf.where(tf.logical_and(hot, is_number), tf.ones([], rows.dtype), rest)
    return zero_masked(hot, mask), codes


def _ordered(rows, mask):
    """Scores without NaN or signed zeros, masked ones below every kept one."""
    rows = tf.where(tf.math.is_nan(rows), tf.zeros_like(rows), rows)
    rows = tf.where(rows == 0.0, tf.zeros_like(rows), tf.maximum(rows, rows.dtype.min))
    return rows if mask is None else tf.where(mask, rows, -math.inf)


def relaxed_top_k(
    logits: TensorLike,
    k: int,
    temperature: TensorLike,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    seed: Seed = None,
) -> tf.Tensor:
    """A relaxed draw of k classes without replacement (Xie & Ermon, Algorithm 2).

    The k-th class is a softmax, at this temperature, of the keys logits + Gumbel minus what
    the earlier ones have taken:

        a = softmax(keys / temperature);  result += a;  keys += log(1 - a).

    As the temperature goes to 0 it goes to the k largest keys. It sums to k, but a class
    may exceed 1 at temperatures from about 1/2 on. The temperature gets no gradient.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        k: whole number from 1 to `num_classes - 1`.
        temperature: positive number or tensor that broadcasts against `logits`.
        class_mask: boolean, broadcast against `logits`; True keeps the class. Where at most
            k are kept, they are 1.
        axis: The class axis.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        Tensor of the shape and dtype of `logits`.

    Example:

    >>> x = tfc.relaxations.relaxed_top_k(tf.zeros([3, 5]), 2, temperature=0.5, seed=0)
    >>> np.round(tf.reduce_sum(x, -1).numpy(), 3)
    array([2., 2., 2.], dtype=float32)
    """
    logits = tf.convert_to_tensor(logits)
    subset = prepare_subset(logits, k, class_mask, axis)
    check_temperature(temperature, logits.shape)
    sharpness = inverse_rows(temperature, logits, axis, subset.logits.dtype)
    relaxed = relax_rows(gumbel_keys(subset, seed), subset, k, sharpness)
    return tf.cast(from_rows(relaxed, logits, axis), logits.dtype)


def gumbel_keys(subset, seed):
    """logits + Gumbel on `SubsetRows`: the k largest are a draw without replacement."""
    shape = tf.concat([subset.lead, tf.shape(subset.logits)[-1:]], 0)
    keys = add_gumbel(tf.reshape(subset.logits, shape), seed)
    return tf.ensure_shape(tf.reshape(keys, tf.shape(subset.logits)), subset.logits.shape)


def hot_rows(keys, subset, k):
    """The k-hot rows of the largest keys."""
    return _largest(tf.stop_gradient(keys), subset.mask, k)[0]


def relax_rows(keys, subset, k, sharpness):
    """`relaxed_top_k` of keys; `sharpness` is 1 / temperature, without gradient."""
    if subset.mask is not None:
        keys = tf.where(subset.mask, keys, tf.cast(FILL, keys.dtype))
    relaxed = successive_softmax(keys * sharpness, k, sharpness)
    if subset.mask is None:
        return relaxed
    relaxed = tf.where(subset.forced, tf.ones([], keys.dtype), relaxed)
    return zero_masked(relaxed, subset.mask)
