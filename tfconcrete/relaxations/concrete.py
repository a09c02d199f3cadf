"""The Concrete distribution and its logarithm: samples and log densities.

Maddison, Mnih & Teh (2017), "The Concrete Distribution". Equation numbers are theirs.
"""

import math

import tensorflow as tf

from tfconcrete._checks import check_axis, check_temperature
from tfconcrete._dtypes import cast
from tfconcrete._floors import above_floor, clip, log_floor
from tfconcrete._softmax import softmax
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.noise.gumbel import add_gumbel
from tfconcrete.relaxations.cooling import cool, match_temperature
from tfconcrete.relaxations.masking import prepare_logits, zero_masked


def perturb(logits, temperature, class_mask=None, axis=-1, seed=None):
    """(logits + Gumbel) / temperature, the argument of Eq. 10's softmax.

    Returns:
        `(scores, mask)`, as in `masking.prepare_logits`.
    """
    working, mask = prepare_logits(logits, class_mask, axis)
    temperature = match_temperature(temperature, working)
    return cool(add_gumbel(working, seed), temperature, mask), mask


def concrete(
    logits: TensorLike,
    temperature: TensorLike,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    seed: Seed = None,
) -> tf.Tensor:
    """A Concrete sample, softmax((logits + Gumbel) / temperature) (Eq. 10).

    Args:
        logits: float tensor `[..., num_classes]`, log alpha (classes along `axis`).
            Unnormalised log probabilities, not probabilities.
        temperature: positive number or tensor that broadcasts against `logits`.
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        Tensor of the shape and dtype of `logits`, on the simplex along `axis`.

    Example:

    >>> x = tfc.relaxations.concrete(tf.zeros([2, 3]), temperature=0.5, seed=0)
    >>> x.shape
    TensorShape([2, 3])
    """
    logits = tf.convert_to_tensor(logits)
    scores, mask = perturb(logits, temperature, class_mask, axis, seed)
    return tf.cast(zero_masked(softmax(scores, axis=axis), mask), logits.dtype)


def exp_concrete(
    logits: TensorLike,
    temperature: TensorLike,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    seed: Seed = None,
) -> tf.Tensor:
    """The logarithm of a Concrete sample, without underflow (Appendix C.3).

    y = (logits + Gumbel) / temperature - logsumexp((logits + Gumbel) / temperature).

    Args:
        logits: float tensor `[..., num_classes]`, log alpha (classes along `axis`).
        temperature: positive number or tensor that broadcasts against `logits`.
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        Tensor of the shape and dtype of `logits`; its `exp` is on the simplex. A masked
        class has a large finite negative value whose `exp` is exactly 0.

    Example:

    >>> y = tfc.relaxations.exp_concrete(tf.zeros([2, 3]), temperature=0.1, seed=0)
    >>> bool(tf.reduce_all(tf.math.is_finite(y)))
    True
    """
    logits = tf.convert_to_tensor(logits)
    scores, mask = perturb(logits, temperature, class_mask, axis, seed)
    y = tf.nn.log_softmax(scores, axis=axis)
    floor = log_floor(logits.dtype)
    y = clip(y, floor, y.dtype.max)
    if mask is not None:
        y = tf.where(mask, y, tf.cast(floor, y.dtype))
    return tf.cast(y, logits.dtype)


def exp_concrete_log_prob(
    y: TensorLike,
    temperature: TensorLike,
    logits: TensorLike,
    class_mask: TensorLike | None = None,
    axis: int = -1,
) -> tf.Tensor:
    """log kappa(y), the log density of `exp_concrete` (Appendix C.3).

    (n-1)! + (n-1) log t + sum_k a_k - n logsumexp(a) with a = logits - t y, which is
    summed as a log-softmax so that large terms cancel one by one. The density is with
    respect to prod_{i<n} dy_i / x_n, so that the change to `concrete` is the sum of y.

    Args:
        y: float tensor `[..., num_classes]` with logsumexp(y) = 0 along `axis`.
        temperature: positive number or tensor that broadcasts against `logits`
            (size 1 along `axis`).
        logits: float tensor that broadcasts against `y`, log alpha.
        class_mask: boolean, broadcast against `y`. A masked class counts neither in the
            factorial nor in the power of the temperature.
        axis: The class axis.

    Returns:
        Tensor of the shape of `y` without `axis`. A row with nothing kept gives 0.

    Example:

    >>> y = tf.math.log([0.25, 0.75])
    >>> float(tfc.relaxations.exp_concrete_log_prob(y, 1.0, tf.zeros([2])))
    -1.6739764213562012
    """
    check_temperature(temperature)
    y = tf.convert_to_tensor(y)
    check_axis(axis, y.shape.rank)
    temperature = cast(temperature, y.dtype)
    if axis >= 0 and y.shape.rank is not None:
        axis -= y.shape.rank  # counted from the end, it is the temperature's axis too
    logits, mask = prepare_logits(cast(logits, y.dtype) + tf.zeros_like(y), class_mask, axis)
    y = zero_masked(y, mask)
    log_temperature = tf.math.log(temperature)
    if temperature.shape.rank is None or temperature.shape.rank >= -axis:
        log_temperature = tf.squeeze(log_temperature, axis)
    scores = logits - temperature * y
    if mask is None:
        num_classes = tf.cast(tf.shape(scores)[axis], y.dtype)
        if scores.shape[axis] is not None:
            log_factorial = math.lgamma(scores.shape[axis])
        else:
            log_factorial = tf.math.lgamma(num_classes)
        terms = tf.nn.log_softmax(scores, axis=axis)
    else:
        num_classes = tf.reduce_sum(tf.cast(mask, y.dtype), axis=axis)
        num_classes = tf.maximum(num_classes, 1.0)
        log_factorial = tf.math.lgamma(num_classes)
        scores, _ = prepare_logits(scores, mask, axis)
        terms = zero_masked(tf.nn.log_softmax(scores, axis=axis), mask)
    return log_factorial + (num_classes - 1.0) * log_temperature + tf.reduce_sum(terms, axis=axis)


def concrete_log_prob(
    x: TensorLike,
    temperature: TensorLike,
    logits: TensorLike,
    class_mask: TensorLike | None = None,
    axis: int = -1,
) -> tf.Tensor:
    """The log density of `concrete` at `x` (Eq. 11), evaluated through log x.

    With respect to Lebesgue measure on the first n-1 coordinates. A coordinate below
    1e-30 counts as 1e-30: the sample has lost its logarithm there. Where samples are
    that close to a vertex, work with `exp_concrete` and its density instead.

    Args:
        x: float tensor `[..., num_classes]` on the simplex along `axis`.
        temperature: positive number or tensor that broadcasts against `logits`
            (size 1 along `axis`).
        logits: float tensor that broadcasts against `x`, log alpha.
        class_mask: boolean, broadcast against `x`; a masked class does not count.
        axis: The class axis.

    Returns:
        Tensor of the shape of `x` without `axis`.

    Example:

    >>> x = tf.constant([0.25, 0.75])
    >>> float(tfc.relaxations.concrete_log_prob(x, 1.0, tf.zeros([2])))
    0.0
    """
    y = tf.math.log(above_floor(x))
    log_kappa = exp_concrete_log_prob(y, temperature, logits, class_mask, axis)
    if class_mask is not None:
        y = tf.where(class_mask, y, tf.zeros_like(y))
    return log_kappa - tf.reduce_sum(y, axis=axis)
