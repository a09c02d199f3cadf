"""The signatures of a model: `serving_default`, and what the models of `tfc.models` add."""

import re

import keras
import numpy as np
import tensorflow as tf

from tfconcrete.export.boundary import ModelBoundary, symbolic_inputs, unique
from tfconcrete.export.endpoint import Endpoint, with_codes, without_detour
from tfconcrete.layers import inference_mode, record_codes
from tfconcrete.models import DiscreteVAE, JointVAE, StructuredPredictor
from tfconcrete.models.base import BoundModel

# The names that Keras makes up for inputs without one; they differ from run to run.
_MADE_UP = re.compile(r"(keras_tensor|input_layer)(_\d+)?")
# A seed for each row, so that a server can batch requests.
_SEEDS = tf.TensorSpec([None, 2], tf.int32, name="seeds")


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
        if isinstance(model, DiscreteVAE):
            encode = _encode(model, boundary.specs)
            endpoints += [encode, _decode(model, encode), _generate(model)]
        elif isinstance(model, StructuredPredictor):
            endpoints.append(_generate_from_context(model, boundary.specs))
    return endpoints


def _boundary(model):
    if not isinstance(model, BoundModel):
        return ModelBoundary(model)
    encoder = model.encoder
    first = encoder[0] if isinstance(encoder, (list, tuple)) else encoder
    inputs = symbolic_inputs(first)
    names = None
    if inputs is not None:
        given = [tensor.name for tensor in keras.tree.flatten(inputs)]
        names = unique("x" if _MADE_UP.fullmatch(name) else name for name in given)
    output = "prediction" if isinstance(model, StructuredPredictor) else "reconstruction"
    return ModelBoundary(model, inputs, names, outputs=[output])


def _encode(model, specs):
    def encode(tensors):
        x = _one_or_list(tensors)
        with record_codes():  # the layers then take the short way to their codes
            codes = model._encode_codes(x)
        codes = codes if isinstance(codes, (list, tuple)) else [codes]
        codes = [without_detour(indices) for indices in codes]
        outputs = dict(zip(unique(["codes"] * len(codes)), codes, strict=True))
        if isinstance(model, JointVAE):
            _, outputs["continuous"], _ = model._split(model.encoder(x, training=False))
        return outputs

    return Endpoint("encode", encode, specs, tracked=model)


def _decode(model, encode):
    # x depends on the codes of a stack's first latent alone.
    names = ["codes", "continuous"] if isinstance(model, JointVAE) else ["codes"]
    outputs = encode.function.structured_outputs
    specs = {
        name: tf.TensorSpec(outputs[name].shape, outputs[name].dtype, name=name)
        for name in names
    }

    def decode(tensors):
        return {"images": model._decode_codes(*tensors.values())}

    def example(inputs):
        answer = encode.function(*(tf.constant(value) for value in inputs.values()))
        return {name: answer[name].numpy() for name in names}

    return Endpoint("decode", decode, specs, example=example, tracked=model)


def _generate(model):
    def generate(tensors):
        return {"images": model._generate_from_seeds(tensors["seeds"])}

    def example(inputs):
        return {"seeds": _example_seeds(inputs)}

    specs = {"seeds": _SEEDS}
    return Endpoint("generate", generate, specs, random=True, example=example, tracked=model)


def _generate_from_context(model, specs):
    def generate(tensors):
        def one(row):
            row = {name: value[tf.newaxis] for name, value in row.items()}
            seed = row.pop("seeds")[0]
            return tf.cast(model._generate(_one_or_list(row), seed)[0], tf.float32)

        # Row by row: the answer to a seed is the same in every batch.
        return {"prediction": tf.map_fn(one, tensors, fn_output_signature=tf.float32)}

    def example(inputs):
        return {**inputs, "seeds": _example_seeds(inputs)}

    specs = {**specs, "seeds": _SEEDS}
    return Endpoint("generate", generate, specs, random=True, example=example, tracked=model)


def _one_or_list(tensors):
    values = list(tensors.values())
    return values[0] if len(values) == 1 else values


def _example_seeds(inputs):
    rows = len(next(iter(inputs.values())))
    return np.arange(2 * rows, dtype=np.int32).reshape(rows, 2)


def warmup_requests(endpoints, examples):
    """A request for every signature, made from examples for the first.

    Args:
        endpoints: List of `Endpoint`s.
        examples: Arrays by input name, for `serving_default`.

    Returns:
        Arrays by input name, by signature.
    """
    return {endpoint.name: endpoint.example(examples) for endpoint in endpoints}
