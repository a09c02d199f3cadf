"""The numbers that stand for 0 and for log 0, each with its reason, in one place."""

import tensorflow as tf

# Coordinates of a simplex sample below this have lost their logarithm to underflow
# (XLA's log flushes denormals, so float32's smallest normal is no safe floor).
FLOOR = 1e-30

# A logit that no class with a chance ever has, finite so that gradients stay numbers.
# exp(FILL / temperature) is exactly 0 for every temperature below 1e27.
FILL = -1e30

# Numbers below these lose their logarithm: XLA's flushes denormals to -inf.
SMALLEST = {tf.float32: 1e-37, tf.float64: 1e-307}

# XLA's clip on CPU made a bound of a NaN before TensorFlow 2.21.
_CLIP_LOSES_NAN = tuple(map(int, tf.__version__.split(".")[:2])) < (2, 21)


def clip(x, smallest, largest):
    """`x` cut to `[smallest, largest]`; a NaN stays, in every mode and version."""
    clipped = tf.clip_by_value(x, smallest, largest)
    return tf.where(tf.math.is_nan(x), x, clipped) if _CLIP_LOSES_NAN else clipped


def log_floor(dtype):
    """What stands for log 0 in `dtype`: finite, and its exp is exactly 0."""
    return -6.5e4 if dtype == tf.float16 else -1e9


def above_floor(x):
    """`x`, at least `FLOOR`; a NaN stays, which a maximum under XLA on CPU would drop."""
    x = tf.convert_to_tensor(x)
    return clip(x, FLOOR, x.dtype.max)
