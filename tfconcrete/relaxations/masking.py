"""Class masks, one pattern for every relaxation and estimator.

Masked logits are replaced (never multiplied) before anything is computed, so that an
inf or NaN there reaches neither a value nor a gradient, and results are zeroed after.
"""

import tensorflow as tf

from tfconcrete._checks import (
    check_axis,
    check_floating,
    check_mask,
    check_num_classes,
)
from tfconcrete._dtypes import float_at_least_32

# A logit that no class with a chance ever has, finite so that gradients stay numbers.
# exp(FILL / temperature) is exactly 0 for every temperature below 1e6.
FILL = -1e9


def log_floor(dtype):
    """What stands for log 0 in `dtype`: finite, and its exp is exactly 0."""
    return -6.5e4 if dtype == tf.float16 else FILL


def prepare_logits(logits, class_mask=None, axis=-1):
    """Checks logits and mask, and brings the logits to their working form.

    Three things happen: half precision becomes float32; masked classes get `FILL`; and
    each row is shifted (with no gradient) so that its largest kept logit is 0, which
    changes no probability but lets noise be added at full resolution however large the
    logits are. An infinite logit acts as a very large finite one.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.

    Returns:
        `(logits, mask)`: the working logits, and the mask broadcast to their shape as a
        boolean tensor, or None where no mask was given.
    """
    check_floating(logits, "logits")
    logits = tf.convert_to_tensor(logits)
    check_axis(axis, logits.shape.rank)
    check_num_classes(logits.shape, axis)
    logits = tf.cast(logits, float_at_least_32(logits.dtype))
    mask = None
    if class_mask is not None:
        check_mask(class_mask, logits.shape, axis)
        mask = tf.broadcast_to(tf.convert_to_tensor(class_mask), tf.shape(logits))
        mask.set_shape(logits.shape)
        logits = tf.where(mask, logits, tf.cast(FILL, logits.dtype))
    top = tf.reduce_max(tf.stop_gradient(logits), axis=axis, keepdims=True)
    logits = finite(logits - tf.clip_by_value(top, FILL, -FILL), high=0.0)
    if mask is not None:
        # Again, since a row whose kept logits are all as low as FILL has moved up.
        logits = tf.where(mask, logits, tf.cast(FILL, logits.dtype))
    return logits, mask


def finite(logits, high=-FILL):
    """Logits cut to `[FILL, high]`, for infinite ones. The gradient passes.

    Whatever reads logits that far out is saturated, and its gradient is 0 already; the
    cut's own gradient would cost three passes over the logits.
    """

    @tf.custom_gradient
    def cut(logits):
        return tf.clip_by_value(logits, FILL, high), lambda upstream: upstream

    return cut(logits)


def zero_masked(value, mask):
    """`value` with exact zeros, and zero gradients, where the class is masked."""
    return value if mask is None else tf.where(mask, value, tf.zeros_like(value))
