"""The signatures of a model: `serving_default`, and what the models of `tfc.models` add."""

import re

import keras
import numpy as np
import tensorflow as tf

from tfconcrete.export.boundary import ModelBoundary, symbolic_inputs, unique
from tfconcrete.export.endpoint import Endpoint, with_codes
from tfconcrete.layers import inference_mode
from tfconcrete.models.base import BoundModel

# The names that Keras makes up for inputs without one; they differ from run to run.
_MADE_UP = re.compile(r"(keras_tensor|input_layer)(_\d+)?")


def make_endpoints(model):
    """Traces every signature of a model, all sampling layers in argmax mode.

    Args:
        model: A built Keras model with sampling layers.

    Returns:
        List of `Endpoint`s, `serving_default` first.
    """
    with inference_mode(model, "argmax"):
        boundary = _boundary(model)
        call = with_codes(boundary.call)
        endpoints = [Endpoint("serving_default", call, boundary.specs, tracked=model)]
        if hasattr(model, "_encode_codes"):
            endpoints += _encode_and_decode(model, boundary.specs)
        if hasattr(model, "_generate_from_seeds"):
            endpoints.append(_generate(model))
    return endpoints


def _boundary(model):
    if not isinstance(model, BoundModel):
        return ModelBoundary(model)
    encoder = getattr(model, "encoder", None)
    first = encoder[0] if isinstance(encoder, (list, tuple)) else encoder
    inputs = symbolic_inputs(first)
    names = None
    if inputs is not None:
        given = [tensor.name for tensor in keras.tree.flatten(inputs)]
        names = unique("x" if _MADE_UP.fullmatch(name) else name for name in given)
    return ModelBoundary(model, inputs, names, outputs=["reconstruction"])


def _encode_and_decode(model, specs):
    def encode(tensors):
        codes = model._encode_codes(*tensors.values())
        codes = codes if isinstance(codes, (list, tuple)) else [codes]
        return dict(zip(unique(["codes"] * len(codes)), codes, strict=True))

    def decode(tensors):
        return {"images": model._decode_codes(*tensors.values())}

    def codes_of(inputs):
        answer = encoder.function(*(tf.constant(value) for value in inputs.values()))
        return {name: answer[name].numpy() for name in decoder.specs}

    encoder = Endpoint("encode", encode, specs, tracked=model)
    # x depends on the codes of the first latent alone.
    shape = encoder.function.structured_outputs["codes"].shape
    codes = {"codes": tf.TensorSpec(shape, tf.int32, name="codes")}
    decoder = Endpoint("decode", decode, codes, example=codes_of, tracked=model)
    return [encoder, decoder]


def _generate(model):
    def generate(tensors):
        return {"images": model._generate_from_seeds(tensors["seeds"])}

    def seeds_for(inputs):
        rows = len(next(iter(inputs.values())))
        return {"seeds": np.arange(2 * rows, dtype=np.int32).reshape(rows, 2)}

    specs = {"seeds": tf.TensorSpec([None, 2], tf.int32, name="seeds")}
    return Endpoint("generate", generate, specs, random=True, example=seeds_for, tracked=model)


def warmup_requests(endpoints, examples):
    """A request for every signature, made from examples for the first.

    Args:
        endpoints: List of `Endpoint`s.
        examples: Arrays by input name, for `serving_default`.

    Returns:
        Arrays by input name, by signature.
    """
    return {endpoint.name: endpoint.example(examples) for endpoint in endpoints}
