"""Which dtype to compute in, and how to get there without losing digits."""

import tensorflow as tf


def float_at_least_32(dtype):
    """The dtype to compute in: half precision is computed in float32."""
    return dtype if dtype in (tf.float32, tf.float64) else tf.float32


def cast(value, dtype):
    """`value` as a tensor of `dtype`.

    `tf.cast(0.1, tf.float64)` goes through float32 and is off by 1e-9; a plain number
    is converted directly here.
    """
    if tf.is_tensor(value) or hasattr(value, "assign"):
        return tf.cast(value, dtype)
    return tf.convert_to_tensor(value, dtype)
