"""The transforms of `tfconcrete.relaxations` as TFP bijectors, from R^(K-1) to the simplex."""

import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability import bijectors as tfb

from tfconcrete._dtypes import float_at_least_32
from tfconcrete._typing import TensorLike
from tfconcrete.bijectors.arguments import as_parameter, is_reference
from tfconcrete.relaxations.simplex_transform import SimplexTransform
from tfconcrete.relaxations.transforms import get_transform


class SimplexBijector(tfb.AutoCompositeTensorBijector):
    """Vectors of K-1 entries to vectors of K on the simplex, the last the remainder.

    All of it is in `transform`, a `tfc.relaxations.SimplexTransform`; subclasses say which.
    """

    def __init__(self, transform, temperature, delta, validate_args, parameters, name):
        self.transform = transform
        transform.check(temperature, delta)
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

    def batch_parameters(self, dtype):
        """Temperature and delta, `[..., 1]`, in `dtype`."""
        return [
            tf.cast(value, dtype)[..., tf.newaxis] for value in (self._temperature, self._delta)
        ]

    def _call(self, method, value):
        point = tf.cast(value, float_at_least_32(value.dtype))
        return tf.cast(method(point, *self.batch_parameters(point.dtype)), value.dtype)

    def _forward(self, y):
        return self._call(self.transform.forward, y)

    def _forward_log_det_jacobian(self, y):
        return self._call(self.transform.forward_log_det, y)

    def _inverse(self, z):
        with tf.control_dependencies(self._assert_simplex(z)):
            return self._call(self.transform.inverse, z)

    def _inverse_log_det_jacobian(self, z):
        with tf.control_dependencies(self._assert_simplex(z)):
            return self._call(self.transform.inverse_log_det, z)

    def _forward_event_shape(self, shape):
        return _grow(shape, 1)

    def _forward_event_shape_tensor(self, shape):
        return tf.concat([shape[:-1], shape[-1:] + 1], 0)

    def _inverse_event_shape(self, shape):
        return _grow(shape, -1)

    def _inverse_event_shape_tensor(self, shape):
        return tf.concat([shape[:-1], shape[-1:] - 1], 0)

    def _assert_simplex(self, z):
        if not self.validate_args:
            return []
        total = tf.reduce_sum(tf.cast(z, tf.float32), -1)
        tolerance = 1e-4 if z.dtype.size >= 4 else 2e-2
        return [
            tf.debugging.assert_non_negative(z, "A simplex point must not be negative."),
            tf.debugging.assert_near(
                total, 1.0, tolerance, tolerance, message="A simplex point must sum to 1."
            ),
        ]

    def _parameter_control_dependencies(self, is_init):
        if not self.validate_args:
            return []
        checks = [
            tf.debugging.assert_positive(value, f"Argument `{name}` must be positive.")
            for name, value in (("temperature", self._temperature), ("delta", self._delta))
            if is_init != is_reference(value)
        ]
        if is_init != is_reference(self._temperature):
            checks += at_most(self._temperature, self.transform.max_temperature)
        return checks


class TransformBijector(SimplexBijector):
    """Any transform of `tfc.relaxations` as a bijector.

    Args:
        transform: A `tfc.relaxations.SimplexTransform`, or the name of one.
        temperature: positive number or float tensor `[...]`, one for each member of the
            batch.
        delta: positive number or float tensor `[...]`, the weight of the remainder.
        validate_args: Whether to check at run time what is only known then.
        name: Name of the bijector.

    Example:

    >>> bijector = tfc.bijectors.TransformBijector("softmax++", temperature=0.5)
    >>> bijector.forward(tf.zeros([3])).numpy()
    array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """

    def __init__(
        self,
        transform: str | SimplexTransform,
        temperature: TensorLike,
        delta: TensorLike = 1.0,
        validate_args: bool = False,
        name: str = "simplex_transform",
    ) -> None:
        super().__init__(
            get_transform(transform), temperature, delta, validate_args, dict(locals()), name
        )


def at_most(temperature, limit):
    """The run-time check of a temperature with an upper limit."""
    temperature = tf.convert_to_tensor(temperature)
    if limit == float("inf"):
        return []
    message = f"Argument `temperature` must be at most {limit:g}."
    return [tf.debugging.assert_less_equal(temperature, tf.cast(limit, temperature.dtype), message)]


def _grow(shape, by):
    size = None if shape[-1] is None else shape[-1] + by
    return shape[:-1].concatenate([size])


def positive_batch_parameter(dtype):
    """Properties of a positive parameter with one number for each member of the batch."""
    return tfp.util.ParameterProperties(
        shape_fn=lambda shape: shape[:-1],
        default_constraining_bijector_fn=lambda: tfb.Softplus(
            low=tf.as_dtype(dtype).as_numpy_dtype(1e-6)
        ),
    )
