"""The common part of the distributions with a temperature and logits or probs."""

import tensorflow as tf
from tensorflow_probability import bijectors as tfb
from tensorflow_probability import distributions as tfd

from tfconcrete._checks import check_broadcast, check_floating, check_one_of, check_temperature
from tfconcrete._dtypes import float_at_least_32
from tfconcrete._seeds import as_seed
from tfconcrete._softmax import softmax
from tfconcrete._typing import TensorLike
from tfconcrete.bijectors.arguments import as_parameter
from tfconcrete.distributions.parameters import (
    ParameterProperties,
    check_batch_temperature,
    check_class_parameter,
    common_dtype,
    log_or_fill,
    num_classes_assertions,
    positive_assertions,
    positive_property,
    probs_assertions,
    simplex_bijector,
)
from tfconcrete.distributions.rounding import one_hot_categorical
from tfconcrete.noise import gumbel, logistic
from tfconcrete.relaxations.bin_concrete import prepare_binary_logits
from tfconcrete.relaxations.cooling import cool
from tfconcrete.relaxations.masking import prepare_logits


class RelaxedDistribution(tfd.AutoCompositeTensorDistribution):
    """A relaxed discrete variable: a temperature, and logits or probs.

    Attributes:
        event_space: Where events live: on the `"simplex"` (or between 0 and 1), on its
            `"log"`arithm, or on the real line, as a `"logit"`.
    """

    event_space = "simplex"

    def __init__(
        self,
        temperature: TensorLike,
        logits: TensorLike,
        probs: TensorLike | None,
        validate_args: bool,
        allow_nan_stats: bool,
        parameters,
        name: str,
    ) -> None:
        check_one_of(logits=logits, probs=probs)
        check_temperature(temperature)
        which = "probs" if logits is None else "logits"
        self._check_location(probs if logits is None else logits, which)
        dtype = common_dtype(logits, probs, temperature)
        self._temperature = as_parameter(temperature, "temperature", dtype)
        self._logits = as_parameter(logits, "logits", dtype)
        self._probs = as_parameter(probs, "probs", dtype)
        self._check_shapes(which)
        super().__init__(
            dtype=dtype,
            reparameterization_type=tfd.FULLY_REPARAMETERIZED,
            validate_args=validate_args,
            allow_nan_stats=allow_nan_stats,
            parameters=parameters,
            name=name,
        )

    @property
    def temperature(self):
        """The temperature, of the batch's shape or one that broadcasts to it."""
        return self._temperature

    @property
    def logits(self):
        """The argument `logits`, or None."""
        return self._logits

    @property
    def probs(self):
        """The argument `probs`, or None."""
        return self._probs

    def logits_parameter(self, name: str = "logits_parameter"):
        """The logits, computed from `probs` where those were given."""
        with self._name_and_control_scope(name):
            return tf.cast(self._working_logits(), self.dtype)

    def probs_parameter(self, name: str = "probs_parameter"):
        """The probabilities, computed from `logits` where those were given."""
        with self._name_and_control_scope(name):
            if self._logits is None:
                return tf.identity(self._probs)
            return tf.cast(self._normalize(self._working_logits()), self.dtype)

    @property
    def _location(self):
        return self._probs if self._logits is None else self._logits

    @property
    def _working_dtype(self):
        return float_at_least_32(self.dtype)

    def _working_temperature(self):
        return tf.cast(tf.convert_to_tensor(self._temperature), self._working_dtype)

    def _working_logits(self):
        if self._logits is None:
            return self._logits_from(tf.cast(self._probs, self._working_dtype))
        return tf.cast(tf.convert_to_tensor(self._logits), self._working_dtype)

    def _full_shape(self, sample_shape):
        return tf.concat([sample_shape, self.batch_shape_tensor(), self.event_shape_tensor()], 0)

    # A sample is an image of the base variable, whose logarithm or logit never underflows:
    # `_noise` -> `_base` -> `_image`. The log density of the base variable at the sample,
    # `_log_density`, is a function of the noise; `_log_change` takes it to the image.

    def _sample_n(self, n, seed=None):
        return self._image(self._base(self._noise(self._full_shape([n]), seed)))

    def _sample_and_log_prob(self, sample_shape, seed=None):
        noise = self._noise(self._full_shape(sample_shape), seed)
        base = self._base(noise)
        sample = self._set_sample_static_shape(self._image(base), sample_shape)
        log_prob = self._log_density(noise) + self._log_change(base)
        return sample, tf.cast(log_prob, self.dtype)

    def _parameter_control_dependencies(self, is_init):
        if not self.validate_args:
            return []
        return positive_assertions(
            self._temperature, "temperature", is_init
        ) + self._location_assertions(is_init)


class RelaxedOneHot(RelaxedDistribution):
    """A relaxed one-hot variable: logits `[..., K]`, a temperature `[...]`."""

    @staticmethod
    def _check_location(value, name):
        check_class_parameter(value, name)

    def _check_shapes(self, name):
        check_batch_temperature(self._temperature, self._location, name)

    def _location_assertions(self, is_init):
        name = "probs" if self._logits is None else "logits"
        return num_classes_assertions(self._location, name, is_init) + probs_assertions(
            self._probs, is_init, sums_to_one=True
        )

    @classmethod
    def _parameter_properties(cls, dtype, num_classes=None):
        return {
            "temperature": positive_property(dtype, shape_fn=lambda shape: shape[:-1]),
            "logits": ParameterProperties(event_ndims=1),
            "probs": ParameterProperties(
                event_ndims=1,
                default_constraining_bijector_fn=lambda: simplex_bijector(dtype),
                is_preferred=False,
            ),
        }

    @staticmethod
    def _logits_from(probs):
        return log_or_fill(probs)

    @staticmethod
    def _normalize(logits):
        return softmax(prepare_logits(logits)[0])

    def _event_shape(self):
        return self._location.shape[-1:]

    def _event_shape_tensor(self):
        return tf.shape(self._location)[-1:]

    def _noise(self, shape, seed):
        return tf.cast(gumbel(shape, as_seed(seed)), self._working_dtype)

    def _base(self, noise):
        """y = log_softmax((logits + Gumbel) / temperature) (Appendix C.3)."""
        logits, _ = prepare_logits(self._working_logits())
        temperature = self._working_temperature()[..., tf.newaxis]
        return tf.nn.log_softmax(cool(logits + noise, temperature))

    def _log_density(self, noise):
        """log kappa(y) at the sample.

        There, logits - t y is -Gumbel up to a constant of the row, which the log-softmax
        of the density removes. So log kappa needs neither logits nor y, has nothing to
        cancel, and its gradient through sample and parameters is exact.
        """
        num_classes = tf.cast(tf.shape(noise)[-1], noise.dtype)
        return (
            tf.math.lgamma(num_classes)
            + (num_classes - 1.0) * tf.math.log(self._working_temperature())
            + tf.reduce_sum(tf.nn.log_softmax(-noise), -1)
        )

    def discrete(self, name: str = "discrete") -> tfd.OneHotCategorical:
        """The distribution of the rounded sample (Proposition 1 b).

        Returns:
            `tfd.OneHotCategorical` of this distribution's batch shape and dtype.
        """
        with self._name_and_control_scope(name):
            logits, _ = prepare_logits(self._working_logits())
            logits = tf.broadcast_to(logits, self._full_shape([]))
            return one_hot_categorical(logits, self.dtype)


class RelaxedBinary(RelaxedDistribution):
    """A relaxed binary variable: logits and temperature that broadcast."""

    @staticmethod
    def _check_location(value, name):
        check_floating(value, name)

    def _check_shapes(self, name):
        check_broadcast(self._temperature.shape, "temperature", self._location.shape, name)

    def _location_assertions(self, is_init):
        return probs_assertions(self._probs, is_init, sums_to_one=False)

    @classmethod
    def _parameter_properties(cls, dtype, num_classes=None):
        return {
            "temperature": positive_property(dtype),
            "logits": ParameterProperties(),
            "probs": ParameterProperties(
                default_constraining_bijector_fn=tfb.Sigmoid, is_preferred=False
            ),
        }

    @staticmethod
    def _logits_from(probs):
        return log_or_fill(probs) - log_or_fill(1.0 - probs)

    @staticmethod
    def _normalize(logits):
        return tf.sigmoid(logits)

    def _event_shape(self):
        return tf.TensorShape([])

    def _event_shape_tensor(self):
        return tf.constant([], tf.int32)

    def _working_parameters(self):
        """`(temperature, logits)` in the working dtype; an infinite logit is cut off."""
        return self._working_temperature(), prepare_binary_logits(self._working_logits())[0]

    def _noise(self, shape, seed):
        return tf.cast(logistic(shape, as_seed(seed)), self._working_dtype)

    def _base(self, noise):
        """y = (logits + Logistic) / temperature (Eq. 26)."""
        temperature, logits = self._working_parameters()
        return cool(logits + noise, temperature)

    def _log_density(self, noise):
        """log g(y) at the sample, where logits - t y is -Logistic: nothing cancels."""
        log_temperature = tf.math.log(self._working_temperature())
        return log_temperature - noise - 2.0 * tf.nn.softplus(-noise)

    def discrete(self, name: str = "discrete") -> tfd.Bernoulli:
        """The distribution of the rounded sample (Proposition 2 b).

        Returns:
            `tfd.Bernoulli` of this distribution's batch shape and dtype.
        """
        with self._name_and_control_scope(name):
            _, logits = self._working_parameters()
            logits = tf.broadcast_to(logits, self._full_shape([]))
            return tfd.Bernoulli(logits=tf.cast(logits, self.dtype), dtype=self.dtype)
