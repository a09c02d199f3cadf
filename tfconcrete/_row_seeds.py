"""Many seeds at once, one for each row of what is drawn."""

import math

import numpy as np
import tensorflow as tf

from tfconcrete._checks import invalid_type, invalid_value
from tfconcrete._streams import note_read

_GAMMA = 0x9E3779B97F4A7C15


class RowSeeds:
    """Seeds of their own for the rows of what is drawn: row i depends on seed i alone.

    Goes wherever a seed goes and the result's first dimension is that of the rows. Philox
    takes one key at a time; rows read SplitMix64 (Steele, Lea & Flood, 2014), which is
    eight passes over all rows at once. Its states are the seeds mixed twice, so that
    neighbouring seeds have nothing in common.

    Args:
        seeds: integer tensor `[rows, 2]`.

    Example:

    >>> from tfconcrete._seeds import RowSeeds
    >>> seeds = tf.constant([[0, 7], [0, 8], [0, 9]])
    >>> many = tfc.noise.uniform([3, 5], RowSeeds(seeds))
    >>> one = tfc.noise.uniform([1, 5], RowSeeds(seeds[1:2]))
    >>> bool(tf.reduce_all(many[1] == one[0]))
    True
    """

    def __init__(self, seeds):
        expected = "an integer tensor of shape [rows, 2]"
        seeds = tf.convert_to_tensor(seeds)
        if not seeds.dtype.is_integer:
            raise invalid_type("seeds", expected, seeds)
        if not seeds.shape.is_compatible_with([None, 2]):
            raise invalid_value("seeds", expected, seeds)
        self.seeds = low_words(seeds)

    def _states(self, stream):
        start = tf.constant(np.uint64((_GAMMA * (2 * stream + 1)) % 2**64))
        return _mix(tf.bitcast(self.seeds, tf.uint64) + start)

    def words(self, shape, stream):
        """uint32 words of `shape`, whose first dimension is that of the seeds."""
        shape = tf.cast(shape, tf.int32)
        static = tf.get_static_value(shape)
        rows = self.seeds.shape[0]
        if static is not None and rows not in (None, static[0]):
            raise ValueError(
                "Invalid value received for argument `seed`. Expected one seed for each row "
                f"of a draw of shape {tuple(static)}. Received: {rows} seeds"
            )
        if static is not None:
            size = math.prod(int(n) for n in static[1:])
        else:
            size = tf.reduce_prod(shape[1:])
        pairs = (size + 1) // 2
        count = tf.cast(tf.range(1, pairs + 1), tf.uint64) * tf.constant(np.uint64(_GAMMA))
        note_read("SplitMix64", self.seeds, stream, 0, lambda: pairs)
        words = tf.bitcast(_mix(self._states(stream)[:, tf.newaxis] + count), tf.uint32)
        words = tf.reshape(words, tf.stack([tf.shape(self.seeds)[0], 2 * pairs]))
        return tf.reshape(words[:, :size], shape)

    def fold_in(self, data, stream):
        """As the function `fold_in`, for each row."""
        note_read("SplitMix64", self.seeds, stream, data, lambda: 1)
        offset = (tf.cast(data, tf.uint64) + tf.constant(1, tf.uint64)) * np.uint64(_GAMMA)
        return RowSeeds(tf.bitcast(_mix(self._states(stream) + offset), tf.int32))


def _mix(x):
    """SplitMix64's mixer, "Mix13" of Stafford (2011); uint64 to uint64."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, None)):
        x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(shift, tf.uint64)))
        if factor is not None:
            x *= tf.constant(np.uint64(factor))
    return x


def low_words(seed):
    """The low 32 bits of each of the two numbers, without a range check."""
    if seed.dtype in (tf.int32, tf.uint32):
        return tf.bitcast(seed, tf.int32)
    low = tf.bitwise.bitwise_and(tf.cast(seed, tf.int64), tf.constant(2**32 - 1, tf.int64))
    return tf.bitcast(tf.cast(low, tf.uint32), tf.int32)
