"""The Logistic Normal distribution, with a temperature."""

import math

import tensorflow as tf
import tensorflow_probability as tfp

from tfconcrete._checks import check_broadcast, check_temperature
from tfconcrete._dtypes import float_at_least_32
from tfconcrete._seeds import as_seed
from tfconcrete.bijectors.parameters import as_parameter
from tfconcrete.distributions.parameters import (
    ParameterProperties,
    assert_sum,
    check_batch_temperature,
    check_free_parameter,
    common_dtype,
    positive_assertions,
    positive_property,
    simplex_bijector,
)
from tfconcrete.noise import normal
from tfconcrete.relaxations.concrete import FLOOR
from tfconcrete.relaxations.softmax_plus_plus import (
    log_softmax_plus_plus,
    softmax_plus_plus_inverse,
    softmax_plus_plus_log_det,
)

tfd = tfp.distributions

_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


class LogisticNormal(tfd.AutoCompositeTensorDistribution):
    """softmax([Normal(loc, scale), 0] / temperature): K-1 normals and a zero logit.

    The density is with respect to Lebesgue measure on the first K-1 coordinates.
    `log_prob` counts a coordinate below 1e-30 as 1e-30; use
    `experimental_sample_and_log_prob` where samples are that close to a vertex.

    Args:
        loc: float tensor `[..., K-1]`.
        scale_diag: positive float tensor `[..., K-1]`, the standard deviations.
        temperature: positive number or float tensor `[...]`, of the batch's shape.
        validate_args: Whether to check at run time what is only known then.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Events are `[K]`.

    Example:

    >>> d = tfc.distributions.LogisticNormal(tf.zeros([2]), tf.ones([2]), 0.5)
    >>> d.sample(seed=0).shape
    TensorShape([3])

    Reference:
        Maddison, Mnih & Teh (2017), "The Concrete Distribution", Section 4 and 5.2.
    """

    def __init__(
        self,
        loc,
        scale_diag,
        temperature,
        validate_args=False,
        allow_nan_stats=True,
        name="LogisticNormal",
    ):
        parameters = dict(locals())
        check_temperature(temperature)
        check_free_parameter(loc, "loc")
        check_free_parameter(scale_diag, "scale_diag")
        dtype = common_dtype(loc, scale_diag, temperature)
        self._loc = as_parameter(loc, "loc", dtype)
        self._scale_diag = as_parameter(scale_diag, "scale_diag", dtype)
        self._temperature = as_parameter(temperature, "temperature", dtype)
        check_broadcast(self._scale_diag.shape, "scale_diag", self._loc.shape, "loc")
        check_batch_temperature(self._temperature, self._loc, "loc")
        check_batch_temperature(self._temperature, self._scale_diag, "scale_diag")
        super().__init__(
            dtype=dtype,
            reparameterization_type=tfd.FULLY_REPARAMETERIZED,
            validate_args=validate_args,
            allow_nan_stats=allow_nan_stats,
            parameters=parameters,
            name=name,
        )

    @classmethod
    def _parameter_properties(cls, dtype, num_classes=None):
        def free(shape):
            shape = tf.convert_to_tensor(shape, tf.int32)
            return tf.concat([shape[:-1], shape[-1:] - 1], 0)

        return {
            "loc": ParameterProperties(event_ndims=1, shape_fn=free),
            "scale_diag": positive_property(dtype, event_ndims=1, shape_fn=free),
            "temperature": positive_property(dtype, shape_fn=lambda shape: shape[:-1]),
        }

    @property
    def loc(self):
        """The location of the normals, `[..., K-1]`."""
        return self._loc

    @property
    def scale_diag(self):
        """The standard deviations of the normals, `[..., K-1]`."""
        return self._scale_diag

    @property
    def temperature(self):
        """The temperature, of the batch's shape or one that broadcasts to it."""
        return self._temperature

    def _event_shape(self):
        free = tf.broadcast_static_shape(self._loc.shape[-1:], self._scale_diag.shape[-1:])
        if free.rank is None or free[0] is None:
            return tf.TensorShape([None])
        return tf.TensorShape([free[0] + 1])

    def _event_shape_tensor(self):
        return 1 + tf.broadcast_dynamic_shape(
            tf.shape(self._loc)[-1:], tf.shape(self._scale_diag)[-1:]
        )

    def _working_parameters(self):
        """loc, scale and temperature `[..., 1]` in the dtype to compute in."""
        dtype = float_at_least_32(self.dtype)
        loc, scale, temperature = (
            tf.cast(tf.convert_to_tensor(value), dtype)
            for value in (self._loc, self._scale_diag, self._temperature)
        )
        return loc, scale, temperature[..., tf.newaxis]

    def _draw(self, sample_shape, seed):
        """The logarithm of a sample, and its noise."""
        loc, scale, temperature = self._working_parameters()
        shape = tf.concat(
            [sample_shape, self.batch_shape_tensor(), self.event_shape_tensor() - 1], 0
        )
        noise = tf.cast(normal(shape, as_seed(seed)), loc.dtype)
        return log_softmax_plus_plus(loc + scale * noise, temperature), noise

    def _sample_n(self, n, seed=None):
        log_x, _ = self._draw([n], seed)
        return tf.cast(tf.exp(log_x), self.dtype)

    def _sample_and_log_prob(self, sample_shape, seed=None):
        log_x, noise = self._draw(sample_shape, seed)
        _, scale, temperature = self._working_parameters()
        log_prob = _log_normal(noise, scale) - softmax_plus_plus_log_det(log_x, temperature)
        sample = tf.cast(tf.exp(log_x), self.dtype)
        sample = self._set_sample_static_shape(sample, sample_shape)
        return sample, tf.cast(log_prob, self.dtype)

    def _log_prob(self, x):
        loc, scale, temperature = self._working_parameters()
        log_x = tf.math.log(tf.maximum(tf.cast(x, loc.dtype), FLOOR))
        y = softmax_plus_plus_inverse(log_x, temperature)
        log_density = _log_normal((y - loc) / scale, scale) - softmax_plus_plus_log_det(
            log_x, temperature
        )
        return tf.cast(log_density, self.dtype)

    def _mode(self):
        raise NotImplementedError(
            "The mode of `LogisticNormal` has no closed form. Use `discrete().mode()` for "
            "the most probable class of its location."
        )

    def discrete(self, name="discrete"):
        """The categorical of the location with a zero logit appended (Section 5.2).

        The rounded sample is a multinomial probit, whose mass function is not known;
        this is what the paper evaluates in its place.

        Returns:
            `tfd.OneHotCategorical` of this distribution's batch shape and dtype.
        """
        with self._name_and_control_scope(name):
            loc, _, _ = self._working_parameters()
            shape = tf.concat([self.batch_shape_tensor(), self.event_shape_tensor() - 1], 0)
            loc = tf.broadcast_to(loc, shape)
            logits = tf.concat([loc, tf.zeros_like(loc[..., :1])], -1)
            return tfd.OneHotCategorical(
                logits=tf.cast(logits, self.dtype), dtype=self.dtype
            )

    def _default_event_space_bijector(self):
        return simplex_bijector(self.dtype, self.validate_args)

    def _sample_control_dependencies(self, x):
        if not self.validate_args:
            return []
        return [
            tf.debugging.assert_non_negative(x, "A sample must not be negative."),
            assert_sum(x, "A sample must sum to 1."),
        ]

    def _parameter_control_dependencies(self, is_init):
        if not self.validate_args:
            return []
        return positive_assertions(
            self._temperature, "temperature", is_init
        ) + positive_assertions(self._scale_diag, "scale_diag", is_init)


def _log_normal(noise, scale):
    """The log density of loc + scale * noise, summed over the coordinates."""
    return tf.reduce_sum(-0.5 * tf.square(noise) - tf.math.log(scale) - _HALF_LOG_2_PI, -1)
