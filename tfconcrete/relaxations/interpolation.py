"""Interpolation of a simplex point to its nearest vertex (IGR, Eq. 23)."""

import numpy as np
import tensorflow as tf

from tfconcrete._checks import check_positive, invalid_value, static_value
from tfconcrete._dtypes import cast
from tfconcrete.relaxations.discretize import discretize
from tfconcrete.relaxations.stick_breaking import stick_breaking
from tfconcrete.relaxations.temperature import cool


def check_unit_temperature(temperature, name="temperature"):
    """A temperature in (0, 1]: above 1 the interpolation leaves the simplex."""
    check_positive(temperature, name)
    known = static_value(temperature)
    if known is not None and np.any(known.astype(np.float64) > 1.0):
        raise invalid_value(name, "a number in (0, 1] for the interpolation", temperature)
    return temperature


def interpolate(w, temperature):
    """t w + (1 - t) P(w), with P(w) the one-hot vector of the largest of the K entries.

    Args:
        w: float tensor `[..., K]` on the simplex.
        temperature: number or tensor in (0, 1] that broadcasts against `w`.

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
    return temperature * w + (1.0 - temperature) * discretize(w)


def interpolation(y, temperature):
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


def interpolate_inverse(z, temperature):
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
