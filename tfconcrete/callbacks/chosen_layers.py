"""Which layers of a model a callback is about, and what it calls them in the logs."""

from tfconcrete._checks import invalid_value
from tfconcrete.layers import sampling_layers


def layers_with(model, attribute, wanted=None):
    """The sampling layers that have `attribute`, or those of them in `wanted`.

    Args:
        model: A Keras model.
        attribute: Name of an attribute.
        wanted: None for all, or a list of layers or names (or one of either).

    Returns:
        List of layers.
    """
    found = [layer for layer in sampling_layers(model) if hasattr(layer, attribute)]
    if wanted is None:
        return found
    if not isinstance(wanted, (list, tuple)):
        wanted = [wanted]
    chosen = []
    for layer in wanted:
        matches = [other for other in found if other is layer or other.name == layer]
        if not matches:
            expected = f"layers of the model, from {[other.name for other in found]}"
            raise invalid_value("layers", expected, layer)
        chosen.extend(matches)
    return chosen


def prefixes(layers):
    """Pairs of a layer and the prefix of its logs: none for a single layer."""
    if len(layers) == 1:
        return [(layers[0], "")]
    return [(layer, f"{layer.name}_") for layer in layers]
