"""A softmax of any rank."""

import tensorflow as tf

# oneDNN's kernel, which TensorFlow takes on most CPUs, refuses tensors of a higher rank.
_HIGHEST_RANK = 5


def softmax(x, axis=-1):
    """`tf.nn.softmax`, as a matrix of rows where the rank is higher than its kernel takes."""
    rank = x.shape.rank
    if rank is None or rank <= _HIGHEST_RANK:
        return tf.nn.softmax(x, axis=axis)
    last, axis = rank - 1, axis % rank
    # The transposition that swaps two axes is its own inverse.
    swap = list(range(rank))
    swap[axis], swap[last] = last, axis
    rows = x if axis == last else tf.transpose(x, swap)
    shape = tf.shape(rows)
    flat = tf.nn.softmax(tf.reshape(rows, [tf.reduce_prod(shape[:-1]), shape[-1]]))
    rows = tf.ensure_shape(tf.reshape(flat, shape), rows.shape)
    return rows if axis == last else tf.transpose(rows, swap)
