"""The discretization gap: a model with relaxed samples against the same model discrete."""

import collections
from typing import Any

import keras

from tfconcrete.layers.inference import overridden_modes, preserved_state

DiscretizationGap = collections.namedtuple(
    "DiscretizationGap", ["relaxed", "discrete", "argmax", "gap", "argmax_gap"]
)
DiscretizationGap.__doc__ = """A model evaluated with relaxed and with discrete samples.

Fields, each a dictionary of the loss and the metrics:
    relaxed: With the training samples of the sampling layers.
    discrete: With discrete samples: exact draws in the models of `tfc.models` and where a
        layer says `inference="sample"`, else the argmax.
    argmax: With the most probable states, as they are served.
    gap: `discrete` minus `relaxed`.
    argmax_gap: `argmax` minus `discrete`: what serving the argmax costs beyond that. For a
        straight-through layer, whose training samples are exact draws, this is the gap that
        matters.
"""


def discretization_gap(
    model: keras.Model, data: Any, batch_size: int | None = None, steps: int | None = None
) -> DiscretizationGap:
    """Evaluates a compiled model with relaxed samples, discrete ones, and the argmax.

    Everything but the sampling layers is in inference mode each time. Relaxed samples are
    drawn at the layers' present temperatures. The model's seeds, schedules and other state
    are left as they were. (`integrality_gap` is another name for this.)

    Args:
        model: A compiled Keras model.
        data: What `fit` takes as `validation_data`: `(x, y)`, `(x, y, sample_weight)`, a
            `tf.data.Dataset`, or the inputs alone.
        batch_size: As in `model.evaluate`.
        steps: As in `model.evaluate`.

    Returns:
        `DiscretizationGap`, a named tuple of dictionaries with the loss and metrics:
        `relaxed`, `discrete`, `argmax`, and the differences `gap` (discrete minus relaxed)
        and `argmax_gap` (argmax minus discrete).

    Example:

    >>> layers = [keras.Input([4]), keras.layers.Dense(3), tfc.ConcreteSample(seed=0)]
    >>> model = keras.Sequential(layers)
    >>> model.compile(loss="mse")
    >>> x, y = tf.ones([8, 4]), tf.ones([8, 3])
    >>> sorted(tfc.diagnostics.discretization_gap(model, (x, y)).gap)
    ['loss']
    """
    return evaluate_gap(model, data, batch_size=batch_size, steps=steps)


def evaluate_gap(model, data, functions=None, **kwargs):
    """`discretization_gap` with the arguments of `evaluate_in_mode`."""
    relaxed, discrete, argmax = (
        evaluate_in_mode(model, data, mode, functions, **kwargs)
        for mode in ("relaxed", "discrete", "argmax")
    )
    gap = {name: discrete[name] - relaxed[name] for name in relaxed}
    argmax_gap = {name: argmax[name] - discrete[name] for name in argmax}
    return DiscretizationGap(relaxed, discrete, argmax, gap, argmax_gap)


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
    # Functions that were traced in another mode wait until this one is over.
    own = model.test_function
    try:
        with overridden_modes(model, mode), preserved_state(model):
            model.test_function = functions.get(mode)
            logs = model.evaluate(return_dict=True, verbose=0, **kwargs)
            functions[mode] = model.test_function
            model.test_function = None
    finally:
        model.test_function = own
    if "discretization_gap" in logs:
        # The models of this package evaluate their bound both ways whatever the mode.
        gap = logs.pop("discretization_gap")
        return {"loss": logs["loss"] - gap} if mode == "relaxed" else logs
    return logs
