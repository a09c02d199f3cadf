"""Encoders, decoders and latents that fit together, one of each or lists of them."""

import re

import keras
import tensorflow as tf

from tfconcrete._checks import invalid_type

# The names that Keras makes up for inputs without one; they differ from run to run.
_MADE_UP = re.compile(r"(keras_tensor|input_layer)(_\d+)?(CLONE)?")


def is_given_name(name):
    """Whether somebody chose the name of a symbolic tensor."""
    return _MADE_UP.fullmatch(name) is None


def as_list(value):
    """A list of one, or the list itself."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def check_models(value, name):
    """Keras models (or layers), one or a list of them."""
    for model in as_list(value):
        if not isinstance(model, keras.layers.Layer):
            raise invalid_type(name, "a Keras model or a list of them", model)
    return value


def check_lengths(**arguments):
    """Equal numbers of everything."""
    lengths = {name: len(as_list(value)) for name, value in arguments.items()}
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        names = ", ".join(f"`{name}`" for name in arguments)
        found = ", ".join(f"{name} of length {length}" for name, length in lengths.items())
        raise ValueError(
            f"Invalid arguments {names}. Expected lists of equal length, one model and one "
            f"latent for each stochastic layer. Received: {found}"
        )


def input_spec(model):
    """The symbolic input of a model that knows it, else None."""
    inputs = getattr(model, "inputs", None)
    if not inputs:
        return None
    specs = [keras.KerasTensor(x.shape, dtype=x.dtype, name=x.name) for x in inputs]
    return specs[0] if len(specs) == 1 else specs


def output_spec(model, inputs, name, source):
    """The symbolic outputs of a model for symbolic inputs, which it must accept.

    Args:
        model: A Keras model or layer; built here if it was not.
        inputs: `KerasTensor`, or a list of them.
        name: The argument that the model came in, for the message.
        source: What the inputs are, for the message.
    """
    known = input_spec(model)
    if known is not None:
        expected, received = keras.tree.flatten(known), keras.tree.flatten(inputs)
        fits = len(expected) == len(received) and all(
            tf.TensorShape(a.shape).is_compatible_with(b.shape)
            for a, b in zip(expected, received, strict=True)
        )
        if not fits:
            raise ValueError(
                f"Invalid value received for argument `{name}`. Expected a model that takes "
                f"{source}, of shape {_shapes(received)}. Received: a model that takes inputs "
                f"of shape {_shapes(expected)}"
            )
    return model.compute_output_spec(inputs) if model.built else model(inputs)


def _shapes(specs):
    return " and ".join(str(tuple(spec.shape)) for spec in specs)


def check_parent(outputs, level, params_shape):
    """The outputs of `decoder[level]` are parameters of the latent below."""
    shapes = keras.tree.map_structure(lambda x: tuple(x.shape), outputs)
    if shapes != params_shape:
        raise ValueError(
            f"Invalid value received for argument `decoder`. Expected decoder[{level}] to give "
            f"the parameters of latent[{level - 1}], of shape {params_shape}. Received: outputs "
            f"of shape {shapes}"
        )


def float_spec(spec):
    """The spec of the values a decoder gets: float32 whatever the layer's dtype."""
    return keras.tree.map_structure(lambda x: keras.KerasTensor(x.shape, dtype="float32"), spec)


def deserialize_config(config, custom_objects=None):
    """A config whose Keras objects are objects again."""
    return {
        key: keras.saving.deserialize_keras_object(value, custom_objects)
        if isinstance(value, (dict, list)) and key != "prior_logits"
        else value
        for key, value in config.items()
    }
