"""Numbers about gradient estimates: their variance, and how many of them vanish."""

import tensorflow as tf

from tfconcrete._checks import invalid_value
from tfconcrete._typing import TensorLike


def _flat(gradients):
    """A tensor or a structure of tensors, in one dtype and one list."""
    flat = [tf.convert_to_tensor(g) for g in tf.nest.flatten(gradients)]
    return [g if g.dtype == tf.float64 else tf.cast(g, tf.float32) for g in flat]


def gradient_variance(gradients: TensorLike) -> tf.Tensor:
    """The variance of repeated gradient estimates, averaged over the coordinates.

    Args:
        gradients: float tensor `[num_samples, ...]`, one estimate a row, or a list of
            such tensors (one for each weight, say).

    Returns:
        Scalar tensor: the unbiased variance over the first axis, averaged over all
        coordinates of all tensors.

    Example:

    >>> float(tfc.diagnostics.gradient_variance(tf.constant([[1.0, 0.0], [3.0, 0.0]])))
    1.0
    """
    total, count = 0.0, 0.0
    for g in _flat(gradients):
        if g.shape.rank == 0 or (g.shape[0] is not None and g.shape[0] < 2):
            raise invalid_value("gradients", "at least two estimates, one a row", g)
        num_samples = tf.cast(tf.shape(g)[0], g.dtype)
        squares = tf.square(g - tf.reduce_mean(g, axis=0, keepdims=True))
        total += tf.reduce_sum(squares) / (num_samples - 1.0)
        count += tf.cast(tf.size(g), g.dtype) / num_samples
    return total / count


def vanishing_gradients(gradients: TensorLike) -> tf.Tensor:
    """The share of gradient entries that are exactly zero (IGR, Figure 4).

    Args:
        gradients: float tensor of any shape, or a list of tensors.

    Returns:
        Scalar tensor in [0, 1].

    Example:

    >>> float(tfc.diagnostics.vanishing_gradients(tf.constant([0.0, 1e-30, 2.0, 0.0])))
    0.5
    """
    flat = _flat(gradients)
    zeros = tf.add_n([tf.math.count_nonzero(g == 0.0, dtype=tf.int64) for g in flat])
    size = tf.add_n([tf.size(g, out_type=tf.int64) for g in flat])
    return tf.cast(zeros / size, tf.float32)
