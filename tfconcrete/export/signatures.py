"""The signatures of a model, traced for a server: its own, and `serving_default`."""

from tfconcrete.export.boundary import ModelBoundary
from tfconcrete.export.endpoint import Endpoint, with_codes
from tfconcrete.layers.inference import overridden_modes
from tfconcrete.models import Signature


def make_endpoints(model):
    """Traces every signature of a model, all sampling layers in serving mode.

    Args:
        model: A built Keras model with sampling layers. What its method `signatures()`
            gives, where it has one, is written; `serving_default` is made from its call
            where it is not among them.

    Returns:
        List of `Endpoint`s, `serving_default` first.
    """
    with overridden_modes(model, "serving"):
        signatures = dict(model.signatures()) if hasattr(model, "signatures") else {}
        default = signatures.pop("serving_default", None)
        if default is None:
            boundary = ModelBoundary(model)
            default = Signature(boundary.call, boundary.specs)
        endpoints = [_endpoint("serving_default", default, model, with_codes(default.call, model))]
        for name, signature in signatures.items():
            endpoints.append(_endpoint(name, signature, model, signature.call))
    return endpoints


def _endpoint(name, signature, model, call):
    return Endpoint(
        name,
        call,
        dict(signature.inputs),
        random=signature.random,
        example=signature.example,
        tracked=model,
    )


def warmup_requests(endpoints, examples):
    """A request for every signature, made from examples for the first.

    Args:
        endpoints: List of `Endpoint`s.
        examples: Arrays by input name, for `serving_default`.

    Returns:
        Arrays by input name, by signature.
    """
    return {endpoint.name: endpoint.example(examples) for endpoint in endpoints}
