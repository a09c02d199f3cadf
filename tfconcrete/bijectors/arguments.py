"""How bijectors and distributions hold their tensor arguments."""

import keras
import tensorflow as tf


def is_reference(value):
    """Whether `value` is read anew on every call: a variable, or a module around one."""
    return isinstance(value, (tf.Variable, tf.Module))


def as_parameter(value, name, dtype=None):
    """`value` as a tensor, or itself where it is a reference (a Keras variable's own).

    Args:
        value: number, array, tensor, variable, or None (which stays None).
        name: Name of the tensor.
        dtype: dtype of the tensor; None keeps that of a tensor, and holds numbers in
            float64, to be cast to the dtype of whatever they are used with.

    Returns:
        Tensor, `tf.Variable`, `tf.Module` or None.
    """
    if isinstance(value, keras.Variable):
        value = value.value
    if value is None or is_reference(value):
        return value
    value = tf.convert_to_tensor(value, dtype_hint=dtype or tf.float64, name=name)
    return value if dtype is None else tf.cast(value, dtype)
