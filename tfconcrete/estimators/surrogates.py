"""Score-function surrogates from the objective's values and log q, both `[num_samples, batch]`.

Each returns a tensor whose value is the estimate of the objective and whose gradient is an
unbiased estimate of the objective's gradient: the score term, for the parameters of q, and
the gradient of the values themselves, for everything else they depend on. The values and
log q may come from any number of stochastic layers.
"""

import math
from typing import Any, NamedTuple

import tensorflow as tf

from tfconcrete._checks import (
    check_broadcast,
    check_flag,
    check_floating,
    check_number,
    invalid_value,
)
from tfconcrete._dtypes import cast, float_at_least_32
from tfconcrete._typing import TensorLike


def with_gradient_of(value, term):
    """`value`, with the gradient of `term` added to its own. `term - term` is exactly 0."""
    return value + (term - tf.stop_gradient(term))


def _pair(values, log_q, values_name, minimum, hint=""):
    """Checks the two tensors and brings them to one dtype, at least float32."""
    check_floating(values, values_name)
    check_floating(log_q, "log_q")
    log_q = tf.convert_to_tensor(log_q)
    dtype = float_at_least_32(log_q.dtype)
    log_q = tf.cast(log_q, dtype)
    values = tf.cast(tf.convert_to_tensor(values), dtype)
    if not values.shape.is_compatible_with(log_q.shape):
        raise ValueError(
            f"Invalid value received for argument `{values_name}`. Expected the shape of "
            f"`log_q`, {tuple(log_q.shape)}. Received: {values_name} of shape "
            f"{tuple(values.shape)}"
        )
    num_samples = values.shape[0] if values.shape.rank else None
    if num_samples is None or num_samples < minimum:
        raise ValueError(
            f"Invalid value received for argument `{values_name}`. Expected shape "
            f"[num_samples, *batch] with num_samples known and at least {minimum}{hint}. "
            f"Received: {values_name} of shape {values.shape}"
        )
    return values, log_q, num_samples


def _broadcast_baseline(baseline, values):
    """`baseline` at the shape of `values`, and never the other way round."""
    baseline = cast(baseline, values.dtype)
    common = check_broadcast(baseline.shape, "baseline", values.shape, "objective values")
    if not common.is_compatible_with(values.shape):
        raise ValueError(
            "Invalid value received for argument `baseline`. Expected a shape that "
            f"broadcasts to [num_samples, *batch], here {tuple(values.shape)}. "
            f"Received: baseline of shape {tuple(baseline.shape)}"
        )
    return tf.broadcast_to(baseline, tf.shape(values))


def reinforce_surrogate(values: TensorLike, log_q: TensorLike, baseline: Any = 0.0) -> tf.Tensor:
    """REINFORCE from values and log q: see `reinforce`.

    Args:
        values: float tensor `[num_samples, *batch]`, f(z) of each sample.
        log_q: float tensor `[num_samples, *batch]`, log q(z) of each sample.
        baseline: number or tensor that broadcasts to `values`; a sample's baseline must
            not depend on that sample. No gradient passes.

    Returns:
        Tensor `[*batch]`: the mean value, with the gradient of `reinforce`.

    Example:

    >>> values, log_q = tf.constant([[1.0], [3.0]]), tf.zeros([2, 1])
    >>> tfc.estimators.reinforce_surrogate(values, log_q).numpy()
    array([2.], dtype=float32)
    """
    values, log_q, _ = _pair(values, log_q, "values", minimum=1)
    signal = tf.stop_gradient(values - _broadcast_baseline(baseline, values))
    return with_gradient_of(tf.reduce_mean(values, axis=0), tf.reduce_mean(signal * log_q, axis=0))


class NVILResult(NamedTuple):
    """What `nvil` returns: the surrogate, the baseline's loss, the next running moments.

    Attributes:
        surrogate: tensor `[*batch]`, to be maximised where the objective is.
        baseline_loss: tensor `[*batch]`, to be minimised; trains the baseline alone.
        moments: `(mean, variance)` for the next step, or None.

    Example:

    >>> result = tfc.estimators.nvil_surrogate(tf.ones([1, 2]), tf.zeros([1, 2]))
    >>> surrogate, baseline_loss, moments = result
    >>> loss = tf.reduce_mean(-surrogate + baseline_loss)
    """

    surrogate: Any
    baseline_loss: Any
    moments: Any


def nvil_surrogate(
    values: TensorLike,
    log_q: TensorLike,
    baseline: Any = 0.0,
    moments: Any = None,
    normalize: bool = False,
    decay: float = 0.8,
) -> NVILResult:
    """NVIL from values and log q: see `nvil`.

    Args:
        values: float tensor `[num_samples, *batch]`, f(z) of each sample.
        log_q: float tensor `[num_samples, *batch]`, log q(z) of each sample.
        baseline, moments, normalize, decay: as in `nvil`.

    Returns:
        `NVILResult(surrogate, baseline_loss, moments)`, as in `nvil`.

    Example:

    >>> values, log_q = tf.constant([[1.0, 3.0]]), tf.zeros([1, 2])
    >>> result = tfc.estimators.nvil_surrogate(values, log_q, moments=(0.0, 0.0), decay=0.5)
    >>> [float(moment) for moment in result.moments]
    [1.0, 0.5]
    """
    check_flag(normalize, "normalize")
    check_number(decay, "decay", "a number from 0 to 1", 0.0, 1.0)
    if normalize and moments is None:
        raise invalid_value(
            "moments", "running moments `(mean, variance)` with normalize=True", moments
        )
    values, log_q, _ = _pair(values, log_q, "values", minimum=1)
    baseline = _broadcast_baseline(baseline, values)
    residual = tf.stop_gradient(values) - baseline
    center, scale = 0.0, 1.0
    if moments is not None:
        if not isinstance(moments, (tuple, list)) or len(moments) != 2:
            raise invalid_value("moments", "a pair `(mean, variance)` or None", moments)
        center, variance = (cast(moment, values.dtype) for moment in moments)
        if normalize:
            scale = tf.maximum(tf.sqrt(variance), 1.0)
        seen_mean, seen_variance = tf.nn.moments(
            tf.stop_gradient(residual), axes=list(range(values.shape.rank))
        )
        # A replica may be left without examples, which have no moments.
        is_empty = tf.equal(tf.size(values), 0)
        moments = (
            tf.where(is_empty, center, decay * center + (1.0 - decay) * seen_mean),
            tf.where(is_empty, variance, decay * variance + (1.0 - decay) * seen_variance),
        )
    signal = tf.stop_gradient((residual - center) / scale)
    surrogate = with_gradient_of(
        tf.reduce_mean(values, axis=0), tf.reduce_mean(signal * log_q, axis=0)
    )
    baseline_loss = tf.reduce_mean(tf.square(residual - center), axis=0)
    return NVILResult(surrogate, baseline_loss, moments)


def vimco_surrogate(log_weights: Any, log_q: TensorLike) -> tf.Tensor:
    """VIMCO from log weights and log q: see `vimco`.

    Args:
        log_weights: float tensor `[num_samples, *batch]`, log p(x, z) - log q(z | x) of each
            sample; `num_samples` at least 2.
        log_q: float tensor `[num_samples, *batch]`, log q(z | x) of each sample.

    Returns:
        Tensor `[*batch]`: the bound L_m, with the gradient of `vimco`.

    Example:

    >>> log_weights, log_q = tf.math.log([[1.0], [3.0]]), tf.zeros([2, 1])
    >>> bound = tfc.estimators.vimco_surrogate(log_weights, log_q)
    >>> round(float(tf.exp(bound)[0]), 4)
    2.0
    """
    log_weights, log_q, num_samples = _pair(
        log_weights, log_q, "log_weights", minimum=2, hint=" (of one sample, use `nvil`)"
    )
    bound = tf.reduce_logsumexp(log_weights, axis=0) - math.log(num_samples)
    # Sums over the samples before and after each one, never a total minus its own term:
    # that cancels where one weight dominates, and is inf - inf where a weight is zero.
    fixed = tf.stop_gradient(log_weights)
    fixed -= tf.reduce_max(fixed, axis=0)
    before = tf.math.cumulative_logsumexp(fixed, axis=0, exclusive=True)
    after = tf.math.cumulative_logsumexp(fixed, axis=0, exclusive=True, reverse=True)
    others = tf.cumsum(fixed, exclusive=True) + tf.cumsum(fixed, exclusive=True, reverse=True)
    stand_in = others / (num_samples - 1)
    # L_m - L_-i, in which log m and the maximum cancel.
    signal = tf.reduce_logsumexp(fixed, axis=0) - tf.reduce_logsumexp(
        tf.stack([before, after, stand_in]), axis=0
    )
    return with_gradient_of(bound, tf.reduce_sum(signal * log_q, axis=0))


def rloo_surrogate(values: TensorLike, log_q: TensorLike) -> tf.Tensor:
    """RLOO from values and log q: see `rloo`.

    Args:
        values: float tensor `[num_samples, *batch]`, f(z) of each sample; `num_samples` at
            least 2.
        log_q: float tensor `[num_samples, *batch]`, log q(z) of each sample.

    Returns:
        Tensor `[*batch]`: the mean value, with the gradient of `rloo`.

    Example:

    >>> values, log_q = tf.constant([[1.0], [3.0]]), tf.zeros([2, 1])
    >>> tfc.estimators.rloo_surrogate(values, log_q).numpy()
    array([2.], dtype=float32)
    """
    values, log_q, num_samples = _pair(values, log_q, "values", minimum=2)
    mean = tf.reduce_mean(values, axis=0)
    # f_i - mean_{j != i} f_j = (f_i - mean_j f_j) m / (m - 1)
    signal = tf.stop_gradient(values - mean) * (num_samples / (num_samples - 1))
    return with_gradient_of(mean, tf.reduce_mean(signal * log_q, axis=0))
