"""Stick-breaking, alone and with softmax++ after it, as TFP bijectors."""

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
    softmax_plus_plus_log_det,
)
from tfconcrete.relaxations.stick_breaking import (
    log_stick_breaking,
    stick_breaking_inverse,
    stick_breaking_log_det,
    sticks_from_softmax,
)


class StickBreaking(SimplexBijector):
    """R^(K-1) to the simplex of K classes, w_k = u_k prod_{i<k} (1 - u_i), u = sigmoid(y).

    The last class is the remainder. Log determinants are with respect to the first K-1
    coordinates of the simplex point. A coordinate below 1e-30 counts as 1e-30 in the
    inverse.

    Args:
        validate_args: Has no effect: every real vector is valid.
        name: Name of the bijector.

    Example:

    >>> tfc.bijectors.StickBreaking().forward(tf.zeros([2])).numpy()
    array([0.5 , 0.25, 0.25], dtype=float32)

    Reference:
        Potapczynski, Loaiza-Ganem & Cunningham (2020), "Invertible Gaussian
        Reparameterization", Eq. 22.
    """

    def __init__(self, validate_args=False, name="stick_breaking"):
        parameters = dict(locals())
        super().__init__(
            forward_min_event_ndims=1,
            inverse_min_event_ndims=1,
            validate_args=validate_args,
            parameters=parameters,
            name=name,
        )

    @classmethod
    def _parameter_properties(cls, dtype):
        return {}

    def _forward(self, y):
        return tf.cast(tf.exp(log_stick_breaking(working(y))), y.dtype)

    def _forward_log_det_jacobian(self, y):
        return tf.cast(stick_breaking_log_det(log_stick_breaking(working(y))), y.dtype)

    def _inverse(self, w):
        return tf.cast(stick_breaking_inverse(_floored_log(w)), w.dtype)

    def _inverse_log_det_jacobian(self, w):
        return tf.cast(-stick_breaking_log_det(_floored_log(w)), w.dtype)


def _floored_log(w):
    return tf.math.log(tf.maximum(working(w), FLOOR))


class StickBreakingSoftmax(SimplexBijector):
    """Stick-breaking, then softmax++ of the sticks: z = softmax++(w / t).

    Sticks lie in (0, 1) and sum to less than 1, so the image is a part of the simplex
    only. Outside it the inverse log determinant is -inf: no density.

    The inverse reads the sticks off the ratios z_k / z_K, which gives them to about the
    machine epsilon times the temperature. A stick below the epsilon (1.2e-7 in float32)
    counts as the epsilon, and a coordinate of z below 1e-30 as 1e-30: for many classes,
    or low temperatures, evaluate densities on the forward side, in `y`.

    Args:
        temperature: positive number or float tensor `[...]`, one for each member of the
            batch.
        delta: positive number or float tensor `[...]`, the weight of the remainder.
        validate_args: Whether to check at run time what is only known then.
        name: Name of the bijector.

    Example:

    >>> bijector = tfc.bijectors.StickBreakingSoftmax(temperature=0.5)
    >>> bijector.forward(tf.zeros([2])).numpy().round(3)
    array([0.506, 0.307, 0.186], dtype=float32)

    Reference:
        Potapczynski, Loaiza-Ganem & Cunningham (2020), "Invertible Gaussian
        Reparameterization", Eq. 24.
    """

    def __init__(
        self, temperature, delta=1.0, validate_args=False, name="stick_breaking_softmax"
    ):
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
        return {
            "temperature": positive_batch_parameter(dtype),
            "delta": positive_batch_parameter(dtype),
        }

    @property
    def temperature(self):
        """The temperature."""
        return self._temperature

    @property
    def delta(self):
        """The weight of the remainder class."""
        return self._delta

    def _parameters_for(self, value):
        temperature = tf.cast(self._temperature, value.dtype)[..., tf.newaxis]
        delta = tf.cast(self._delta, value.dtype)[..., tf.newaxis]
        return temperature, delta

    def _logs(self, y):
        """The logarithms of the sticks and of their image."""
        y = working(y)
        temperature, delta = self._parameters_for(y)
        log_w = log_stick_breaking(y)
        sticks = tf.exp(log_w[..., :-1]) + tf.zeros_like(delta)
        return log_w, log_softmax_plus_plus(sticks, temperature, delta), temperature

    def _forward(self, y):
        return tf.cast(tf.exp(self._logs(y)[1]), y.dtype)

    def _forward_log_det_jacobian(self, y):
        log_w, log_z, temperature = self._logs(y)
        log_det = stick_breaking_log_det(log_w) + softmax_plus_plus_log_det(log_z, temperature)
        return tf.cast(log_det, y.dtype)

    def _sticks(self, z):
        """The sticks with their remainder, `[..., K]`, before any floor."""
        temperature, delta = self._parameters_for(z)
        sticks = sticks_from_softmax(z, temperature, delta)
        return tf.concat([sticks, 1.0 - tf.reduce_sum(sticks, -1, keepdims=True)], -1)

    def _log_sticks(self, z):
        return tf.math.log(tf.maximum(self._sticks(z), _epsilon(z.dtype)))

    def _inverse(self, z):
        return tf.cast(stick_breaking_inverse(self._log_sticks(working(z))), z.dtype)

    def _inverse_log_det_jacobian(self, z):
        value = working(z)
        temperature, _ = self._parameters_for(value)
        log_z = tf.math.log(tf.maximum(value, FLOOR))
        log_det = stick_breaking_log_det(self._log_sticks(value)) + softmax_plus_plus_log_det(
            log_z, temperature
        )
        density = tf.where(self._in_image(value), -log_det, -float("inf"))
        return tf.cast(density, z.dtype)

    def _in_image(self, z):
        """False where a stick is negative by more than rounding explains."""
        temperature, _ = self._parameters_for(z)
        num_classes = tf.cast(tf.shape(z)[-1], z.dtype)
        tolerance = 16.0 * _epsilon(z.dtype) * num_classes * tf.maximum(temperature, 1.0)
        valid = tf.reduce_all(self._sticks(z) >= -tolerance, -1)
        # Where z has lost a coordinate, its sticks are not known well enough to say.
        return valid | tf.reduce_any(z < FLOOR, -1)

    def _parameter_control_dependencies(self, is_init):
        return assert_positive(
            self, is_init, temperature=self._temperature, delta=self._delta
        )


def _epsilon(dtype):
    return 2.0**-23 if dtype == tf.float32 else 2.0**-52
