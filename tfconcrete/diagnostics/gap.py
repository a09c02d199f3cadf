"""The integrality gap: a model with relaxed samples against the same model discrete."""

import collections

import keras

from tfconcrete.layers.modes import inference_mode, preserved_state

IntegralityGap = collections.namedtuple("IntegralityGap", ["relaxed", "discrete", "gap"])


def integrality_gap(model, data, batch_size=None, steps=None):
    """Evaluates a compiled model twice, with relaxed and with discrete samples.

    Everything but the sampling layers is in inference mode both times. Relaxed samples
    are drawn at the layers' present temperatures; discrete ones are the argmax (or exact
    draws, where a layer says `inference="sample"`). The model's seeds, schedules and other
    state are left as they were.

    Args:
        model: A compiled Keras model.
        data: What `fit` takes as `validation_data`: `(x, y)`, `(x, y, sample_weight)`, a
            `tf.data.Dataset`, or the inputs alone.
        batch_size: As in `model.evaluate`.
        steps: As in `model.evaluate`.

    Returns:
        `IntegralityGap`, a named tuple of three dictionaries with the loss and metrics:
        `relaxed`, `discrete`, and their difference `gap` (discrete minus relaxed).

    Example:

    >>> layers = [keras.Input([4]), keras.layers.Dense(3), tfc.ConcreteSample(seed=0)]
    >>> model = keras.Sequential(layers)
    >>> model.compile(loss="mse")
    >>> x, y = tf.ones([8, 4]), tf.ones([8, 3])
    >>> sorted(tfc.diagnostics.integrality_gap(model, (x, y)).gap)
    ['loss']
    """
    arguments = {"batch_size": batch_size, "steps": steps}
    relaxed = evaluate_in_mode(model, data, "relaxed", **arguments)
    discrete = evaluate_in_mode(model, data, "discrete", **arguments)
    return make_gap(relaxed, discrete)


def make_gap(relaxed, discrete):
    """The three dictionaries, of two evaluations."""
    gap = {name: discrete[name] - relaxed[name] for name in relaxed}
    return IntegralityGap(relaxed, discrete, gap)


def evaluate_in_mode(model, data, mode, functions=None, **kwargs):
    """`model.evaluate` with its sampling layers in `mode`.

    Args:
        model: A compiled Keras model.
        data: What `fit` takes as `validation_data`.
        mode: As in `tfc.layers.inference_mode`.
        functions: A dictionary that keeps the compiled function of each mode between
            calls on one model.
        **kwargs: For `model.evaluate`.

    Returns:
        Dictionary of the loss and the metrics.
    """
    functions = {} if functions is None else functions
    if isinstance(data, tuple):
        names = ("x", "y", "sample_weight")
        unpacked = keras.utils.unpack_x_y_sample_weight(data)
        kwargs.update(zip(names, unpacked, strict=True))
    else:
        kwargs["x"] = data
    # The model's own test function was traced in another mode.
    own = model.test_function
    model.test_function = functions.get(mode)
    try:
        with inference_mode(model, mode), preserved_state(model):
            logs = model.evaluate(return_dict=True, verbose=0, **kwargs)
        functions[mode] = model.test_function
    finally:
        model.test_function = own
    if mode == "relaxed" and "discrete_gap" in logs:
        # The models of this package evaluate their bound both ways whatever the mode.
        return {"loss": logs["loss"] - logs["discrete_gap"]}
    return logs
