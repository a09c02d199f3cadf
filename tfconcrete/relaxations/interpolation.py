"""Interpolation of a simplex point to its nearest vertex (IGR, Eq. 23)."""

import math
from collections.abc import Callable

import tensorflow as tf

from tfconcrete._dtypes import cast
from tfconcrete._softmax import softmax
from tfconcrete._typing import TensorLike
from tfconcrete.relaxations.cooling import cool
from tfconcrete.relaxations.discretize import discretize
from tfconcrete.relaxations.masking import zero_masked
from tfconcrete.relaxations.simplex_transform import floored_log
from tfconcrete.relaxations.softmax_plus_plus import temperature_log_det
from tfconcrete.relaxations.stick_breaking import (
    SticksTransform,
    log_stick_breaking,
    stick_breaking,
    stick_breaking_inverse,
    stick_breaking_log_det,
)


def check_unit_temperature(temperature):
    """A temperature in (0, 1]: above 1 the interpolation leaves the simplex."""
    InterpolationTransform().check(temperature)
    return temperature


def interpolate(w: TensorLike, temperature: TensorLike, vertex: Callable = discretize) -> tf.Tensor:
    """t w + (1 - t) P(w), with P(w) the one-hot vector of the largest of the K entries.

    Args:
        w: float tensor `[..., K]` on the simplex.
        temperature: number or tensor in (0, 1] that broadcasts against `w`.
        vertex: The function P.

    Returns:
        Tensor `[..., K]` on the simplex, with the same largest entry.

    Example:

    >>> w = tf.constant([0.25, 0.75])
    >>> tfc.relaxations.interpolate(w, temperature=0.5).numpy()
    array([0.125, 0.875], dtype=float32)
    """
    check_unit_temperature(temperature)
    w = tf.convert_to_tensor(w)
    temperature = cast(temperature, w.dtype)
    return temperature * w + (1.0 - temperature) * vertex(w)


def interpolation(y: TensorLike, temperature: TensorLike) -> tf.Tensor:
    """Stick-breaking, then interpolation to the nearest vertex (IGR, Eq. 23).

    Args:
        y: float tensor `[..., K-1]`.
        temperature: number or tensor in (0, 1] that broadcasts against `y`.

    Returns:
        Tensor `[..., K]` on the simplex; the last entry is the remainder class.

    Example:

    >>> tfc.relaxations.interpolation(tf.zeros([2]), temperature=0.5).numpy()
    array([0.75 , 0.125, 0.125], dtype=float32)
    """
    return interpolate(stick_breaking(y), temperature)


def interpolate_inverse(z: TensorLike, temperature: TensorLike) -> tf.Tensor:
    """w from z: (z_j / t) for all but the largest, which takes what is left.

    The largest entry is read off the others, because (z - (1 - t)) / t loses log10(1/t)
    digits there, and it is at least 1 / K, so that the difference is safe.

    Args:
        z: float tensor `[..., K]`, an image of `interpolate`.
        temperature: number or tensor in (0, 1] that broadcasts against `z`.

    Returns:
        Tensor `[..., K]`. Where `z` is no image of `interpolate`, the entry that should
        be largest is not.

    Example:

    >>> z = tf.constant([0.125, 0.875])
    >>> tfc.relaxations.interpolate_inverse(z, temperature=0.5).numpy()
    array([0.25, 0.75], dtype=float32)
    """
    z = tf.convert_to_tensor(z)
    top = discretize(z)
    others = cool(z * (1.0 - top), temperature)
    return others + top * (1.0 - tf.reduce_sum(others, -1, keepdims=True))


class InterpolationTransform(SticksTransform):
    """`"interpolation"`: stick-breaking, then towards the nearest vertex (Eq. 23).

    For t < 1 the image is K separate pieces of the simplex, one around each vertex.
    """

    name = "interpolation"
    max_temperature = 1.0

    def __init__(self, vertex=discretize):
        self._vertex = vertex

    def parameters(self, num_free):
        return ("temperature",)

    def forward(self, y, temperature, delta=1.0, mask=None):
        w = super().forward(y, mask=mask)
        return zero_masked(interpolate(w, temperature, self._vertex), mask)

    def smoothed(self, sharpness):
        def slope(w):
            return softmax(sharpness * floored_log(w), -1)

        return InterpolationTransform(slope)

    def forward_log_det(self, y, temperature, delta=1.0):
        return _log_det(log_stick_breaking(y), temperature)

    def inverse(self, z, temperature, delta=1.0):
        return stick_breaking_inverse(floored_log(interpolate_inverse(z, temperature)))

    def inverse_log_det(self, z, temperature, delta=1.0):
        w = interpolate_inverse(z, temperature)
        # In the image the largest entry of z is the largest stick too, up to rounding.
        tolerance = 1e-12 if z.dtype == tf.float64 else 1e-5
        top = tf.reduce_sum(w * discretize(z), -1)
        inside = top >= tf.reduce_max(w, -1) - tolerance
        log_det = _log_det(floored_log(w), temperature)
        return tf.where(inside, -log_det, tf.cast(-math.inf, z.dtype))


def _log_det(log_w, temperature):
    return stick_breaking_log_det(log_w) + temperature_log_det(log_w, temperature)
