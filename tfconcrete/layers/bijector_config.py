"""Bijectors inside layers: their variables as weights, their configuration as plain data."""

import keras
import numpy as np
import tensorflow as tf
from tensorflow_probability import bijectors as tfb

from tfconcrete import bijectors as own_bijectors
from tfconcrete._checks import invalid_value

_ROOMS = {"tfconcrete": own_bijectors, "tensorflow_probability": tfb}


def replace_variables(bijector, replace):
    """A copy of `bijector` with `replace(variable)` for each of its variables, in order.

    Bijectors inside it (in a `Chain`, say) are copied likewise.
    """

    def visit(value):
        if isinstance(value, tfb.Bijector):
            return replace_variables(value, replace)
        if isinstance(value, tf.Variable):
            return replace(value)
        if isinstance(value, (list, tuple)):
            return [visit(item) for item in value]
        return value

    changed = {key: visit(value) for key, value in bijector.parameters.items()}
    return type(bijector)(**changed)


def serialize_bijector(bijector):
    """Plain data from which `deserialize_bijector` makes the same bijector.

    Args:
        bijector: One of `tfc.bijectors` or `tfp.bijectors`, or of a class registered with
            `keras.saving.register_keras_serializable`, whose parameters are numbers,
            arrays, strings or such bijectors.
    """
    cls = type(bijector)
    room = cls.__module__.split(".")[0]
    if room in _ROOMS and getattr(_ROOMS[room], cls.__name__, None) is cls:
        name = f"{room}>{cls.__name__}"
    else:
        name = keras.saving.get_registered_name(cls)
        if name == cls.__name__:
            raise invalid_value(
                "transform",
                "a bijector of `tfc.bijectors` or `tfp.bijectors`, or of a class registered "
                "with `keras.saving.register_keras_serializable`",
                bijector,
            )
    config = {key: _plain(value) for key, value in bijector.parameters.items()}
    return {"bijector": name, "config": config}


def _plain(value):
    if isinstance(value, tfb.Bijector):
        return serialize_bijector(value)
    if isinstance(value, (list, tuple)) and any(isinstance(v, tfb.Bijector) for v in value):
        return [serialize_bijector(item) for item in value]
    if isinstance(value, tf.Variable):
        array = value.numpy()
        return {"variable": array.tolist(), "dtype": array.dtype.name}
    if tf.is_tensor(value) or isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        return {"array": array.tolist(), "dtype": array.dtype.name}
    return value


def deserialize_bijector(data):
    """The bijector behind what `serialize_bijector` gave."""
    room, _, name = data["bijector"].partition(">")
    if room in _ROOMS and hasattr(_ROOMS[room], name):
        cls = getattr(_ROOMS[room], name)
    else:
        cls = keras.saving.get_registered_object(data["bijector"])
    if cls is None or not issubclass(cls, tfb.Bijector):
        raise invalid_value("transform", "a known bijector", data["bijector"])
    return cls(**{key: _restored(value) for key, value in data["config"].items()})


def _restored(value):
    if isinstance(value, (list, tuple)):
        return [_restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "bijector" in value:
        return deserialize_bijector(value)
    if "variable" in value:
        return tf.Variable(np.array(value["variable"], value["dtype"]))
    return tf.constant(np.array(value["array"], value["dtype"]))
