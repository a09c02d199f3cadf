"""The softmax++ map of the Invertible Gaussian Reparameterization (IGR, Eq. 21).

An invertible map from R^(K-1) onto the simplex. All of it is a softmax over K entries,
[y / temperature, log delta]: the remainder class is a class like the others, never
`1 - sum`, which goes negative in float32.
"""

import tensorflow as tf

from tfconcrete._dtypes import cast
from tfconcrete._floors import FILL
from tfconcrete._softmax import softmax
from tfconcrete._typing import TensorLike
from tfconcrete.relaxations.cooling import cool
from tfconcrete.relaxations.gaussian_argmax import gaussian_argmax_probs
from tfconcrete.relaxations.masking import finite, prepare_logits, zero_masked
from tfconcrete.relaxations.simplex_transform import (
    SimplexTransform,
    floored_log,
    free_classes,
    mask_scores,
)


def with_remainder(y, remainder):
    """[y, remainder] along the last axis, each broadcast to the batch of the other."""
    if remainder.shape.rank != 0:
        y += tf.zeros_like(remainder)
    return tf.concat([y, remainder + tf.zeros_like(y[..., :1])], -1)


def class_scores(y, temperature, delta=1.0):
    """[y / temperature, log delta], whose softmax is softmax++."""
    return with_remainder(cool(y, temperature), tf.math.log(cast(delta, y.dtype)))


def threshold(temperature, delta, dtype):
    """temperature * log delta: what a coordinate has to exceed for the remainder to lose."""
    return cast(temperature, dtype) * tf.math.log(cast(delta, dtype))


def log_softmax_plus_plus(
    y: TensorLike, temperature: TensorLike, delta: TensorLike = 1.0
) -> tf.Tensor:
    """log of `softmax_plus_plus`, exact where the simplex point underflows.

    Args:
        y: float tensor `[..., K-1]`.
        temperature: positive number or tensor that broadcasts against `y`.
        delta: positive number or tensor that broadcasts against `y[..., :1]`.

    Returns:
        Tensor `[..., K]`; the last entry is the remainder class.

    Example:

    >>> log_z = tfc.relaxations.log_softmax_plus_plus(tf.constant([9.0]), temperature=0.01)
    >>> log_z.numpy()
    array([   0., -900.], dtype=float32)
    """
    y = tf.convert_to_tensor(y)
    return tf.nn.log_softmax(finite(class_scores(y, temperature, delta)), axis=-1)


def softmax_plus_plus(y: TensorLike, temperature: TensorLike, delta: TensorLike = 1.0) -> tf.Tensor:
    """exp(y_k / t) / (sum_j exp(y_j / t) + delta), and the remainder (IGR, Eq. 21).

    Args:
        y: float tensor `[..., K-1]`.
        temperature: positive number or tensor that broadcasts against `y`.
        delta: positive number or tensor that broadcasts against `y[..., :1]`.

    Returns:
        Tensor `[..., K]` on the simplex; the last entry is the remainder class.

    Example:

    >>> tfc.relaxations.softmax_plus_plus(tf.zeros([3]), temperature=0.5).numpy()
    array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    return tf.exp(log_softmax_plus_plus(y, temperature, delta))


def softmax_plus_plus_inverse(
    log_z: TensorLike, temperature: TensorLike, delta: TensorLike = 1.0
) -> tf.Tensor:
    """y = t (log z_k - log z_K + log delta), from the logarithm of the simplex point.

    Args:
        log_z: float tensor `[..., K]`.
        temperature, delta: as in `softmax_plus_plus`.

    Returns:
        Tensor `[..., K-1]`.

    Example:

    >>> log_z = tfc.relaxations.log_softmax_plus_plus(tf.constant([9.0]), temperature=0.01)
    >>> tfc.relaxations.softmax_plus_plus_inverse(log_z, temperature=0.01).numpy().round(4)
    array([9.], dtype=float32)
    """
    log_z = tf.convert_to_tensor(log_z)
    temperature = cast(temperature, log_z.dtype)
    log_delta = tf.math.log(cast(delta, log_z.dtype))
    return temperature * (log_z[..., :-1] - log_z[..., -1:] + log_delta)


def softmax_plus_plus_log_det(log_z: TensorLike, temperature: TensorLike) -> tf.Tensor:
    """log |dz/dy| over the first K-1 coordinates, by the matrix determinant lemma.

    The Jacobian is diag(z) (I - 1 z^T) / t, so its determinant is
    prod_{k<K} z_k (1 - sum_{k<K} z_k) / t^(K-1), that is prod_k z_k / t^(K-1).

    Args:
        log_z: float tensor `[..., K]`, the logarithm of the image.
        temperature: positive number or tensor that broadcasts against `log_z`
            (size 1 along the last axis).

    Returns:
        Tensor `[...]`.

    Example:

    >>> log_z = tf.math.log([0.5, 0.5])
    >>> log_det = tfc.relaxations.softmax_plus_plus_log_det(log_z, temperature=1.0)
    >>> round(float(tf.exp(log_det)), 4)
    0.25
    """
    log_z = tf.convert_to_tensor(log_z)
    return tf.reduce_sum(log_z, -1) - temperature_log_det(log_z, temperature)


def temperature_log_det(z, temperature):
    """(K-1) log temperature `[...]`, for `z [..., K]` and a temperature `[..., 1]`."""
    log_temperature = tf.math.log(cast(temperature, z.dtype))
    if log_temperature.shape.rank != 0:
        log_temperature = tf.squeeze(log_temperature, -1)
    return tf.cast(tf.shape(z)[-1] - 1, z.dtype) * log_temperature


class SoftmaxTransform(SimplexTransform):
    """`"softmax++"`; and, for those that override `inner`, softmax++ of another map."""

    name = "softmax++"
    has_exact_probs = True

    def inner(self, y, mask=None):
        """`(x, mask)`: what softmax++ is applied to, `[..., K-1]`, and the classes kept."""
        return zero_masked(y, free_classes(mask)), mask

    def forward(self, y, temperature, delta=1.0, mask=None):
        x, mask = self.inner(y, mask)
        scores, mask = prepare_logits(class_scores(x, temperature, delta), mask)
        return zero_masked(softmax(scores, -1), mask)

    def scores(self, y, temperature, delta=1.0, mask=None):
        return mask_scores(with_remainder(y, threshold(temperature, delta, y.dtype)), mask)

    def probs(self, loc, scale, temperature, delta=1.0, mask=None):
        bar = threshold(temperature, delta, loc.dtype) + tf.zeros_like(loc[..., :1])
        if mask is not None:
            fill = tf.cast(FILL, loc.dtype)
            loc = tf.where(mask[..., :-1], loc, fill)
            scale = tf.where(mask[..., :-1], scale, tf.ones_like(scale))
            bar = tf.where(mask[..., -1:], bar, fill)
        return zero_masked(gaussian_argmax_probs(loc, scale, bar[..., 0]), mask)

    def forward_log_det(self, y, temperature, delta=1.0):
        log_z = log_softmax_plus_plus(y, temperature, delta)
        return softmax_plus_plus_log_det(log_z, temperature)

    def inverse(self, z, temperature, delta=1.0):
        return softmax_plus_plus_inverse(floored_log(z), temperature, delta)

    def inverse_log_det(self, z, temperature, delta=1.0):
        return -softmax_plus_plus_log_det(floored_log(z), temperature)
