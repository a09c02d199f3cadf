"""The signatures of a model: `serving_default`, and what `tfc.models` add to it."""

from tfconcrete.export.boundary import ModelBoundary
from tfconcrete.export.endpoint import Endpoint, with_codes
from tfconcrete.layers import inference_mode


def make_endpoints(model):
    """Traces every signature of a model, all sampling layers in argmax mode.

    Args:
        model: A built Keras model with sampling layers.

    Returns:
        List of `Endpoint`s, `serving_default` first.
    """
    with inference_mode(model, "argmax"):
        boundary = ModelBoundary(model)
        call = with_codes(boundary.call)
        return [Endpoint("serving_default", call, boundary.specs, tracked=model)]


def warmup_requests(endpoints, examples):
    """A request for every signature, made from examples for the first.

    Args:
        endpoints: List of `Endpoint`s.
        examples: Arrays by input name, for `serving_default`.

    Returns:
        Arrays by input name, by signature.
    """
    return {endpoint.name: endpoint.example(examples) for endpoint in endpoints}
