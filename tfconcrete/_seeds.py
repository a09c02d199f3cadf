"""From whatever a user calls a seed to the int32 `[2]` seed that the noise reads.

A seed is the key of a Philox stream. Draws read the stream from block 0 on;
seeds derived with `fold_in` read the blocks whose upper counter word is 1, which
no draw reaches (2**64 blocks away), so that a child never repeats its parent.
Philox mixes key and counter in ten rounds: neighbouring keys need no scrambling
(`tests/noise/test_independence.py` holds this to account).
"""

import numbers

import keras
import numpy as np
import tensorflow as tf

from tfconcrete._checks import invalid_type, invalid_value

_WORD = 2**32


def _signed(word):
    return word - _WORD if word >= _WORD // 2 else word


def as_seed(seed=None):
    """Converts a seed to an int32 tensor of shape `[2]`.

    Args:
        seed: One of
            - a Python int (at most 64 bits are read): the same int gives the same
              noise on every call;
            - an integer tensor of shape `[2]`, as in `tf.random.stateless_*` and TFP;
            - a `keras.random.SeedGenerator`, whose state is advanced: two calls differ;
            - None: a fresh seed on every call, reproducible through
              `keras.utils.set_random_seed`.

    Returns:
        int32 tensor of shape `[2]`.
    """
    if seed is None:
        # The one stateful op of the package: no seed means that nobody holds a state.
        return tf.random.uniform(
            [2], minval=-(2**31), maxval=2**31 - 1, dtype=tf.int32
        )
    if isinstance(seed, keras.random.SeedGenerator):
        seed = tf.convert_to_tensor(seed.next())
    elif isinstance(seed, numbers.Integral) and not isinstance(seed, (bool, np.bool_)):
        seed = int(seed)
        return tf.constant(
            [_signed(seed % _WORD), _signed((seed // _WORD) % _WORD)], tf.int32
        )
    expected = "an int, an integer tensor of shape [2] or a `SeedGenerator`"
    if isinstance(seed, (bool, np.bool_, str, float)):
        raise invalid_type("seed", expected, seed)
    try:
        seed = tf.convert_to_tensor(seed)
    except (TypeError, ValueError):
        raise invalid_type("seed", expected, seed) from None
    if not seed.dtype.is_integer:
        raise invalid_type("seed", expected, seed)
    if not seed.shape.is_compatible_with([2]):
        raise invalid_value("seed", expected, seed)
    return _low_words(seed)


def _low_words(seed):
    """The low 32 bits of each of the two numbers, without a range check."""
    if seed.dtype in (tf.int32, tf.uint32):
        return tf.bitcast(seed, tf.int32)
    low = tf.bitwise.bitwise_and(tf.cast(seed, tf.int64), tf.constant(_WORD - 1, tf.int64))
    return tf.bitcast(tf.cast(low, tf.uint32), tf.int32)


def _philox(seed, shape, block, dtype):
    """Raw words: Philox with `seed` as its key, from the counter `block` on."""
    # An explicit algorithm: `auto_select` scrambles the key again for every element
    # under XLA on CPU, at about 300 ns each; this costs 2 to 10 and gives the same
    # words in eager, graph and XLA.
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=shape,
        key=tf.reshape(tf.bitcast(seed, tf.uint64), [1]),
        counter=block,
        alg=1,  # Philox; ThreeFry has no CPU kernel outside XLA
        dtype=dtype,
    )


def random_words(shape, seed):
    """Uniform uint32 words, a pure function of `shape` and the int32 `[2]` seed."""
    return _philox(seed, shape, tf.constant([0, 0], tf.uint64), tf.uint32)


def fold_in(seed, data):
    """A new int32 `[2]` seed from a seed and a whole number (a step, a replica id)."""
    data = tf.cast(data, tf.uint64)
    block = tf.stack([data, tf.ones_like(data)])
    return _philox(seed, [2], block, tf.int32)


def split(seed, num):
    """`num` independent int32 `[2]` seeds, as a list."""
    return [fold_in(seed, index) for index in range(num)]
