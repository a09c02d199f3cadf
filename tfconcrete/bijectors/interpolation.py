"""Stick-breaking and interpolation to the nearest vertex as a TFP bijector."""

import tensorflow as tf
import tensorflow_probability as tfp

from tfconcrete.bijectors.parameters import as_parameter, is_reference
from tfconcrete.bijectors.simplex import (
    SimplexBijector,
    assert_positive,
    working,
)
from tfconcrete.relaxations.concrete import FLOOR
from tfconcrete.relaxations.discretize import discretize
from tfconcrete.relaxations.interpolation import (
    check_unit_temperature,
    interpolate,
    interpolate_inverse,
)
from tfconcrete.relaxations.stick_breaking import (
    log_stick_breaking,
    stick_breaking_inverse,
    stick_breaking_log_det,
)

tfb = tfp.bijectors


class Interpolation(SimplexBijector):
    """w = stick-breaking of y, then z = t w + (1 - t) P(w), P the nearest vertex.

    For t < 1 the image is K separate pieces of the simplex, one around each vertex.
    Outside them the inverse log determinant is -inf: no density. A stick below 1e-30
    counts as 1e-30 in the inverse.

    Args:
        temperature: number or float tensor `[...]` in (0, 1], one for each member of the
            batch. Above 1 the map would leave the simplex.
        validate_args: Whether to check at run time what is only known then.
        name: Name of the bijector.

    Example:

    >>> bijector = tfc.bijectors.Interpolation(temperature=0.5)
    >>> bijector.forward(tf.zeros([2])).numpy()
    array([0.75 , 0.125, 0.125], dtype=float32)

    Reference:
        Potapczynski, Loaiza-Ganem & Cunningham (2020), "Invertible Gaussian
        Reparameterization", Eq. 23.
    """

    def __init__(self, temperature, validate_args=False, name="interpolation"):
        parameters = dict(locals())
        check_unit_temperature(temperature)
        self._temperature = as_parameter(temperature, "temperature")
        super().__init__(
            forward_min_event_ndims=1,
            inverse_min_event_ndims=1,
            validate_args=validate_args,
            parameters=parameters,
            name=name,
        )

    @classmethod
    def _parameter_properties(cls, dtype):
        return {
            "temperature": tfp.util.ParameterProperties(
                shape_fn=lambda shape: shape[:-1],
                default_constraining_bijector_fn=tfb.Sigmoid,
            )
        }

    @property
    def temperature(self):
        """The temperature."""
        return self._temperature

    def _temperature_for(self, value):
        return tf.cast(self._temperature, value.dtype)[..., tf.newaxis]

    def _forward(self, y):
        w = tf.exp(log_stick_breaking(working(y)))
        return tf.cast(interpolate(w, self._temperature_for(w)), y.dtype)

    def _log_det(self, log_w):
        free = tf.cast(tf.shape(log_w)[-1] - 1, log_w.dtype)
        log_temperature = tf.math.log(tf.cast(self._temperature, log_w.dtype))
        return stick_breaking_log_det(log_w) + free * log_temperature

    def _forward_log_det_jacobian(self, y):
        return tf.cast(self._log_det(log_stick_breaking(working(y))), y.dtype)

    def _sticks(self, z):
        return interpolate_inverse(z, self._temperature_for(z))

    def _inverse(self, z):
        w = tf.maximum(self._sticks(working(z)), FLOOR)
        return tf.cast(stick_breaking_inverse(tf.math.log(w)), z.dtype)

    def _inverse_log_det_jacobian(self, z):
        value = working(z)
        w = self._sticks(value)
        log_det = self._log_det(tf.math.log(tf.maximum(w, FLOOR)))
        density = tf.where(_in_image(value, w), -log_det, -float("inf"))
        return tf.cast(density, z.dtype)

    def _parameter_control_dependencies(self, is_init):
        checks = assert_positive(self, is_init, temperature=self._temperature)
        if self.validate_args and is_init != is_reference(self._temperature):
            checks.append(
                tf.debugging.assert_less_equal(
                    self._temperature,
                    tf.ones([], self._temperature.dtype),
                    "Argument `temperature` must be at most 1.",
                )
            )
        return checks


def _in_image(z, w):
    """Whether the largest entry of z is the largest stick too, up to rounding."""
    tolerance = 1e-5 if z.dtype == tf.float32 else 1e-12
    return tf.reduce_sum(w * discretize(z), -1) >= tf.reduce_max(w, -1) - tolerance
