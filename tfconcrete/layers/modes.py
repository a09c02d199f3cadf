"""Finding a model's sampling layers, and evaluating them relaxed or discrete."""

import contextlib

from tfconcrete.layers.seeded import SeededLayer


def sampling_layers(model):
    """All sampling layers of a model, at any depth, each once.

    Args:
        model: A Keras layer or model.

    Returns:
        List of layers, in the order in which their owners list them.

    Example:

    >>> model = keras.Sequential([keras.layers.Dense(3), tfc.ConcreteSample(name="z")])
    >>> [layer.name for layer in tfc.layers.sampling_layers(model)]
    ['z']
    """
    found, seen = [], set()

    def visit(layer):
        if id(layer) in seen:
            return
        seen.add(id(layer))
        if isinstance(layer, SeededLayer):
            found.append(layer)
        for child in getattr(layer, "_layers", ()):
            visit(child)

    visit(model)
    return found


@contextlib.contextmanager
def inference_mode(model, mode):
    """Inside, the sampling layers called outside training do what `mode` says.

    Only traces made inside are affected, so a compiled function must be made there.

    Args:
        model: A Keras layer or model.
        mode: `"relaxed"` (the training output, at the present temperature: schedules
            stand still), `"discrete"` (`"argmax"`, or `"sample"` where the layer says
            that), `"argmax"`, `"sample"` or `"probs"`.

    Example:

    >>> layer = tfc.ConcreteSample(inference="argmax")
    >>> with tfc.layers.inference_mode(layer, "probs"):
    ...     layer(tf.constant([[0.0, 0.0]])).numpy()
    array([[0.5, 0.5]], dtype=float32)
    """
    layers = sampling_layers(model)
    previous = [layer.inference_override for layer in layers]
    for layer in layers:
        layer.inference_override = mode
    try:
        yield
    finally:
        for layer, override in zip(layers, previous, strict=True):
            layer.inference_override = override


@contextlib.contextmanager
def preserved_state(model):
    """Puts a model's non-trainable variables back at the end: seeds, counters, means.

    Args:
        model: A Keras layer or model.

    Example:

    >>> layer = tfc.ConcreteSample(temperature=0.5)
    >>> with tfc.layers.preserved_state(layer):
    ...     layer.temperature = 0.1
    >>> float(layer.temperature.numpy())
    0.5
    """
    variables = [v for v in model.variables if not v.trainable]
    values = [v.numpy() for v in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
