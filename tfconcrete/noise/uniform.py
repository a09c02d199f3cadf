"""Uniform noise from 32-bit words, converted here and not by TensorFlow.

TensorFlow's own conversion to floats differs between its kernels and XLA. Integer
words do not, and every step below is exact or correctly rounded, so one seed gives
the same uniforms bit for bit in eager, graph and XLA.
"""

import tensorflow as tf

from tfconcrete._seeds import as_seed, random_words
from tfconcrete._streams import note_law
from tfconcrete._typing import Seed, ShapeLike

# The largest float32 below 1. Words of the last 2**-25 would round up to 1.
_BELOW_ONE = 1.0 - 2.0**-24


def uniform(shape: ShapeLike, seed: Seed = None) -> tf.Tensor:
    """Uniform noise on the open interval (0, 1), with all 32 bits of each word.

    Values near 0 keep 32 bits (the smallest is 2**-33, about 1.2e-10); values near 1
    have float32's spacing, 6e-8. Whatever needs a fine tail should therefore read it
    near 0, as `gumbel` and `logistic` do.

    Args:
        shape: Shape of the result; a list or an integer tensor.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        float32 tensor of shape `shape`.

    Example:

    >>> tfc.noise.uniform([3], seed=0).shape
    TensorShape([3])
    """
    note_law("uniform")
    return open_interval(random_words(shape, as_seed(seed)))


def open_interval(words):
    """uint32 words to float32 in (0, 1): the middle of each word's cell."""
    # A product with a power of two is exact, so fusing it into the sum changes nothing.
    return tf.minimum(tf.cast(words, tf.float32) * 2.0**-32 + 2.0**-33, _BELOW_ONE)


def sign_and_tail(words):
    """A random sign, and a tail probability uniform on (0, 1/2] with 31 bits.

    Symmetric laws read both of their tails where floats are fine: near 0. The words are
    read as signed numbers, half a step off 0.

    Args:
        words: uint32 tensor.

    Returns:
        `(sign, tail)`, both float32 of the shape of `words`; `sign` is -1 or 1.
    """
    position = tf.cast(tf.bitcast(words, tf.int32), tf.float32) + 0.5
    return tf.sign(position), tf.abs(position) * 2.0**-32
