"""The softmax++ map as a TFP bijector."""

import tensorflow as tf

from tfconcrete._checks import check_positive, check_temperature
from tfconcrete.bijectors.parameters import as_parameter
from tfconcrete.bijectors.simplex import (
    SimplexBijector,
    assert_positive,
    positive_batch_parameter,
    working,
)
from tfconcrete.relaxations.concrete import FLOOR
from tfconcrete.relaxations.softmax_plus_plus import (
    log_softmax_plus_plus,
    softmax_plus_plus_inverse,
    softmax_plus_plus_log_det,
)


class SoftmaxPlusPlus(SimplexBijector):
    """R^(K-1) to the simplex of K classes, exp(y_k / t) / (sum_j exp(y_j / t) + delta).

    The last class is the remainder. Log determinants are with respect to the first K-1
    coordinates of the simplex point; those of `tfb.SoftmaxCentered`, the same map at
    temperature and delta 1, are larger by 0.5 log K.

    A coordinate of a simplex point below 1e-30 counts as 1e-30 in the inverse.

    Args:
        temperature: positive number or float tensor `[...]`, one for each member of the
            batch.
        delta: positive number or float tensor `[...]`, the weight of the remainder.
        validate_args: Whether to check at run time what is only known then.
        name: Name of the bijector.

    Example:

    >>> bijector = tfc.bijectors.SoftmaxPlusPlus(temperature=0.5)
    >>> bijector.forward(tf.zeros([3])).numpy()
    array([0.25, 0.25, 0.25, 0.25], dtype=float32)

    Reference:
        Potapczynski, Loaiza-Ganem & Cunningham (2020), "Invertible Gaussian
        Reparameterization", Eq. 21.
    """

    def __init__(self, temperature, delta=1.0, validate_args=False, name="softmax_plus_plus"):
        parameters = dict(locals())
        check_temperature(temperature)
        check_positive(delta, "delta")
        self._temperature = as_parameter(temperature, "temperature")
        self._delta = as_parameter(delta, "delta")
        super().__init__(
            forward_min_event_ndims=1,
            inverse_min_event_ndims=1,
            validate_args=validate_args,
            parameters=parameters,
            name=name,
        )

    @classmethod
    def _parameter_properties(cls, dtype):
        return {name: positive_batch_parameter(dtype) for name in ("temperature", "delta")}

    @property
    def temperature(self):
        """The temperature."""
        return self._temperature

    @property
    def delta(self):
        """The weight of the remainder class."""
        return self._delta

    def _parameters_for(self, value):
        """`value`, temperature and delta in the working dtype, the latter `[..., 1]`."""
        value = working(value)
        temperature = tf.cast(self._temperature, value.dtype)[..., tf.newaxis]
        delta = tf.cast(self._delta, value.dtype)[..., tf.newaxis]
        # A batch of deltas reaches every coordinate, not only the remainder.
        return value + tf.zeros_like(delta), temperature, delta

    def _log_forward(self, y):
        y, temperature, delta = self._parameters_for(y)
        return log_softmax_plus_plus(y, temperature, delta), temperature

    def _forward(self, y):
        return tf.cast(tf.exp(self._log_forward(y)[0]), y.dtype)

    def _forward_log_det_jacobian(self, y):
        log_z, temperature = self._log_forward(y)
        return tf.cast(softmax_plus_plus_log_det(log_z, temperature), y.dtype)

    def _log_point(self, z):
        z, temperature, delta = self._parameters_for(z)
        with tf.control_dependencies(self._assert_simplex(z)):
            return tf.math.log(tf.maximum(z, FLOOR)), temperature, delta

    def _inverse(self, z):
        log_z, temperature, delta = self._log_point(z)
        return tf.cast(softmax_plus_plus_inverse(log_z, temperature, delta), z.dtype)

    def _inverse_log_det_jacobian(self, z):
        log_z, temperature, _ = self._log_point(z)
        return tf.cast(-softmax_plus_plus_log_det(log_z, temperature), z.dtype)

    def _assert_simplex(self, z):
        if not self.validate_args:
            return []
        return [
            tf.debugging.assert_non_negative(z, "A simplex point must not be negative."),
            tf.debugging.assert_near(
                tf.reduce_sum(z, -1), tf.ones([], z.dtype), 1e-4, 1e-4,
                message="A simplex point must sum to 1.",
            ),
        ]

    def _parameter_control_dependencies(self, is_init):
        return assert_positive(
            self, is_init, temperature=self._temperature, delta=self._delta
        )
