"""Softmaxes one after another, each lowering what it has taken (Xie & Ermon, Algorithm 2).

    a = softmax(scores);  result += a;  scores += log(1 - a) / temperature

The gradient is written out: with 1 - a near 0 neither pass takes a difference of nearly
equal numbers.
"""

import math

import tensorflow as tf

from tfconcrete._floors import FILL, FLOOR

# Up to this many steps are written out instead of looped over.
_IN_LINE = 16


def successive_softmax(scores, k, sharpness):
    """The sum of k softmaxes, each of scores that the earlier ones have lowered.

    Args:
        scores: float tensor `[rows, num_classes]`.
        k: whole number.
        sharpness: 1 / temperature, a scalar or a tensor of the shape of `scores`. It gets no
            gradient.

    Returns:
        Tensor of the shape of `scores` whose rows sum to k.
    """
    return (_in_line if k <= _IN_LINE else _in_loop)(scores, k, sharpness)


def _in_line(scores, k, sharpness):
    """One step after another: nothing is copied, and XLA divides each among the cores."""

    @tf.custom_gradient
    def total(scores):
        steps = []
        for _ in range(k):
            probs, share, scores = _take(scores, sharpness)
            steps.append((probs, share))

        def backward(upstream):
            adjoint = tf.zeros_like(upstream)
            for probs, share in reversed(steps):
                adjoint += _take_vjp(probs, share, upstream, sharpness * adjoint)
            return adjoint

        return tf.add_n([probs for probs, _ in steps]), backward

    return total(scores)


def _in_loop(scores, k, sharpness):
    """The same with two loops, whose programs do not grow with k."""

    @tf.custom_gradient
    def total(scores):
        row = tf.TensorShape([scores.shape[0], 1])
        steps = tf.TensorArray(scores.dtype, k, element_shape=scores.shape)
        shares = tf.TensorArray(scores.dtype, k, element_shape=row)

        def take(i, scores, total, steps, shares):
            probs, share, scores = _take(scores, sharpness)
            return i + 1, scores, total + probs, steps.write(i, probs), shares.write(i, share)

        _, _, total, steps, shares = tf.while_loop(
            lambda i, *_: i < k,
            take,
            (0, scores, tf.zeros_like(scores), steps, shares),
            maximum_iterations=k,
        )

        def backward(upstream):
            def put_back(i, adjoint):
                probs, share = steps.read(i), shares.read(i)
                return i - 1, adjoint + _take_vjp(probs, share, upstream, sharpness * adjoint)

            return tf.while_loop(
                lambda i, _: i >= 0,
                put_back,
                (k - 1, tf.zeros_like(upstream)),
                maximum_iterations=k,
            )[1]

        return total, backward

    return total(scores)


def _take(scores, sharpness):
    """a = softmax(scores), the share of all but the largest, scores + sharpness * log(1 - a)."""
    top = tf.reduce_max(scores, axis=-1, keepdims=True)
    # A NaN, as everything that is not below it, goes with the largest and spoils the sum.
    is_top = tf.logical_not(scores < top)
    zero, one = tf.zeros([], scores.dtype), tf.ones([], scores.dtype)
    # The power of the largest is 1 and not exp(scores - top): XLA may fuse that difference
    # with the product behind the scores, whose rounding is large where they are.
    unit = tf.where(tf.math.is_nan(scores), tf.cast(math.nan, scores.dtype), one)
    powers = tf.where(is_top, unit, tf.exp(scores - top))
    others = tf.reduce_sum(tf.where(is_top, zero, powers), axis=-1, keepdims=True)
    ties = tf.reduce_sum(tf.where(is_top, unit, zero), axis=-1, keepdims=True)
    scale = 1.0 / (others + ties)
    probs = powers * scale
    # 1 - a of the largest, from the others: not a difference of nearly equal numbers.
    rest = tf.where(is_top, (others + (ties - 1.0)) * scale, 1.0 - probs)
    lowered = scores + sharpness * tf.math.log(rest)
    return probs, others * scale, tf.where(rest < FLOOR, tf.cast(FILL, scores.dtype), lowered)


def _take_vjp(probs, share, upstream, adjoint):
    """The gradient of `_take` by its scores, past what they pass on unchanged.

    With log(1 - a_i) differentiated by score j, -a_i (1[i = j] - a_j) / (1 - a_i). For the
    one class with a_i > 1/2 the quotient is a_j's share among the others instead, of which
    `share` is the sum.
    """
    is_top = probs > 0.5
    zero = tf.zeros([], probs.dtype)
    low = tf.where(is_top, zero, probs)
    odds = adjoint * low / (1.0 - low)
    mean = tf.reduce_sum(probs * upstream - odds, axis=-1, keepdims=True)
    top = tf.reduce_sum(tf.where(is_top, adjoint * probs, zero), axis=-1, keepdims=True)
    ratio = top / tf.maximum(share, FLOOR)
    from_top = tf.where(is_top, -adjoint * probs, low * ratio)
    return probs * (upstream - mean) - odds + from_top
