"""Parameters of the distributions: their dtype, their checks, their properties."""

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability import bijectors as tfb

from tfconcrete._checks import check_broadcast, check_floating, check_num_classes
from tfconcrete._floors import FILL, SMALLEST
from tfconcrete.bijectors import SoftmaxPlusPlus
from tfconcrete.bijectors.arguments import is_reference

ParameterProperties = tfp.util.ParameterProperties


def common_dtype(*values):
    """The dtype of the first value that has a floating one, else float32."""
    for value in values:
        dtype = getattr(value, "dtype", None)
        if dtype is not None and tf.as_dtype(dtype).is_floating:
            return tf.as_dtype(dtype)
    return tf.float32


def _shape(value):
    return tf.TensorShape(value.shape if hasattr(value, "shape") else np.shape(value))


def check_class_parameter(value, name):
    """Floating-point values `[..., K]` of at least two classes."""
    check_floating(value, name)
    check_num_classes(_shape(value), -1, name)


def check_free_parameter(value, name):
    """Floating-point values `[..., K-1]`: all classes but the remainder."""
    check_floating(value, name)
    shape = _shape(value)
    if shape.rank == 0 or (shape.rank is not None and shape[-1] == 0):
        raise ValueError(
            f"Invalid value received for argument `{name}`. Expected a shape [..., K-1] for "
            f"at least two classes. Received: {name} of shape {tuple(shape)}"
        )


def check_batch_temperature(temperature, value, name):
    """A temperature for each member of the batch: `[...]` against a value `[..., n]`.

    `[n, 1]` against `[n, k]` would broadcast to a batch `[n, n]`; nobody who writes that
    means it.
    """
    shape, other = tf.TensorShape(temperature.shape), tf.TensorShape(value.shape)
    if shape.rank is None or other.rank is None:
        return
    if shape.rank > 1 and shape.as_list() == other.as_list()[:-1] + [1]:
        raise ValueError(
            f"Invalid value received for argument `temperature`. Expected one for each "
            f"member of the batch, of shape {tuple(other[:-1])} and with no class "
            f"dimension (use `temperature[..., 0]`). Received: temperature of shape "
            f"{tuple(shape)} against {name} of shape {tuple(other)}"
        )
    check_broadcast(shape, "temperature", other[:-1], f"{name}[..., 0]")


def positive_assertions(value, name, is_init):
    """What a positive parameter must satisfy at run time, whenever that can change."""
    if is_init == is_reference(value):
        return []
    value = tf.convert_to_tensor(value)
    return [
        tf.debugging.assert_positive(value, f"Argument `{name}` must be positive."),
        tf.debugging.assert_all_finite(value, f"Argument `{name}` must be finite."),
    ]


def probs_assertions(probs, is_init, sums_to_one):
    """What `probs` must satisfy at run time."""
    if probs is None or is_init == is_reference(probs):
        return []
    probs = tf.convert_to_tensor(probs)
    one = tf.ones([], probs.dtype)
    assertions = [
        tf.debugging.assert_non_negative(probs, "Argument `probs` must not be negative."),
        tf.debugging.assert_less_equal(probs, one, "Argument `probs` must be at most 1."),
    ]
    if sums_to_one:
        assertions.append(assert_sum(probs, "Argument `probs` must sum to 1."))
    return assertions


def log_or_fill(probs):
    """log(probs), with a large finite negative and no gradient where that is -inf."""
    # XLA's log flushes denormals, so they count as 0.
    is_zero = probs < SMALLEST[probs.dtype]
    log_probs = tf.math.log(tf.where(is_zero, tf.ones_like(probs), probs))
    return tf.where(is_zero, tf.cast(FILL, probs.dtype), log_probs)


def num_classes_assertions(value, name, is_init):
    """At least two classes, where the shape is only known at run time."""
    if not is_init or (value.shape.rank is not None and value.shape[-1] is not None):
        return []
    message = f"Argument `{name}` must have at least two classes."
    return [tf.debugging.assert_greater_equal(tf.shape(value)[-1], 2, message)]


def assert_sum(x, message):
    """The last dimension sums to 1, up to rounding."""
    # The square root of the resolution: no sum of rounded terms is that far off.
    eps = {tf.float64: 2.0**-52, tf.float32: 2.0**-23, tf.float16: 2.0**-10}
    tolerance = eps.get(x.dtype, 2.0**-7) ** 0.5
    total = tf.reduce_sum(tf.cast(x, tf.float64), -1)
    return tf.debugging.assert_near(
        total, tf.ones([], tf.float64), tolerance, tolerance, message=message
    )


def positive_property(dtype, **kwargs):
    """The property of a positive parameter."""
    return ParameterProperties(
        default_constraining_bijector_fn=lambda: tfb.Softplus(
            low=tf.as_dtype(dtype).as_numpy_dtype(1e-6)
        ),
        **kwargs,
    )


def simplex_bijector(dtype, validate_args=False):
    """R^(K-1) onto the simplex, with TFP's defaults: temperature and delta 1."""
    one = tf.ones([], dtype)
    return SoftmaxPlusPlus(one, one, validate_args=validate_args)
