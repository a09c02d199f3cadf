"""Logits of a subset of k classes in their working form: rows, mask, size of the subset."""

import math
from typing import Any, NamedTuple

import tensorflow as tf

from tfconcrete._checks import (
    check_axis,
    check_count,
    check_floating,
    check_num_classes,
    invalid_value,
)
from tfconcrete._dtypes import cast, float_at_least_32
from tfconcrete._floors import FILL, clip
from tfconcrete.relaxations.masking import broadcast_mask


def check_subset_size(k, num_classes=None, name="k"):
    """A whole number from 1 to one less than the number of classes, where that is known."""
    k = check_count(k, name)
    if num_classes is not None and k >= num_classes:
        raise invalid_value(
            name, f"a whole number from 1 to {num_classes - 1}, of {num_classes} classes", k
        )
    return k


def to_rows(x, axis):
    """`x` as a matrix `[rows, num_classes]`, its class axis last."""
    x = tf.convert_to_tensor(x)
    return tf.reshape(_swap(x, axis), [-1, x.shape[axis]])


def from_rows(rows, like, axis):
    """A matrix `[rows, anything]` in the place of the one that `to_rows(like, axis)` gives."""
    last = _swap(like, axis)
    shape = tf.concat([tf.shape(last)[:-1], tf.shape(rows)[-1:]], 0)
    result = tf.reshape(rows, shape)
    result.set_shape(last.shape[:-1].concatenate(rows.shape[-1:]))
    return _swap(result, axis)


def _swap(x, axis):
    """`x` with `axis` and the last dimension exchanged."""
    rank = x.shape.rank
    axis %= rank
    if axis == rank - 1:
        return x
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    return tf.transpose(x, order)


def inverse_rows(temperature, logits, axis, dtype):
    """1 / temperature: a scalar, or a matrix of the shape that `to_rows` gives."""
    inverse = 1.0 / cast(temperature, dtype)
    if inverse.shape.rank == 0:
        return inverse
    return to_rows(tf.broadcast_to(inverse, tf.shape(logits)), axis)


class SubsetRows(NamedTuple):
    """What every formula of a subset reads.

    Attributes:
        logits: float tensor `[rows, num_classes]`, at least float32, relative to the row's
            k-th largest kept logit: those near it decide, and keep all their digits
            however large the others are. Cut to `[FILL, -FILL]`; `FILL` where masked. The
            gradient passes. A NaN stays.
        mask: boolean of that shape, or None.
        count: `[rows, 1]`, how many classes are taken: k, or all kept ones where fewer are.
        forced: boolean `[rows, 1]`, whether all kept classes are taken; None without mask.
        lead: shape, an integer tensor, of which the rows are: that of the logits with the
            class axis last, without it. Noise is drawn in it, for seeds that belong to rows.
    """

    logits: Any
    mask: Any
    count: Any
    forced: Any
    lead: Any


def prepare_subset(logits, k, class_mask=None, axis=-1):
    """Checks logits, mask and k, and brings the logits to their working form.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`), their number known.
        k: whole number from 1 to `num_classes - 1`.
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.

    Returns:
        `SubsetRows`.
    """
    check_floating(logits, "logits")
    logits = tf.convert_to_tensor(logits)
    check_axis(axis, logits.shape.rank)
    check_num_classes(logits.shape, axis)
    if logits.shape.rank is None or logits.shape[axis] is None:
        raise invalid_value("logits", "a known rank and number of classes", logits)
    k = check_subset_size(k, logits.shape[axis])
    working = tf.cast(logits, float_at_least_32(logits.dtype))
    mask = None if class_mask is None else to_rows(broadcast_mask(class_mask, logits, axis), axis)
    return _relative(to_rows(working, axis), mask, k, tf.shape(_swap(logits, axis))[:-1])


def _relative(rows, mask, k, lead):
    """`SubsetRows` of a matrix of logits."""

    def bounded(rows):
        return clip(rows, rows.dtype.min, rows.dtype.max)

    scores = bounded(tf.stop_gradient(rows))
    if mask is not None:
        scores = tf.where(mask, scores, -math.inf)
    # Reduced, not indexed: of a slice of `top_k` XLA on CPU makes a sort of the whole row.
    values = tf.math.top_k(scores, k).values
    if mask is None:
        count = tf.fill(tf.shape(values[:, :1]), tf.cast(k, rows.dtype))
        forced = None
        threshold = tf.reduce_min(values, axis=-1, keepdims=True)
    else:
        taken = values > -math.inf
        count = tf.reduce_sum(tf.cast(taken, rows.dtype), axis=-1, keepdims=True)
        kept = tf.reduce_sum(tf.cast(mask, rows.dtype), axis=-1, keepdims=True)
        forced = kept <= count
        threshold = tf.reduce_min(tf.where(taken, values, rows.dtype.max), axis=-1, keepdims=True)

    @tf.custom_gradient
    def shift(rows):
        return clip(bounded(rows) - threshold, FILL, -FILL), lambda upstream: upstream

    if mask is None:
        return SubsetRows(shift(rows), None, count, None, lead)
    shifted = shift(tf.where(mask, rows, rows.dtype.min))
    shifted = tf.where(mask, shifted, tf.cast(FILL, rows.dtype))
    return SubsetRows(shifted, mask, count, forced, lead)
