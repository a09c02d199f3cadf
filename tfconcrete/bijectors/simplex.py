"""What the bijectors from R^(K-1) to the simplex of K classes share."""

import tensorflow as tf
import tensorflow_probability as tfp

from tfconcrete._dtypes import float_at_least_32
from tfconcrete.bijectors.parameters import is_reference

tfb = tfp.bijectors


class SimplexBijector(tfb.AutoCompositeTensorBijector):
    """Vectors of K-1 entries to vectors of K, the last the remainder."""

    def _forward_event_shape(self, shape):
        return _grow(shape, 1)

    def _forward_event_shape_tensor(self, shape):
        return tf.concat([shape[:-1], shape[-1:] + 1], 0)

    def _inverse_event_shape(self, shape):
        return _grow(shape, -1)

    def _inverse_event_shape_tensor(self, shape):
        return tf.concat([shape[:-1], shape[-1:] - 1], 0)


def _grow(shape, by):
    size = None if shape[-1] is None else shape[-1] + by
    return shape[:-1].concatenate([size])


def working(value):
    """`value` in the dtype to compute in."""
    return tf.cast(value, float_at_least_32(value.dtype))


def positive_batch_parameter(dtype):
    """Properties of a positive parameter with one number for each member of the batch."""
    return tfp.util.ParameterProperties(
        shape_fn=lambda shape: shape[:-1],
        default_constraining_bijector_fn=lambda: tfb.Softplus(
            low=tf.as_dtype(dtype).as_numpy_dtype(1e-6)
        ),
    )


def assert_positive(bijector, is_init, **parameters):
    """Run-time checks under `validate_args`."""
    if not bijector.validate_args:
        return []
    return [
        tf.debugging.assert_positive(value, f"Argument `{name}` must be positive.")
        for name, value in parameters.items()
        if is_init != is_reference(value)
    ]
