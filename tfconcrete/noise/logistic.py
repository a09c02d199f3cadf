"""Logistic noise: the difference of two Gumbels."""

import tensorflow as tf

from tfconcrete._seeds import as_seed, random_words
from tfconcrete._streams import note_law
from tfconcrete._typing import Seed, ShapeLike
from tfconcrete.noise.uniform import sign_and_tail


def logistic(shape: ShapeLike, seed: Seed = None) -> tf.Tensor:
    """Standard Logistic noise, log U - log(1 - U) (Concrete, Appendix F).

    Drawn as a sign and a tail probability, so that both tails are as fine as 31 bits
    allow: the values reach about +-22.9.

    Args:
        shape: Shape of the result; a list or an integer tensor.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        float32 tensor of shape `shape`.

    Example:

    >>> tfc.noise.logistic([2, 3], seed=0).dtype
    tf.float32
    """
    note_law("logistic")
    return logistic_of(random_words(shape, as_seed(seed)))


def logistic_of(words):
    """uint32 words to standard Logistic noise."""
    sign, tail = sign_and_tail(words)
    return sign * tf.math.log((1.0 - tail) / tail)
