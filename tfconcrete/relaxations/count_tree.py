"""Exact draws of independent Bernoulli variables given their sum, by halving.

Leaves are the classes, and each inner node of a binary tree holds the distribution of how
many of its classes are taken: the convolution of its children's. From the root, whose
number is given, each node's number is split between its children: log2(n) steps down, each
for all nodes of a level and all rows at once. All terms are positive, nothing cancels.

Layout `[number, nodes, rows]`: additions run along rows.
"""

import tensorflow as tf

from tfconcrete.noise.uniform import uniform

# Windows of a convolution are taken in at most _CHUNKS pieces of at least _CHUNK.
_CHUNK, _CHUNKS = 16, 4


def _slide(weights, x, size):
    """sum_i weights[i] * x[m + i] for m < size; `x` counts as 0 past its end."""
    length = weights.shape[0]
    missing = max(size + length - 1 - x.shape[0], 0)
    x = tf.pad(x, [[0, missing], [0, 0], [0, 0]])
    piece = max(_CHUNK, -(-length // _CHUNKS))
    return sum(
        tf.reduce_sum(
            weights[i : i + piece, tf.newaxis]
            * _windows(x[i : i + piece + size - 1], min(piece, length - i), size),
            axis=0,
        )
        for i in range(0, length, piece)
    )


def _windows(x, num, size):
    """`[num, size, ...]`, the windows `x[i : i + size]`, without gathering.

    Copies of `x` end to end, cut into rows of one element more than `x`: each row begins
    one element later.
    """
    x = x[: num + size - 1]
    length = num + size - 1
    copies = -(-num * (length + 1) // length)
    ends = tf.tile(x, [copies, 1, 1])[: num * (length + 1)]
    rows = tf.reshape(ends, [num, length + 1, x.shape[1], -1])
    return rows[:, :size]


def _convolve(a, b, size):
    """The distribution of the sum of two numbers, up to `size - 1`."""
    before = tf.pad(b, [[a.shape[0] - 1, 0], [0, 0], [0, 0]])
    return _slide(a[::-1], before, size)


def _halves(level):
    half = level.shape[1] // 2
    return level[:, :half], level[:, half:]


def count_tree(log_odds, k):
    """The distributions of the numbers taken below each node, up to k, leaves first.

    Args:
        log_odds: float tensor `[num_classes, rows]` of the variables.
        k: whole number, the largest sum.

    Returns:
        List of tensors `[numbers, nodes, rows]`. The parent of node i of m nodes has the
        children i and i + m / 2; an odd level is filled up by a node that takes none.
    """
    level = tf.stack([tf.sigmoid(-log_odds), tf.sigmoid(log_odds)])
    levels = []
    while level.shape[1] > 1:
        if level.shape[1] % 2:
            none = tf.one_hot([0], level.shape[0], axis=0, dtype=level.dtype)[..., tf.newaxis]
            level = tf.concat([level, none + tf.zeros_like(level[:, :1])], axis=1)
        levels.append(level)
        size = min(2 * (level.shape[0] - 1), k) + 1
        level = _convolve(*_halves(level), size)
    return [*levels, level]


def draw_given_sum(log_odds, count, k, lead, seed):
    """Zeros and ones with these log odds, given that they sum to `count`.

    Args:
        log_odds: float tensor `[num_classes, rows]` under which `count` is not unlikely.
        count: float tensor `[rows]` of whole numbers up to k.
        k: whole number.
        lead: integer tensor, the shape that the rows are of.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        Tensor of the shape and dtype of `log_odds`.
    """
    if log_odds.shape.num_elements() == 0:
        return tf.zeros_like(log_odds)  # TensorFlow's graph optimizer divides by this size
    dtype = log_odds.dtype
    levels = count_tree(log_odds, k)
    splits = sum(level.shape[1] // 2 for level in levels[:-1])
    noise = tf.reshape(uniform(tf.concat([lead, [splits]], 0), seed), [-1, splits])
    noise = tf.transpose(tf.cast(noise, dtype))
    taken = count[tf.newaxis]
    for level, parent in zip(levels[-2::-1], levels[:0:-1], strict=True):
        left, right = _halves(level)
        nodes = left.shape[1]
        taken = taken[:nodes]  # without the node that filled the level up
        numbers = tf.range(parent.shape[0], dtype=dtype)[:, tf.newaxis, tf.newaxis]
        given = tf.cast(numbers == taken, dtype)
        # P(left = j) P(right = taken - j), summed up to j. Not above the noise is the
        # last number with a chance at most, since the noise is above 0 and below 1.
        below = tf.cumsum(left * _slide(right, given, left.shape[0]), axis=0)
        threshold = noise[:nodes] * below[-1]
        noise = noise[nodes:]
        first = tf.reduce_sum(tf.cast(below < threshold, dtype), axis=0)
        taken = tf.concat([first, taken - first], axis=0)
    return taken[: log_odds.shape[0]]
