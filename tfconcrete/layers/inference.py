"""The inference mode of a layer: what it does outside training, and who compiled it in."""

import contextlib
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import check_choice
from tfconcrete._typing import Seed
from tfconcrete.layers.calls import (
    could_train,
    current_call,
    function_graph,
    held_graphs,
    is_differentiated,
    is_said,
    note_entry,
    outermost_function,
)
from tfconcrete.layers.seeded import SeededLayer

INFERENCE_MODES = ("argmax", "sample", "probs")
# What `inference_mode` takes beside them.
CONTEXT_MODES = (*INFERENCE_MODES, "relaxed", "discrete", "serving")
# The functions in which Keras runs `evaluate` and `predict`.
_KERAS_FUNCTIONS = ("one_step_on", "multi_step_on")


class InferenceLayer(SeededLayer):
    """A random layer with an inference mode.

    A mode is compiled into `evaluate` and `predict` of the models that hold the layer. When
    it changes, those functions are made anew; a `tf.function` of the user's own cannot be,
    and then the change is refused.

    Args:
        inference: `"argmax"`, `"sample"` or `"probs"`.
        seed: As in `SeededLayer`.
        **kwargs: The other arguments of `keras.layers.Layer`.
    """

    def __init__(self, inference: str = "argmax", seed: Seed = None, **kwargs) -> None:
        super().__init__(seed=seed, **kwargs)
        self._inference = check_choice(inference, "inference", INFERENCE_MODES)
        # What `inference_mode` wants instead of the layer's own `inference`.
        self._override: str | None = None
        self._compiled_models = weakref.WeakSet()
        self._compiled_graphs = weakref.WeakKeyDictionary()
        self._has_warned = False

    # As Keras' own `__call__`, which AutoGraph leaves alone.
    @tf.autograph.experimental.do_not_convert
    def __call__(self, *args, **kwargs) -> Any:
        if not self.is_serving:
            note_entry()
        return super().__call__(*args, **kwargs)

    @property
    def inference(self):
        """What the layer does outside training: "argmax", "sample" or "probs".

        A new value holds from the next call on, also in `evaluate` and `predict` of models
        that have run before.
        """
        return self._inference

    @inference.setter
    def inference(self, value: str):
        value = check_choice(value, "inference", INFERENCE_MODES)
        if value == self._inference:
            return
        self.refuse_compiled(value)
        self._inference = value
        self.forget_compiled()

    @property
    def is_serving(self):
        """Whether a graph for a server is being traced: argmax, no losses, no noise."""
        return self._override == "serving"

    @property
    def overridden_mode(self):
        """What `inference_mode` asks of this layer at present, or None."""
        return self._override

    def override_mode(self, mode: str):
        """Sets what `inference_mode` asks of this layer; None for its own mode."""
        self._override = mode

    def current_mode(self, training: bool | None):
        """`"relaxed"` in training, else what `inference` or the context says."""
        return "relaxed" if training else self.mode_in(self._override or self._inference)

    def mode_in(self, mode: str):
        """What the layer does outside training in a context of this mode."""
        if mode == "discrete":
            return "argmax" if self._inference == "probs" else self._inference
        return "argmax" if mode == "serving" else mode

    def note_compiled(self, training: bool | None, model: keras.Model | None = None):
        """Remembers which compiled function the present call is being traced into.

        Args:
            training: Whether it is a training call, which no mode is compiled into.
            model: The model whose step it is; by default the one that Keras is calling.
        """
        graph = function_graph()
        if training or graph is None or self.is_serving:
            return
        if model is None and current_call() is not None:
            model = current_call().entry_layer
        if isinstance(model, keras.Model):
            self._compiled_models.add(model)
        graph = outermost_function(graph)
        if not graph.name.startswith(_KERAS_FUNCTIONS):
            self._compiled_graphs[graph] = self.current_mode(training)

    def warn_without_gradient(self, training: bool | None, tensors: Any):
        """Warns once where a tape records what is computed from tensors that end here."""
        if self._has_warned or training or not is_differentiated(tensors):
            return
        # A `call(self, x, training=False)` has said nothing: that is its default.
        if (training is not None and is_said("training")) or not could_train():
            return
        self._has_warned = True
        warnings.warn(
            f"The sampling layer '{self.name}' is in argmax mode under a `GradientTape`: no "
            "gradient passes, and what feeds it is not trained. In training, call the model "
            "with `training=True`, and let the `call` of a subclassed model take a `training` "
            "argument and pass it on. (`training=False` says that this is meant.)",
            stacklevel=2,
        )

    def forget_compiled(self):
        """Lets the models that compiled a mode of this layer compile the present one."""
        for model in list(self._compiled_models):
            if model.test_function is not None:
                model.make_test_function(force=True)
            if model.predict_function is not None:
                model.make_predict_function(force=True)
        self._compiled_models.clear()

    def warn_compiled(self):
        """Warns where a `tf.function` of the user's holds another mode than the present."""
        held = sorted(set(self._held_modes(self.current_mode(training=False)).values()))
        if held:
            warnings.warn(
                f"A `tf.function` called inside `inference_mode` keeps layer '{self.name}' at "
                f"{', '.join(held)}. Make it anew to have it follow the layer again.",
                stacklevel=4,
            )

    def refuse_compiled(self, mode: str):
        """Raises where a `tf.function` of the user's holds another mode than `mode`."""
        others = self._held_modes(mode)
        if others:
            held = ", ".join(f'"{held}" in {name}' for name, held in sorted(others.items()))
            raise ValueError(
                f"Cannot let layer '{self.name}' do \"{mode}\": another mode is compiled into a "
                f"`tf.function` of yours ({held}), which would go on with it. Set the mode "
                "before that function is first called, or make the function anew and let go of "
                "the old one."
            )

    def _held_modes(self, mode):
        """Other modes than `mode` in functions that live, by the functions' names."""
        others = {graph: m for graph, m in self._compiled_graphs.items() if m != mode}
        held = held_graphs() if others else ()
        return {graph.name: m for graph, m in others.items() if id(graph) in held}


def sampling_layers(model: keras.Layer) -> list[keras.Layer]:
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
    return [layer for layer in all_layers(model) if isinstance(layer, InferenceLayer)]


def all_layers(model):
    """A model and all layers inside it, at any depth, each once, owners first."""
    found, seen = [], set()

    def visit(layer):
        if id(layer) in seen:
            return
        seen.add(id(layer))
        found.append(layer)
        for child in getattr(layer, "_layers", ()):
            visit(child)

    visit(model)
    return found


@contextlib.contextmanager
def inference_mode(model: keras.Model, mode: str) -> Iterator:
    """Inside, the sampling layers called outside training do what `mode` says.

    `evaluate` and `predict` follow, inside and after it. A `tf.function` of your own keeps
    the mode of its first call.

    Args:
        model: A Keras layer or model.
        mode: `"relaxed"` (the training output, at the present temperature: schedules
            stand still), `"discrete"` (`"argmax"`, or `"sample"` where the layer says
            that), `"argmax"`, `"sample"`, `"probs"`, or `"serving"` (the argmax, and
            nothing that a served graph must not hold).

    Example:

    >>> layer = tfc.ConcreteSample(inference="argmax")
    >>> with tfc.layers.inference_mode(layer, "probs"):
    ...     layer(tf.constant([[0.0, 0.0]])).numpy()
    array([[0.5, 0.5]], dtype=float32)
    """
    check_choice(mode, "mode", CONTEXT_MODES)
    for layer in sampling_layers(model):
        layer.refuse_compiled(layer.mode_in(mode))
    with overridden_modes(model, mode):
        yield
    for layer in sampling_layers(model):
        layer.warn_compiled()


@contextlib.contextmanager
def overridden_modes(model, mode):
    """`inference_mode` for whoever compiles functions of its own inside."""
    layers = sampling_layers(model)
    previous = [layer.overridden_mode for layer in layers]
    _override(layers, [mode] * len(layers))
    try:
        yield
    finally:
        _override(layers, previous)


def _override(layers, modes):
    for layer, mode in zip(layers, modes, strict=True):
        if mode != layer.overridden_mode:
            layer.forget_compiled()
            layer.override_mode(mode)


@contextlib.contextmanager
def preserved_state(model: keras.Model) -> Iterator:
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
