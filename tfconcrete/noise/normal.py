"""Normal noise by inversion, fine in both tails."""

import tensorflow as tf

from tfconcrete._seeds import as_seed, random_words
from tfconcrete._streams import note_law
from tfconcrete._typing import Seed, ShapeLike
from tfconcrete.noise.uniform import sign_and_tail

# erfinv(x) / x as polynomials in w = -log(1 - x**2), for w < 5 and above: M. Giles,
# "Approximating the erfinv function" (GPU Computing Gems, 2011), single precision.
# TensorFlow's erfinv reads x itself, which is coarse near 1, and differs by 3e-2 in the
# tails between its kernel and XLA; Box-Muller costs three times this under XLA.
_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip
_SQRT_2 = 1.4142135623730951


def normal(shape: ShapeLike, seed: Seed = None) -> tf.Tensor:
    """Standard Normal noise, sqrt(2) erfinv(1 - 2 U).

    Args:
        shape: Shape of the result; a list or an integer tensor.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        float32 tensor of shape `shape`; the values reach about +-6.3.

    Example:

    >>> tfc.noise.normal([2, 3], seed=0).shape
    TensorShape([2, 3])
    """
    note_law("normal")
    return normal_of(random_words(shape, as_seed(seed)))


def normal_of(words):
    """uint32 words to standard Normal noise."""
    sign, tail = sign_and_tail(words)
    # x = 1 - 2 tail, so that 1 - x**2 = 4 tail (1 - tail) keeps the tail's precision.
    w = -tf.math.log(4.0 * tail * (1.0 - tail))
    ratio = tf.where(w < 5.0, _polynomial(_CENTRE, w - 2.5), _polynomial(_TAIL, tf.sqrt(w) - 3.0))
    return sign * _SQRT_2 * ratio * (1.0 - 2.0 * tail)


def _polynomial(coefficients, x):
    value = coefficients[0] * x + coefficients[1]
    for coefficient in coefficients[2:]:
        value = value * x + coefficient
    return value
