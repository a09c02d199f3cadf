"""What the distributions of Gaussians mapped onto the simplex share."""

import math

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfconcrete._checks import check_broadcast
from tfconcrete._dtypes import float_at_least_32
from tfconcrete._seeds import as_seed
from tfconcrete.bijectors.arguments import as_parameter, is_reference
from tfconcrete.bijectors.simplex import at_most
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

_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


class GaussianSimplex(tfd.AutoCompositeTensorDistribution):
    """g(y, temperature) with y ~ Normal(loc, scale_diag), for a `SimplexTransform` g.

    Parameters are `[..., K-1]`, events `[K]`; densities are with respect to Lebesgue measure
    on the first K-1 coordinates.
    """

    def __init__(
        self,
        simplex_transform,
        loc,
        scale_diag,
        temperature,
        delta,
        validate_args,
        allow_nan_stats,
        parameters,
        name,
    ):
        simplex_transform.check(temperature, delta)
        self.simplex_transform = simplex_transform
        check_free_parameter(loc, "loc")
        check_free_parameter(scale_diag, "scale_diag")
        dtype = common_dtype(loc, scale_diag, temperature, delta)
        self._loc = as_parameter(loc, "loc", dtype)
        self._scale_diag = as_parameter(scale_diag, "scale_diag", dtype)
        self._temperature = as_parameter(temperature, "temperature", dtype)
        self._delta = as_parameter(delta, "delta", dtype)
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
        """The location of the Gaussians, `[..., K-1]`."""
        return self._loc

    @property
    def scale_diag(self):
        """The standard deviations of the Gaussians, `[..., K-1]`."""
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

    def gaussians(self):
        """`(loc, scale)` in the dtype to compute in."""
        return self._working(self._loc), self._working(self._scale_diag)

    def _working(self, value):
        return tf.cast(tf.convert_to_tensor(value), float_at_least_32(self.dtype))

    def _map_parameters(self):
        """Temperature and delta, `[..., 1]`."""
        return [self._working(value)[..., tf.newaxis] for value in (self._temperature, self._delta)]

    def _latent(self, sample_shape, seed):
        """`(y, noise)`: a draw of the Gaussians and the noise behind it."""
        loc, scale = self.gaussians()
        shape = tf.concat(
            [sample_shape, self.batch_shape_tensor(), self.event_shape_tensor() - 1], 0
        )
        noise = tf.cast(normal(shape, as_seed(seed)), loc.dtype)
        return loc + scale * noise, noise

    def _forward(self, y):
        z = self.simplex_transform.forward(y, *self._map_parameters())
        return tf.cast(z, self.dtype)

    def _sample_n(self, n, seed=None):
        return self._forward(self._latent([n], seed)[0])

    def _sample_and_log_prob(self, sample_shape, seed=None):
        y, noise = self._latent(sample_shape, seed)
        sample = self._set_sample_static_shape(self._forward(y), sample_shape)
        _, scale = self.gaussians()
        log_prob = self.simplex_transform.sample_log_prob(
            y, _log_normal(noise, scale), *self._map_parameters()
        )
        return sample, tf.cast(log_prob, self.dtype)

    def _log_prob(self, z):
        loc, scale = self.gaussians()
        # A fresh tensor: the cache of a bijector would answer for one of its own images
        # with what it put in, and hide what the sample has lost.
        log_prob = self.simplex_transform.log_prob(
            tf.identity(tf.cast(z, loc.dtype)),
            lambda y: _log_normal((y - loc) / scale, scale),
            *self._map_parameters(),
        )
        return tf.cast(log_prob, self.dtype)

    def _mode(self):
        raise NotImplementedError(
            f"The mode of `{type(self).__name__}` has no closed form. Use `discrete().mode()` "
            "for a class."
        )

    def _default_event_space_bijector(self):
        return simplex_bijector(self.dtype, self.validate_args)

    def _sample_control_dependencies(self, z):
        if not self.validate_args:
            return []
        return [
            tf.debugging.assert_non_negative(z, "A sample must not be negative."),
            assert_sum(z, "A sample must sum to 1."),
        ]

    def _parameter_control_dependencies(self, is_init):
        if not self.validate_args:
            return []
        assertions = [
            assertion
            for name in ("temperature", "scale_diag", "delta")
            for assertion in positive_assertions(getattr(self, f"_{name}"), name, is_init)
        ]
        if is_init != is_reference(self._temperature):
            assertions += at_most(self._temperature, self.simplex_transform.max_temperature)
        return assertions


def _log_normal(noise, scale):
    """The log density of loc + scale * noise, for each coordinate."""
    return -0.5 * tf.square(noise) - tf.math.log(scale) - _HALF_LOG_2_PI
