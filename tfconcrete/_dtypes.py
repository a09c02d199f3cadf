"""Which dtype to compute in, and how to get there without losing digits."""

import tensorflow as tf

from tfconcrete._floors import clip


def float_at_least_32(dtype):
    """The dtype to compute in: half precision is computed in float32."""
    dtype = tf.as_dtype(dtype)
    return dtype if dtype in (tf.float32, tf.float64) else tf.float32


def working(tensors):
    """Float tensors in the dtype to compute in, in any nesting; others as they are."""

    def cast_one(x):
        x = tf.convert_to_tensor(x)
        return tf.cast(x, float_at_least_32(x.dtype)) if x.dtype.is_floating else x

    return tf.nest.map_structure(cast_one, tensors)


def cast_within(value, dtype):
    """`value` in `dtype`, at most its largest number where that would be infinite."""
    if dtype.max < value.dtype.max:
        value = clip(value, float(dtype.min), float(dtype.max))
    return tf.cast(value, dtype)


def cast(value, dtype):
    """`value` as a tensor of `dtype`.

    `tf.cast(0.1, tf.float64)` goes through float32 and is off by 1e-9; a plain number
    is converted directly here.
    """
    if tf.is_tensor(value) or hasattr(value, "assign"):
        return tf.cast(value, dtype)
    return tf.convert_to_tensor(value, dtype)
