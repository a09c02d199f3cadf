"""log p(x | z) from a decoder's outputs: Bernoulli, Gaussian, categorical."""

import math

import keras
import tensorflow as tf

from tfconcrete._checks import check_number, invalid_type, invalid_value


class Likelihood:
    """How a decoder's outputs are read: a log probability of data, and a mean.

    Subclasses implement `_log_prob`, which sums over the axes of the data's dimensions,
    `mean` and, where the outputs have another shape than the data, `_params_shape`.
    """

    name = None

    def log_prob(self, x, params):
        """log p(x | params) of each example, summed over its dimensions.

        Args:
            x: tensor `[batch, ...]`.
            params: float tensor `[..., batch, ...]`, the decoder's outputs; leading
                dimensions (of samples) are kept.

        Returns:
            Tensor `[..., batch]`, at least float32.
        """
        params = tf.convert_to_tensor(params)
        if params.dtype in (tf.float16, tf.bfloat16):
            params = tf.cast(params, tf.float32)
        self.check(x.shape, params.shape[params.shape.rank - self._rank(x.shape) :])
        return self._log_prob(x, params, list(range(1 - len(self._dims(x.shape)), 0)))

    def num_dims(self, x):
        """How many dimensions an example has: what bits per dimension divide by."""
        sizes = self._dims(x.shape)[1:]
        if None not in sizes:
            return float(math.prod(sizes))
        return tf.cast(tf.reduce_prod(tf.shape(x)[1 : 1 + len(sizes)]), tf.float32)

    def check(self, x_shape, params_shape):
        """Raises unless the decoder's outputs describe data of this shape."""
        x_shape, params_shape = tuple(x_shape), tuple(params_shape)
        expected = self._params_shape(x_shape)
        compatible = tf.TensorShape(params_shape[1:]).is_compatible_with(expected[1:])
        if len(expected) != len(params_shape) or not compatible:
            raise ValueError(
                f"Invalid value received for argument `decoder`. Expected outputs of shape "
                f"{_text(expected)} for {self.name} data of shape {_text(x_shape)}. "
                f"Received: outputs of shape {_text(params_shape)}"
            )

    def _params_shape(self, x_shape):
        return x_shape

    def _rank(self, x_shape):
        return len(self._params_shape(tuple(x_shape)))

    def _dims(self, x_shape):
        """The shape of x without what is only a way of writing one value."""
        return tuple(x_shape)

    def get_config(self):
        return {}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def sum_softplus(logits, ndims):
    """The sum of log(1 + exp(logits)) over the last `ndims` dimensions.

    log(1 + exp(a)) = max(a, 0) + log(1 + exp(-|a|)), where the second terms share one
    logarithm for eight factors in [1, 2]: it is what most of a likelihood's time goes to.
    The gradient is the sigmoid, as always.

    Args:
        logits: float tensor.
        ndims: How many dimensions to sum over.

    Returns:
        Tensor without the last `ndims` dimensions.
    """
    sizes = logits.shape[logits.shape.rank - ndims :]
    axes = list(range(-ndims, 0))
    if not sizes.is_fully_defined() or sizes.num_elements() % 8:
        return tf.reduce_sum(tf.nn.softplus(logits), axes)

    @tf.custom_gradient
    def summed(logits):
        leading = tf.shape(logits)[: logits.shape.rank - ndims]
        factors = 1.0 + tf.exp(-tf.abs(logits))
        groups = [8, sizes.num_elements() // 8]
        factors = tf.reshape(factors, tf.concat([leading, groups], 0))
        logarithms = tf.math.log(tf.reduce_prod(factors, axis=-2))
        value = tf.reduce_sum(tf.maximum(logits, 0.0), axes) + tf.reduce_sum(logarithms, -1)

        def gradient(upstream):
            upstream = tf.reshape(upstream, tf.concat([leading, [1] * ndims], 0))
            return upstream * tf.sigmoid(logits)

        return value, gradient

    return summed(logits)


def _text(shape):
    return "(" + ", ".join("batch" if i == 0 else str(d) for i, d in enumerate(shape)) + ")"


@keras.saving.register_keras_serializable(package="tfconcrete")
class Bernoulli(Likelihood):
    """Binary data from logits; grey values in [0, 1] count as means, as in GST's 5.1.

    Example:

    >>> likelihood = tfc.objectives.Bernoulli()
    >>> x, logits = tf.constant([[1.0, 0.0]]), tf.zeros([1, 2])
    >>> round(float(likelihood.log_prob(x, logits)[0]), 4)
    -1.3863
    """

    name = "bernoulli"

    def _log_prob(self, x, logits, axes):
        linear = tf.reduce_sum(tf.cast(x, logits.dtype) * logits, axes)
        return linear - sum_softplus(logits, len(axes))

    def mean(self, logits):
        """The probability of 1."""
        return tf.sigmoid(logits)


@keras.saving.register_keras_serializable(package="tfconcrete")
class Gaussian(Likelihood):
    """Real data around the decoder's mean, with one fixed scale.

    Args:
        scale: The standard deviation, a positive number.

    Example:

    >>> likelihood = tfc.objectives.Gaussian(scale=1.0)
    >>> x = tf.zeros([1, 2])
    >>> round(float(likelihood.log_prob(x, x)[0]), 4)
    -1.8379
    """

    name = "gaussian"

    def __init__(self, scale=1.0):
        self.scale = check_number(scale, "scale", "a positive finite number")
        if self.scale <= 0:
            raise invalid_value("scale", "a positive finite number", scale)

    def _log_prob(self, x, mean, axes):
        standard = (tf.cast(x, mean.dtype) - mean) / self.scale
        constant = math.log(self.scale * math.sqrt(2.0 * math.pi))
        return tf.reduce_sum(-0.5 * tf.square(standard) - constant, axes)

    def mean(self, mean):
        """The mean, as the decoder gives it."""
        return mean

    def get_config(self):
        return {"scale": self.scale}


@keras.saving.register_keras_serializable(package="tfconcrete")
class Categorical(Likelihood):
    """Data of `num_classes` values, from class logits `[batch, ..., num_classes]`.

    The data are whole numbers `[batch, ...]` of any dtype, or one-hot vectors of the
    logits' shape.

    Args:
        one_hot: Whether the data are one-hot.

    Example:

    >>> likelihood = tfc.objectives.Categorical()
    >>> x, logits = tf.constant([[2, 0]]), tf.zeros([1, 2, 4])
    >>> round(float(likelihood.log_prob(x, logits)[0]), 4)
    -2.7726
    """

    name = "categorical"

    def __init__(self, one_hot=False):
        self.one_hot = bool(one_hot)

    def _log_prob(self, x, logits, axes):
        if self.one_hot:
            x = tf.cast(x, logits.dtype)
        else:
            x = tf.one_hot(tf.cast(x, tf.int32), logits.shape[-1], dtype=logits.dtype)
        log_probs = tf.reduce_sum(x * tf.nn.log_softmax(logits, axis=-1), axis=-1)
        return tf.reduce_sum(log_probs, axes)

    def mean(self, logits):
        """The class probabilities."""
        return tf.nn.softmax(logits, axis=-1)

    def _params_shape(self, x_shape):
        return x_shape if self.one_hot else (*x_shape, None)

    def _dims(self, x_shape):
        return tuple(x_shape)[:-1] if self.one_hot else tuple(x_shape)

    def get_config(self):
        return {"one_hot": self.one_hot}


LIKELIHOODS = {kind.name: kind for kind in (Bernoulli, Gaussian, Categorical)}


def get_likelihood(likelihood):
    """A likelihood from its name or the object itself.

    Args:
        likelihood: `"bernoulli"`, `"gaussian"`, `"categorical"` or a `Likelihood`.

    Returns:
        A `Likelihood`.

    Example:

    >>> type(tfc.objectives.get_likelihood("bernoulli")).__name__
    'Bernoulli'
    """
    expected = "a `Likelihood` or one of " + ", ".join(f'"{name}"' for name in LIKELIHOODS)
    if isinstance(likelihood, Likelihood):
        return likelihood
    if not isinstance(likelihood, str):
        raise invalid_type("likelihood", expected, likelihood)
    if likelihood not in LIKELIHOODS:
        raise invalid_value("likelihood", expected, likelihood)
    return LIKELIHOODS[likelihood]()
