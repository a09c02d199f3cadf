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
from tfconcrete._floors import FILL, clip


def prepare_logits(logits, class_mask=None, axis=-1):
    """Checks logits and mask, and brings the logits to their working form.

    Three things happen: half precision becomes float32; masked classes get `FILL`; and
    each row is shifted (with no gradient) so that its largest kept logit is 0, which
    changes no probability but lets noise be added at full resolution however large the
    logits are. An infinite logit acts as the largest finite one (a row of -inf is
    uniform), and a NaN stays.

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
    if class_mask is None:
        return _below_the_largest(logits, axis), None
    mask = broadcast_mask(class_mask, logits, axis)
    logits = _below_the_largest(tf.where(mask, logits, logits.dtype.min), axis)
    return tf.where(mask, logits, tf.cast(FILL, logits.dtype)), mask


def _below_the_largest(logits, axis):
    """Each row minus its largest entry, from `FILL` to 0. The gradient passes.

    Whatever reads logits that far out is saturated, and its gradient is 0 already; the
    cuts' own gradients would cost three passes each.
    """

    @tf.custom_gradient
    def shift(logits):
        # Cuts by one op: a minimum or maximum of two loses a NaN under XLA on CPU.
        top = bounded(tf.reduce_max(logits, axis=axis, keepdims=True))
        return clip(bounded(logits) - top, FILL, 0.0), lambda upstream: upstream

    def bounded(x):
        return clip(x, x.dtype.min, x.dtype.max)

    return shift(logits)


def finite(logits):
    """Logits cut to `[FILL, -FILL]`, for infinite ones. The gradient passes."""

    @tf.custom_gradient
    def cut(logits):
        return clip(logits, FILL, -FILL), lambda upstream: upstream

    return cut(logits)


def broadcast_mask(class_mask, logits, axis):
    """Checks a mask and gives it the shape of `logits`; `axis` is None for binary units."""
    check_mask(class_mask, logits.shape, axis)
    mask = tf.broadcast_to(tf.convert_to_tensor(class_mask), tf.shape(logits))
    mask.set_shape(logits.shape)
    return mask


def zero_masked(value, mask):
    """`value` with exact zeros, and zero gradients, where the class is masked."""
    return value if mask is None else tf.where(mask, value, tf.zeros_like(value))
