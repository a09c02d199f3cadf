"""Philox written out for XLA: the words of TensorFlow's kernel, four times as fast.

XLA on CPU expands its own random op to four loops, one for each word of a block, and
computes the block in each of them. Here the four words of a block are chosen by an index,
and one loop computes each block once. Salmon, Moraes, Dror & Shaw (2011), "Parallel random
numbers: as easy as 1, 2, 3".
"""

import tensorflow as tf
from tensorflow.python.ops import control_flow_util

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORDS = 4


def compiled_by_xla():
    """Whether what is traced here becomes part of a program that XLA compiles."""
    if tf.executing_eagerly():
        return False
    graph = tf.compat.v1.get_default_graph()
    return bool(control_flow_util.GraphOrParentsInXlaContext(graph))


def blocks_of_words(num_blocks, seed, stream):
    """The first words of a seed's stream: `[num_blocks, 4]`, uint32.

    Args:
        num_blocks: whole number or scalar integer tensor.
        seed: int32 tensor `[2]`, the key.
        stream: whole number, the upper half of the counter.
    """
    keys = tf.unstack(tf.bitcast(seed, tf.uint32))
    # Nothing, but not known to be nothing before XLA sees it: with constant counters the
    # first round would be folded to constants as large as the result.
    nothing = tf.bitwise.bitwise_and(keys[0], _word(0))
    blocks = tf.cast(tf.range(num_blocks), tf.uint32)[:, tf.newaxis] + nothing
    x = [blocks, nothing, nothing + _word(stream), nothing]
    for round_number in range(_ROUNDS):
        (high_0, low_0), (high_2, low_2) = (
            _product(factor, word) for factor, word in zip(_MULTIPLIERS, x[::2], strict=True)
        )
        key_0, key_1 = (
            key + _word(round_number * step) for key, step in zip(keys, _KEY_STEPS, strict=True)
        )
        x = [_xor(high_2, x[1], key_0), low_2, _xor(high_0, x[3], key_1), low_0]
    position = tf.range(_WORDS) + tf.bitcast(nothing, tf.int32)
    first, second = tf.where(position < 1, x[0], x[1]), tf.where(position < 3, x[2], x[3])
    return tf.where(position < 2, first, second)


def _word(number):
    return tf.constant(number % 2**32, tf.uint32)


def _product(factor, word):
    """The upper and the lower half of a product of 64 bits."""
    product = tf.cast(word, tf.uint64) * tf.constant(factor, tf.uint64)
    upper = tf.bitwise.right_shift(product, tf.constant(32, tf.uint64))
    return tf.cast(upper, tf.uint32), tf.cast(product, tf.uint32)


def _xor(*words):
    result = words[0]
    for word in words[1:]:
        result = tf.bitwise.bitwise_xor(result, word)
    return result
