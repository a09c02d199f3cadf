"""Binary Concrete variables: samples, logits of samples, and log densities.

Maddison, Mnih & Teh (2017), Appendix B and C.3.2. A binary variable costs one Logistic
and one sigmoid, a quarter of a two-class softmax.
"""

import tensorflow as tf

from tfconcrete._checks import check_floating, check_mask, check_temperature, is_number
from tfconcrete._dtypes import cast, float_at_least_32
from tfconcrete._seeds import as_seed
from tfconcrete.noise import logistic
from tfconcrete.relaxations.concrete import FLOOR
from tfconcrete.relaxations.masking import finite, zero_masked
from tfconcrete.relaxations.temperature import cool


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
        check_mask(class_mask, logits.shape, axis=None)
        mask = tf.broadcast_to(tf.convert_to_tensor(class_mask), tf.shape(logits))
        mask.set_shape(logits.shape)
        logits = zero_masked(logits, mask)
    return finite(logits) if cut else logits, mask


def logit_bin_concrete(logits, temperature, class_mask=None, seed=None):
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
    return tf.cast(zero_masked(y, mask), logits.dtype)


def _scores(working, temperature, seed):
    check_temperature(temperature, working.shape)
    noise = tf.cast(logistic(tf.shape(working), seed), working.dtype)
    return cool(working + noise, temperature)


def bin_concrete(logits, temperature, class_mask=None, seed=None):
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


def logit_bin_concrete_log_prob(y, temperature, logits):
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


def bin_concrete_log_prob(x, temperature, logits):
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
    log_x = tf.math.log(tf.maximum(x, FLOOR))
    log_rest = tf.math.log(tf.maximum(1.0 - x, FLOOR))
    log_density = logit_bin_concrete_log_prob(log_x - log_rest, temperature, logits)
    return log_density - log_x - log_rest


def binary_from_quantile(logits, temperature, distribution, seed=None):
    """The binary construction of Appendix B with any noise instead of the Logistic.

    A real random variable Y with quantile function Phi^-1 is moved to
    X = Y - Phi^-1(1 / (1 + alpha)); then P(X > 0) = alpha / (1 + alpha), and
    sigmoid(X / temperature) relaxes the step.

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
    check_temperature(temperature)
    check_floating(logits, "logits")
    logits = tf.convert_to_tensor(logits)
    dtype = distribution.dtype
    threshold = distribution.quantile(tf.sigmoid(-cast(logits, dtype)))
    noise = distribution.sample(tf.shape(logits), seed=as_seed(seed))
    x = noise - threshold
    relaxed = tf.sigmoid(cool(x, temperature))
    discrete = tf.stop_gradient(x > 0.0)
    return tf.cast(relaxed, logits.dtype), tf.cast(discrete, logits.dtype)
