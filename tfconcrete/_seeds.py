"""From whatever a user calls a seed to random words, and to further seeds.

A seed is the key of a Philox generator, whose counter has two halves. The upper half says
what the words are for, a `Stream`; the lower half counts blocks of four words (or, where
seeds are derived, is the number that is folded in). Two uses of one seed under different
names can therefore never read the same words, and a new use gets a new name here.
Philox mixes key and counter in ten rounds: neighbouring keys need no scrambling
(`tests/noise/test_independence.py` holds this to account).

`RowSeeds` are many seeds at once, one for each row of what is drawn.
"""

import numbers

import keras
import numpy as np
import tensorflow as tf

from tfconcrete._checks import invalid_type, invalid_value
from tfconcrete._philox import blocks_of_words, compiled_by_xla
from tfconcrete._row_seeds import RowSeeds, low_words
from tfconcrete._streams import Stream, note_read

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
              `keras.utils.set_random_seed`;
            - `RowSeeds`, returned as they are.

    Returns:
        int32 tensor of shape `[2]`.
    """
    if isinstance(seed, RowSeeds):
        return seed
    if seed is None:
        # The one stateful op of the package: no seed means that nobody holds a state.
        return tf.random.uniform([2], minval=-(2**31), maxval=2**31 - 1, dtype=tf.int32)
    if isinstance(seed, keras.random.SeedGenerator):
        seed = tf.convert_to_tensor(seed.next())
    elif isinstance(seed, numbers.Integral) and not isinstance(seed, (bool, np.bool_)):
        seed = int(seed)
        return tf.constant([_signed(seed % _WORD), _signed((seed // _WORD) % _WORD)], tf.int32)
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
    return low_words(seed)


def _philox(seed, shape, first, stream, dtype):
    """Raw words: Philox with `seed` as its key, from block `first` of the stream on."""
    if isinstance(first, int):
        counter = tf.constant([first, stream], tf.uint64)
    else:
        counter = tf.stack([tf.cast(first, tf.uint64), tf.constant(stream, tf.uint64)])
    # An explicit algorithm: `auto_select` scrambles the key again for every element
    # under XLA on CPU, at about 300 ns each; this costs 2 to 10 and gives the same
    # words in eager, graph and XLA.
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=shape,
        key=tf.reshape(tf.bitcast(seed, tf.uint64), [1]),
        counter=counter,
        alg=1,  # Philox; ThreeFry has no CPU kernel outside XLA
        dtype=dtype,
    )


def random_words(shape, seed, stream=Stream.NOISE):
    """Uniform uint32 words, a pure function of shape, int32 `[2]` seed and stream.

    With `RowSeeds` the first dimension of `shape` is that of the seeds.
    """
    if isinstance(seed, RowSeeds):
        return seed.words(shape, stream)
    note_read("Philox", seed, stream, 0, lambda: (tf.reduce_prod(shape) + 3) // 4)
    return _philox(seed, shape, 0, stream, tf.uint32)


def random_blocks(num_blocks, seed, stream=Stream.NOISE):
    """`random_words([num_blocks, 4], seed, stream)`, four times as fast under XLA on CPU.

    As long as they are used in that shape: a reshape leaves nothing of the gain.
    """
    if isinstance(seed, RowSeeds) or not compiled_by_xla():
        return random_words([num_blocks, 4], seed, stream)
    note_read("Philox", seed, stream, 0, lambda: num_blocks)
    return blocks_of_words(num_blocks, seed, stream)


def fold_in(seed, data, stream=Stream.FOLD):
    """A new seed from a seed and a whole number (a step, a replica id).

    Args:
        seed: int32 `[2]` tensor, or `RowSeeds`.
        data: whole number or scalar integer tensor.
        stream: What the seed is for. One number gives another seed in every stream.

    Returns:
        int32 `[2]` tensor, or `RowSeeds`.
    """
    if isinstance(seed, RowSeeds):
        return seed.fold_in(data, stream)
    note_read("Philox", seed, stream, data, lambda: 1)
    return _philox(seed, [2], data, stream, tf.int32)


def split(seed, num, stream=Stream.FOLD):
    """`num` independent seeds, as a list."""
    return [fold_in(seed, index, stream) for index in range(num)]
