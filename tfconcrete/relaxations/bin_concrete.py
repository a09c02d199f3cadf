"""Binary Concrete variables: samples, logits of samples, and log densities.

Maddison, Mnih & Teh (2017), Appendix B and C.3.2. A binary variable costs one Logistic
and one sigmoid, a quarter of a two-class softmax.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from tfconcrete._checks import check_floating, check_temperature, invalid_value, is_number
from tfconcrete._dtypes import cast, cast_within, float_at_least_32
from tfconcrete._floors import above_floor, clip
from tfconcrete._seeds import as_seed
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.noise import logistic
from tfconcrete.relaxations.cooling import cool, match_temperature
from tfconcrete.relaxations.discretize import step
from tfconcrete.relaxations.masking import broadcast_mask, finite, zero_masked


def prepare_binary_logits(logits, class_mask=None, cut=True):
    """Checks element-wise logits and their mask; half precision becomes float32.

    Args:
        logits: float tensor of any shape.
        class_mask: boolean, broadcast against `logits`; a masked logit becomes 0.
        cut: Whether infinite logits become large finite ones.

    Returns:
        `(logits, mask)`; the mask is boolean of the logits' shape, or None.
    """
    check_floating(logits, "logits")
    logits = tf.convert_to_tensor(logits)
    logits = tf.cast(logits, float_at_least_32(logits.dtype))
    mask = None
    if class_mask is not None:
        mask = broadcast_mask(class_mask, logits, axis=None)
        logits = zero_masked(logits, mask)
    return finite(logits) if cut else logits, mask


def logit_bin_concrete(
    logits: TensorLike,
    temperature: TensorLike,
    class_mask: TensorLike | None = None,
    seed: Seed = None,
) -> tf.Tensor:
    """The logit of a Binary Concrete sample, (logits + Logistic) / temperature (Eq. 26).

    Args:
        logits: float tensor of any shape, log alpha of the state 1.
        temperature: positive number or tensor that broadcasts against `logits`.
        class_mask: boolean, broadcast against `logits`; a masked element is 0.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        Tensor of the shape and dtype of `logits`.

    Example:

    >>> tfc.relaxations.logit_bin_concrete(tf.zeros([3]), 2 / 3, seed=0).shape
    TensorShape([3])
    """
    logits = tf.convert_to_tensor(logits)
    working, mask = prepare_binary_logits(logits, class_mask)
    y = _scores(working, temperature, seed)
    return cast_within(zero_masked(y, mask), logits.dtype)


def _scores(working, temperature, seed):
    temperature = match_temperature(temperature, working)
    noise = tf.cast(logistic(tf.shape(working), seed), working.dtype)
    return cool(working + noise, temperature)


def bin_concrete(
    logits: TensorLike,
    temperature: TensorLike,
    class_mask: TensorLike | None = None,
    seed: Seed = None,
) -> tf.Tensor:
    """A Binary Concrete sample, sigmoid((logits + Logistic) / temperature) (Eq. 16).

    Args:
        logits: float tensor of any shape, log alpha of the state 1.
        temperature: positive number or tensor that broadcasts against `logits`.
        class_mask: boolean, broadcast against `logits`; a masked element is 0.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        Tensor of the shape and dtype of `logits`, in [0, 1].

    Example:

    >>> x = tfc.relaxations.bin_concrete(tf.zeros([3]), 2 / 3, seed=0)
    >>> bool(tf.reduce_all((x > 0) & (x < 1)))
    True
    """
    logits = tf.convert_to_tensor(logits)
    # A sigmoid bears infinite logits; the gradient of a temperature does not.
    working, mask = prepare_binary_logits(logits, class_mask, cut=not is_number(temperature))
    y = _scores(working, temperature, seed)
    return tf.cast(zero_masked(tf.sigmoid(y), mask), logits.dtype)


def logit_bin_concrete_log_prob(
    y: TensorLike, temperature: TensorLike, logits: TensorLike
) -> tf.Tensor:
    """The log density of `logit_bin_concrete` (Appendix C.3.2).

    log t + a - 2 softplus(a) with a = logits - t y.

    Args:
        y: float tensor.
        temperature, logits: tensors that broadcast against `y`.

    Returns:
        Tensor of the common shape.

    Example:

    >>> float(tfc.relaxations.logit_bin_concrete_log_prob(tf.constant(0.0), 1.0, 0.0))
    -1.3862943649291992
    """
    check_temperature(temperature)
    y = tf.convert_to_tensor(y)
    temperature = cast(temperature, y.dtype)
    a = cast(logits, y.dtype) - temperature * y
    return tf.math.log(temperature) + a - 2.0 * tf.nn.softplus(a)


def bin_concrete_log_prob(x: TensorLike, temperature: TensorLike, logits: TensorLike) -> tf.Tensor:
    """The log density of `bin_concrete` on (0, 1) (Eq. 17), through the logit of x.

    x and 1 - x below 1e-30 count as 1e-30; see `concrete_log_prob`.

    Args:
        x: float tensor in [0, 1].
        temperature, logits: tensors that broadcast against `x`.

    Returns:
        Tensor of the common shape.

    Example:

    >>> log_prob = tfc.relaxations.bin_concrete_log_prob(tf.constant(0.25), 1.0, 0.0)
    >>> abs(float(log_prob)) < 1e-6  # at temperature 1 and logit 0, uniform
    True
    """
    x = tf.convert_to_tensor(x)
    log_x = tf.math.log(above_floor(x))
    log_rest = tf.math.log(above_floor(1.0 - x))
    log_density = logit_bin_concrete_log_prob(log_x - log_rest, temperature, logits)
    return log_density - log_x - log_rest


def binary_from_quantile(
    logits: TensorLike, temperature: TensorLike, distribution: Any, seed: Seed = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """The binary construction of Appendix B with any noise instead of the Logistic.

    A real random variable Y with quantile function Phi^-1 is moved to
    X = Y - Phi^-1(1 / (1 + alpha)); then P(X > 0) = alpha / (1 + alpha), and
    sigmoid(X / temperature) relaxes the step.

    Logits are cut where 1 / (1 + alpha) reaches 0 or 1 in the distribution's dtype: below
    -15.9 and above 78.6 in float32. No gradient passes there.

    Args:
        logits: float tensor of any shape, log alpha of the state 1.
        temperature: positive number or tensor that broadcasts against `logits`.
        distribution: a scalar TFP distribution on the whole line with a `quantile`,
            such as `tfd.Normal(0., 1.)`.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        `(relaxed, discrete)`: the relaxed sample in (0, 1), and the draw in {0, 1} that
        shares its noise. Both have the shape and dtype of `logits`.

    Example:

    >>> import tensorflow_probability as tfp
    >>> noise = tfp.distributions.Normal(0.0, 1.0)
    >>> x, d = tfc.relaxations.binary_from_quantile(tf.zeros([3]), 0.5, noise, seed=0)
    >>> bool(tf.reduce_all((x > 0.5) == (d > 0.5)))
    True
    """
    check_floating(logits, "logits")
    logits = tf.convert_to_tensor(logits)
    temperature = match_temperature(temperature, logits)
    if distribution.batch_shape.rank or distribution.event_shape.rank:
        raise invalid_value("distribution", "a scalar distribution", distribution)
    dtype = tf.as_dtype(distribution.dtype)
    limits = np.finfo(dtype.as_numpy_dtype)
    bounded = clip(cast(logits, dtype), np.log(limits.eps), -0.9 * np.log(limits.tiny))
    threshold = distribution.quantile(tf.sigmoid(-tf.stop_gradient(bounded)))
    # A quantile's own gradient overflows far out. With p = sigmoid(-l) its derivative is
    # -p (1 - p) / density(quantile), which is finite as an exponential of logarithms.
    # TFP's quantiles are infinite from about 1e-25 on under XLA.
    reached = tf.math.is_finite(threshold)
    log_density = distribution.log_prob(zero_masked(threshold, reached))
    log_slope = -tf.nn.softplus(bounded) - tf.nn.softplus(-bounded) - log_density
    slope = -tf.stop_gradient(zero_masked(tf.exp(log_slope), reached))
    threshold = finite(threshold) + slope * (bounded - tf.stop_gradient(bounded))
    noise = distribution.sample(tf.shape(logits), seed=as_seed(seed))
    x = noise - threshold
    relaxed = tf.sigmoid(cool(x, temperature))
    return tf.cast(relaxed, logits.dtype), tf.cast(step(x), logits.dtype)
