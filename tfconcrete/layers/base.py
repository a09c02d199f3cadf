"""The base class of all sampling layers: a variable, an estimator, and Keras' habits."""

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfconcrete._checks import (
    check_axis,
    check_floating,
    check_mask,
    check_num_classes,
    invalid_type,
    shape_of,
)
from tfconcrete._floors import log_floor
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.layers.recorder import note_call, note_codes
from tfconcrete.layers.tempered import TemperedLayer
from tfconcrete.relaxations.masking import zero_masked
from tfconcrete.schedules.schedule import Schedule
from tfconcrete.variables import Categorical
from tfconcrete.variables.base import Variable


class TrainingSample(NamedTuple):
    """A training sample as a bound reads it.

    Fields:
        node: What its density is a function of, see `tfc.variables.Variable`.
        value: What a decoder sees of it.
        temperature: The temperature it was drawn at.
    """

    node: Any
    value: tf.Tensor
    temperature: tf.Tensor


class SamplingLayer(TemperedLayer):
    """A relaxed or straight-through sample in training, a discrete one at inference.

    Subclasses implement `relax`, the one hook behind `fit`, the models of `tfc.models`,
    calibration and diagnostics; and `variable` where their variables are not one of
    `num_classes` along `axis`.

    Args:
        temperature: A positive number, or a schedule from `tfc.schedules` (or any
            serialisable callable from a step to a temperature), which then advances
            once for each training call; inside a loop once for the whole loop.
        axis: The class axis of the logits.
        inference: `"argmax"` (the most probable class, deterministic), `"sample"` (an
            exact one-hot draw) or `"probs"` (the class probabilities).
        seed: An int, None, or a `keras.random.SeedGenerator`.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        logits: float tensor `[..., num_classes]` (classes along `axis`), unnormalised
            log probabilities. (Probabilities given by mistake are no error: they are a
            flatter distribution.) A NaN makes its row NaN in every mode.
        class_mask: boolean, broadcast against `logits`; True keeps the class. A masked
            class has probability, sample and gradient exactly zero in every mode, and
            a row with nothing kept is zero. Keras' own sequence mask is another thing:
            it passes through unchanged, and masks the classes only where they are the
            time steps (`axis=1`).
        training: Whether to give the training output, or what `inference` says. Keras
            fills it in `fit`; a subclassed model passes it on only if its own `call`
            has a `training` argument.

    Returns:
        Tensor of the shape of `logits`, in the layer's compute dtype.

    Example:

    >>> class Flattened(tfc.layers.SamplingLayer):
    ...     "The probabilities at a higher temperature, without noise."
    ...
    ...     def relax(self, logits, temperature, class_mask=None, seed=None):
    ...         temperature = tf.cast(temperature, logits.dtype)
    ...         return tf.nn.softmax(logits / temperature, axis=self.axis)
    >>> layer = Flattened(temperature=10.0)
    >>> logits, mask = tf.constant([[0.0, 2.0, 9.0]]), tf.constant([True, True, False])
    >>> layer(logits, class_mask=mask).numpy()
    array([[0., 1., 0.]], dtype=float32)
    >>> layer(logits, class_mask=mask, training=True).numpy().round(2)
    array([[0.45, 0.55, 0.  ]], dtype=float32)
    """

    # The name of the first argument of `call`.
    _params_name = "logits"

    def __init__(
        self,
        temperature: TensorLike | Schedule,
        axis: int = -1,
        inference: str = "argmax",
        seed: Seed = None,
        **kwargs,
    ) -> None:
        super().__init__(temperature, inference=inference, seed=seed, **kwargs)
        self.axis = check_axis(axis)
        self._num_states: int | None = None
        self.supports_masking = True

    @property
    def variable(self) -> Variable:
        """The family of variables that the layer samples, a `tfc.variables.Variable`."""
        return Categorical(self._num_states, self.axis)

    def relax(
        self,
        logits: tf.Tensor,
        temperature: TensorLike,
        class_mask: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        """The training output: the hook to override, without state.

        Args:
            logits: float tensor of the shape that the layer is called on, in the layer's
                compute dtype (half precision under a mixed policy: compute in float32
                where that matters). Masked classes have a large finite negative. A row
                with a NaN must come out NaN: `tf.nn.softmax` does that, `tf.argmax` does not.
            temperature: scalar float32 tensor.
            class_mask: None or a boolean tensor that broadcasts against `logits`. A hook
                may ignore it: masked classes are hidden from it, and set to zero after.
            seed: int32 `[2]` tensor; every call gets another one.

        Returns:
            Tensor of the shape of `logits`.
        """
        raise NotImplementedError(
            f"Layer `{type(self).__name__}` must define "
            "`relax(self, logits, temperature, class_mask=None, seed=None)`, its output in "
            "training."
        )

    def relax_node(
        self,
        logits: tf.Tensor,
        temperature: TensorLike,
        class_mask: TensorLike | None = None,
        seed: Seed = None,
    ) -> Any:
        """The node behind `relax`, see `tfc.variables.Variable`; by default its output."""
        return self.relax(logits, temperature, class_mask=class_mask, seed=seed)

    def has_hook_of(self, kind: "type[SamplingLayer]") -> bool:
        """Whether `relax` is that of the class `kind`, and not overridden."""
        return getattr(self.relax, "__func__", None) is kind.relax

    def to_output(self, state: tf.Tensor) -> tf.Tensor:
        """The layer's output for a state or a value of its variable."""
        return state

    def from_output(self, output: tf.Tensor) -> tf.Tensor:
        """The value on the simplex (or between the levels) of an output of the layer."""
        return output

    def sample(
        self,
        logits: tf.Tensor,
        class_mask: TensorLike | None = None,
        seed: Seed = None,
        advance: bool = True,
    ) -> TrainingSample:
        """A training sample with its node, for bounds that need more than the output.

        Args:
            logits: As in `call`.
            class_mask: As in `call`.
            seed: int32 `[2]` tensor; None for the next one of the layer's stream.
            advance: Whether a schedule moves on.

        Returns:
            A `TrainingSample`.
        """
        temperature = self.current_temperature(advance)
        seed = self.next_seed() if seed is None else seed
        hidden = self._hide_masked(logits, class_mask)
        node = self.relax_node(hidden, temperature, class_mask=class_mask, seed=seed)
        value = zero_masked(self.variable.value(node), class_mask)
        self.observe(logits, temperature, class_mask, seed)
        note_call(self, logits, value)
        return TrainingSample(node, value, temperature)

    def argmax(self, logits: tf.Tensor, class_mask: TensorLike | None = None) -> tf.Tensor:
        """The output for the most probable state, whatever the mode; codes are recorded."""
        temperature = self.current_temperature()
        state, codes = self.variable.state_and_codes(logits, class_mask, temperature)
        note_codes(self.name, codes)
        return self.to_output(state)

    def log_prob(
        self, sample: tf.Tensor, logits: tf.Tensor, class_mask: TensorLike | None = None
    ) -> tf.Tensor:
        """log P of exact samples, for policies and score functions.

        Args:
            sample: Output of the layer (one-hot, or its logarithm, or levels), with any
                leading dimensions. Relaxed samples count linearly (Concrete, Eq. 21).
            logits: As in `call`.
            class_mask: As in `call`; what lies on a masked class has -inf.

        Returns:
            Tensor at least float32, one value for each variable, differentiable in
            `logits`.
        """
        value = self.from_output(tf.convert_to_tensor(sample))
        variable, temperature = self.variable, self.current_temperature()
        if variable.num_params == 1:
            logits = tf.convert_to_tensor(logits)
            variable = variable.from_end(logits.shape)
        return variable.log_prob(value, logits, class_mask, temperature)

    def entropy(self, logits: tf.Tensor, class_mask: TensorLike | None = None) -> tf.Tensor:
        """The entropy of each variable in nats; arguments as in `call`."""
        return self.variable.entropy(logits, class_mask, self.current_temperature())

    def observe(
        self, logits: tf.Tensor, temperature: TensorLike, class_mask: TensorLike | None, seed: Seed
    ) -> None:
        """What a layer keeps in metrics of its own after each training sample."""
        return  # AutoGraph cannot convert a body that is a docstring alone.

    # As Keras' own `__call__`, which AutoGraph leaves alone.
    @tf.autograph.experimental.do_not_convert
    def __call__(self, *args, **kwargs) -> Any:
        if kwargs.get("mask") is not None:
            raise TypeError(
                "Unrecognized keyword argument `mask`: that is Keras' name for the mask of a "
                f"sequence. Pass `class_mask` to keep and drop classes of '{self.name}'."
            )
        if args or self._params_name in kwargs:
            self._check_kind(args[0] if args else kwargs[self._params_name])
        return super().__call__(*args, **kwargs)

    def build(self, logits_shape: Any, class_mask_shape: Any = None) -> None:
        self._check_shape(logits_shape)
        self._num_states = self.variable.states_along(logits_shape)

    def call(
        self, logits: tf.Tensor, class_mask: TensorLike | None = None, training: bool | None = None
    ) -> tf.Tensor:
        self._check_inputs(logits, class_mask)
        class_mask = self._with_sequence_mask(logits, class_mask)
        self.note_compiled(training)
        mode = self.current_mode(training)
        if mode == "argmax":
            self.warn_without_gradient(training, logits)
            output = self.argmax(logits, class_mask)
        elif mode == "relaxed":
            temperature = self.current_temperature(advance=bool(training))
            seed = self.next_seed()
            hidden = self._hide_masked(logits, class_mask)
            output = self.relax(hidden, temperature, class_mask=class_mask, seed=seed)
            self._check_relaxed(output, logits)
            output = self._drop_masked(output, class_mask)
            self.observe(logits, temperature, class_mask, seed)
        else:
            output = self._drawn(mode, logits, class_mask)
        output = tf.cast(output, self.compute_dtype)
        note_call(self, logits, output)
        return output

    def _drawn(self, mode, logits, class_mask):
        variable, temperature = self.variable, self.current_temperature()
        if mode == "sample":
            draw = variable.draw(logits, class_mask, temperature, self.next_seed())
            return self.to_output(draw)
        seed = None if variable.has_exact_probs else self.next_seed()
        return self.to_output(variable.probs(logits, class_mask, temperature, seed))

    def _hide_masked(self, logits, class_mask):
        """Logits whose masked classes have no chance and no gradient, whatever they hold."""
        if class_mask is None:
            return logits
        hidden = tf.cast(log_floor(logits.dtype), logits.dtype)
        return tf.where(class_mask, logits, hidden)

    def _drop_masked(self, output, class_mask):
        """An output of the layer without its masked classes."""
        return output if class_mask is None else zero_masked(output, class_mask)

    def _with_sequence_mask(self, logits, class_mask):
        """The mask of the classes where these are the time steps of a masked sequence."""
        sequence = getattr(logits, "_keras_mask", None)
        rank = getattr(getattr(logits, "shape", None), "rank", None)
        if sequence is None or rank is None or rank < 2 or self.axis % rank != 1:
            return class_mask
        sequence = tf.reshape(sequence, tf.concat([tf.shape(logits)[:2], [1] * (rank - 2)], 0))
        return sequence if class_mask is None else tf.logical_and(class_mask, sequence)

    def _check_kind(self, params):
        """Raises for what Keras would refuse without a word on the argument."""
        count = self.variable.num_params
        leaves = params if count > 1 and isinstance(params, (list, tuple)) else [params]
        if not all(hasattr(leaf, "shape") for leaf in leaves):
            expected = (
                "one dense float tensor" if count == 1 else f"a list of {count} float tensors"
            )
            raise invalid_type(self._params_name, expected, params)

    def _check_shape(self, logits_shape):
        """Raises unless the layer can take logits of this shape."""
        check_num_classes(logits_shape, self.axis)

    def _check_inputs(self, logits, class_mask):
        """Raises unless dtypes and shapes of the call arguments fit."""
        check_tensor(logits, "logits")
        self._check_shape(logits.shape)
        if class_mask is not None:
            check_mask(class_mask, logits.shape, self.axis)

    def _check_relaxed(self, output, logits):
        """Raises unless the hook gave a tensor of the layer's output shape."""
        shapes = keras.tree.map_structure(shape_of, logits)
        if any(tf.TensorShape(shape_of(x)).rank is None for x in keras.tree.flatten(logits)):
            return
        shape = self.compute_output_shape(shapes)
        if not tf.TensorShape(shape_of(output)).is_compatible_with(shape):
            raise ValueError(
                f"`{type(self).__name__}.relax` must return a tensor of the layer's output "
                f"shape, {tuple(shape)}. Received: shape {tuple(shape_of(output))}"
            )

    def compute_output_shape(self, logits_shape: Any, class_mask_shape: Any = None) -> tuple:
        self._check_shape(logits_shape)
        return tuple(logits_shape)

    def compute_output_spec(
        self, logits: tf.Tensor, class_mask: TensorLike | None = None, training: bool | None = None
    ) -> Any:
        self._check_inputs(logits, class_mask)
        shape = self.compute_output_shape(keras.tree.map_structure(lambda x: x.shape, logits))
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "axis": self.axis}


def check_tensor(value, name):
    """One dense float tensor."""
    dense = (tf.Tensor, keras.KerasTensor, np.ndarray, tf.Variable, keras.Variable)
    if not isinstance(value, dense) or isinstance(value, (tf.RaggedTensor, tf.SparseTensor)):
        raise invalid_type(name, "one dense float tensor", value)
    check_floating(value, name)
