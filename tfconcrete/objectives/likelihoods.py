"""log p(x | z) from a decoder's outputs: Bernoulli, Gaussian, categorical."""

import math
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfconcrete._checks import check_flag, check_number, invalid_type, invalid_value
from tfconcrete._dtypes import working
from tfconcrete._softmax import softmax
from tfconcrete._typing import TensorLike
from tfconcrete.objectives.mass import log_probs
from tfconcrete.relaxations.discretize import one_hot
from tfconcrete.relaxations.masking import finite


class WholeNumbers(NamedTuple):
    """The `data_range` of data that are whole numbers, of whatever dtype.

    Fields:
        lowest, highest: Whole numbers, both included.
        advice: What to do about other data.

    Example:

    >>> likelihood = tfc.objectives.Categorical()
    >>> lowest, highest, advice = likelihood.data_range((None, 28, 28, 256))
    >>> lowest, highest
    (0, 255)
    """

    lowest: int
    highest: int
    advice: str


class Likelihood:
    """How a decoder's outputs are read: a log probability of data, and a mean.

    Subclasses implement `sum_log_prob` and `mean`; `params_shape` and `data_shape` where the
    outputs have another shape than the data; `data_range` where not every number is data;
    and `get_config` where they have arguments. Register them with
    `keras.saving.register_keras_serializable` to save models that use them.

    Example:

    >>> @keras.saving.register_keras_serializable("example")
    ... class Laplace(tfc.objectives.Likelihood):
    ...     "Real data around the decoder's median, with scale 1."
    ...     name = "laplace"
    ...
    ...     def sum_log_prob(self, x, params, axes):
    ...         return -tf.reduce_sum(tf.abs(x - params) + np.log(2.0), axes)
    ...
    ...     def mean(self, params):
    ...         return params
    >>> round(float(Laplace().log_prob(tf.zeros([1, 2]), tf.zeros([1, 2]))[0]), 4)
    -1.3863
    """

    name = "data"

    def sum_log_prob(self, x: tf.Tensor, params: tf.Tensor, axes: list[int]) -> tf.Tensor:
        """log p(x | params), summed over `axes`: what a subclass defines.

        Args:
            x: tensor `[batch, ...]`, of the data's own dtype.
            params: tensor `[..., batch, ...]`, the decoder's outputs, at least float32.
            axes: list of negative ints, the dimensions of one example.

        Returns:
            Tensor `[..., batch]`.
        """
        raise NotImplementedError(
            f"Likelihood `{type(self).__name__}` must define `sum_log_prob(x, params, axes)`."
        )

    def mean(self, params: tf.Tensor) -> tf.Tensor:
        """The expected data, `[..., batch, ...]`, from the decoder's outputs."""
        raise NotImplementedError(f"Likelihood `{type(self).__name__}` must define `mean(params)`.")

    def params_shape(self, x_shape: Any) -> Any:
        """The shape of the decoder's outputs for data of shape `x_shape`."""
        return x_shape

    def data_shape(self, x_shape: Any) -> Any:
        """The shape of x without what is only a way of writing one value."""
        return tuple(x_shape)

    def data_range(self, params_shape: Any) -> Any:
        """`(lowest, highest, advice)` of the data, or `WholeNumbers` of these; None where every
        number is data.

        Args:
            params_shape: The shape of the decoder's outputs.
        """
        return None

    def log_prob(self, x: tf.Tensor, params: tf.Tensor) -> tf.Tensor:
        """log p(x | params) of each example, summed over its dimensions.

        Args:
            x: tensor `[batch, ...]`.
            params: float tensor `[..., batch, ...]`, the decoder's outputs; leading
                dimensions (of samples) are kept.

        Returns:
            Tensor `[..., batch]`, at least float32.
        """
        params = working(params)
        rank = len(self.params_shape(tuple(x.shape)))
        self.check(x.shape, params.shape[params.shape.rank - rank :])
        axes = list(range(1 - len(self.data_shape(x.shape)), 0))
        return self.sum_log_prob(x, params, axes)

    def num_dims(self, x: tf.Tensor) -> float | tf.Tensor:
        """How many dimensions an example has: what bits per dimension divide by."""
        sizes = self.data_shape(x.shape)[1:]
        if None not in sizes:
            return float(math.prod(sizes))
        return tf.cast(tf.reduce_prod(tf.shape(x)[1 : 1 + len(sizes)]), tf.float32)

    def check(self, x_shape: Any, params_shape: Any) -> None:
        """Raises unless the decoder's outputs describe data of this shape."""
        x_shape, params_shape = tuple(x_shape), tuple(params_shape)
        expected = self.params_shape(x_shape)
        compatible = tf.TensorShape(params_shape[1:]).is_compatible_with(expected[1:])
        if len(expected) != len(params_shape) or not compatible:
            raise ValueError(
                f"Invalid value received for argument `decoder`. Expected outputs of shape "
                f"{_text(expected)} for {self.name} data of shape {_text(x_shape)}. "
                f"Received: outputs of shape {_text(params_shape)}"
            )

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Likelihood":
        """The likelihood that `get_config` describes."""
        return cls(**config)


def sum_softplus_of_minus_abs(logits, ndims):
    """The sum of log(1 + exp(-|logits|)) over the last `ndims` dimensions.

    Eight factors in [1, 2] share one logarithm: it is what most of a likelihood's time
    goes to.

    Args:
        logits: float tensor.
        ndims: How many dimensions to sum over.

    Returns:
        Tensor without the last `ndims` dimensions.
    """
    sizes = logits.shape[logits.shape.rank - ndims :]
    axes = list(range(-ndims, 0))
    if not sizes.is_fully_defined() or sizes.num_elements() % 8:
        return tf.reduce_sum(tf.nn.softplus(-tf.abs(logits)), axes)

    @tf.custom_gradient
    def summed(logits):
        leading = tf.shape(logits)[: logits.shape.rank - ndims]
        factors = 1.0 + tf.exp(-tf.abs(logits))
        groups = [8, sizes.num_elements() // 8]
        factors = tf.reshape(factors, tf.concat([leading, groups], 0))
        logarithms = tf.math.log(tf.reduce_prod(factors, axis=-2))

        def gradient(upstream):
            upstream = tf.reshape(upstream, tf.concat([leading, [1] * ndims], 0))
            return -upstream * tf.sign(logits) * tf.sigmoid(-tf.abs(logits))

        return tf.reduce_sum(logarithms, -1), gradient

    return summed(logits)


def _text(shape):
    return "(" + ", ".join("batch" if i == 0 else str(d) for i, d in enumerate(shape)) + ")"


@keras.saving.register_keras_serializable(package="tfconcrete")
class Bernoulli(Likelihood):
    """Binary data from logits; grey values in [0, 1] count as means, as in GST's 5.1.

    An infinite logit counts as one of 1e30.

    Example:

    >>> likelihood = tfc.objectives.Bernoulli()
    >>> x, logits = tf.constant([[1.0, 0.0]]), tf.zeros([1, 2])
    >>> round(float(likelihood.log_prob(x, logits)[0]), 4)
    -1.3863
    """

    name = "bernoulli"

    def sum_log_prob(self, x: tf.Tensor, logits: tf.Tensor, axes: list[int]) -> tf.Tensor:
        # x a - log(1 + exp(a)), with max(a, 0) taken out of the logarithm term by term: in
        # sums of their own, large logits would take the digits of the others with them.
        logits = finite(logits)
        linear = (tf.cast(x, logits.dtype) - 0.5) * logits - 0.5 * tf.abs(logits)
        return tf.reduce_sum(linear, axes) - sum_softplus_of_minus_abs(logits, len(axes))

    def mean(self, logits: tf.Tensor) -> tf.Tensor:
        """The probability of 1."""
        return tf.sigmoid(logits)

    def data_range(self, params_shape: Any) -> Any:
        return 0.0, 1.0, "Scale images of 0 to 255 by 1/255, those of -1 to 1 by (x + 1) / 2"


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

    def __init__(self, scale: TensorLike = 1.0) -> None:
        self.scale = check_number(scale, "scale", "a positive finite number")
        if self.scale <= 0:
            raise invalid_value("scale", "a positive finite number", scale)

    def sum_log_prob(self, x: tf.Tensor, mean: tf.Tensor, axes: list[int]) -> tf.Tensor:
        standard = (tf.cast(x, mean.dtype) - mean) / self.scale
        constant = math.log(self.scale * math.sqrt(2.0 * math.pi))
        return tf.reduce_sum(-0.5 * tf.square(standard) - constant, axes)

    def mean(self, mean: tf.Tensor) -> tf.Tensor:
        """The mean, as the decoder gives it."""
        return mean

    def get_config(self) -> dict[str, Any]:
        return {"scale": self.scale}


@keras.saving.register_keras_serializable(package="tfconcrete")
class Categorical(Likelihood):
    """Data of `num_classes` values, from class logits `[batch, ..., num_classes]`.

    The data are whole numbers `[batch, ...]` of any dtype, or one-hot vectors of the
    logits' shape. A number that is no class, and a row of zeros, has a log probability of
    -inf.

    Args:
        one_hot: Whether the data are one-hot.

    Example:

    >>> likelihood = tfc.objectives.Categorical()
    >>> x, logits = tf.constant([[2, 0]]), tf.zeros([1, 2, 4])
    >>> round(float(likelihood.log_prob(x, logits)[0]), 4)
    -2.7726
    """

    name = "categorical"

    def __init__(self, one_hot: bool = False) -> None:
        self.one_hot = check_flag(one_hot, "one_hot")

    def sum_log_prob(self, x: tf.Tensor, logits: tf.Tensor, axes: list[int]) -> tf.Tensor:
        log_p = log_probs(logits)
        if self.one_hot:
            chosen = tf.cast(x, logits.dtype)
        else:
            x, num_classes = tf.convert_to_tensor(x), tf.shape(logits)[-1]
            chosen = one_hot(x, num_classes, dtype=logits.dtype)
        none = tf.equal(tf.reduce_sum(chosen, axis=-1), 0.0)
        if not self.one_hot and x.dtype.is_floating:
            none = tf.logical_or(none, tf.not_equal(x, tf.floor(x)))
        terms = tf.reduce_sum(chosen * log_p, axis=-1)
        terms = tf.where(none, tf.cast(-math.inf, terms.dtype), terms)
        return tf.reduce_sum(terms, axes)

    def mean(self, logits: tf.Tensor) -> tf.Tensor:
        """The class probabilities."""
        return softmax(logits, axis=-1)

    def params_shape(self, x_shape: Any) -> Any:
        return x_shape if self.one_hot else (*x_shape, None)

    def data_shape(self, x_shape: Any) -> Any:
        return tuple(x_shape)[:-1] if self.one_hot else tuple(x_shape)

    def data_range(self, params_shape: Any) -> Any:
        if self.one_hot:
            return 0.0, 1.0, "Give the data one-hot, or `Categorical()` for class numbers"
        if params_shape[-1] is None:
            return None
        advice = "Number the classes from 0, as many as the decoder has"
        return WholeNumbers(0, params_shape[-1] - 1, advice)

    def get_config(self) -> dict[str, Any]:
        return {"one_hot": self.one_hot}


LIKELIHOODS = {kind.name: kind for kind in (Bernoulli, Gaussian, Categorical)}


def get_likelihood(likelihood: str | Likelihood) -> Likelihood:
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
