"""`SamplingCell`: a token sampled in every step of an RNN, and read in the next."""

from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import check_count, invalid_type
from tfconcrete.layers.base import SamplingLayer
from tfconcrete.layers.recorder import record_codes


@keras.saving.register_keras_serializable(package="tfconcrete")
class SamplingCell(keras.layers.Layer):
    """An RNN cell that writes: each step samples a token, which the next step reads.

    For `keras.layers.RNN(cell, return_sequences=True)`, whose output are the tokens,
    `[batch, time, num_classes]`: straight-through or relaxed samples in training, one-hots
    otherwise. `tfc.layers.Codes` makes int32 codes `[batch, time]` of them, for the
    export. Every step of every call draws noise of its own.

    Args:
        cell: The RNN cell that remembers: `keras.layers.GRUCell(64)` or another.
        sampler: The sampling layer that draws the tokens. A temperature schedule given to
            it advances once for each sequence.
        num_classes: Number of different tokens.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `[batch, features]`, what the step is told beside the token
            before it. For one vector that all steps see, give the RNN
            `keras.layers.RepeatVector(time)(vector)`.
        states: The token before, `[batch, num_classes]` (zeros at first), and the states
            of `cell`.
        training: Whether `sampler` gives its training output.

    Returns:
        The token `[batch, num_classes]` and the list of new states.

    Example:

    >>> plan = keras.Input([4])
    >>> steps = keras.layers.RepeatVector(6)(plan)
    >>> sampler = tfc.GapStraightThrough(temperature=0.5)
    >>> cell = tfc.layers.SamplingCell(keras.layers.GRUCell(16), sampler, num_classes=10)
    >>> tokens = keras.layers.RNN(cell, return_sequences=True)(steps)
    >>> writer = keras.Model(plan, tfc.layers.Codes(name="tokens")(tokens))
    >>> writer(tf.zeros([2, 4])).shape
    TensorShape([2, 6])
    """

    def __init__(self, cell: keras.Layer, sampler: keras.Layer, num_classes: int, **kwargs) -> None:
        super().__init__(**kwargs)
        if isinstance(cell, dict):
            cell = keras.saving.deserialize_keras_object(cell)
        if isinstance(sampler, dict):
            sampler = keras.saving.deserialize_keras_object(sampler)
        if not hasattr(cell, "state_size"):
            raise invalid_type("cell", "an RNN cell, with a `state_size`", cell)
        if not isinstance(sampler, SamplingLayer) or sampler.variable.num_params != 1:
            raise invalid_type("sampler", "a sampling layer of `tfc.layers`, of logits", sampler)
        self.cell = cell
        self.sampler = sampler
        self.num_classes = check_count(num_classes, "num_classes", 2)
        self.logits = keras.layers.Dense(num_classes, name="logits", dtype=self.dtype_policy)
        size = cell.state_size
        self.state_size = [num_classes, *(size if isinstance(size, (list, tuple)) else [size])]
        self.output_size = num_classes

    def get_initial_state(self, batch_size: int | None = None) -> Any:
        states = self.cell.get_initial_state(batch_size)
        token = tf.zeros([batch_size, self.num_classes], self.compute_dtype)
        return [token, *(states if isinstance(states, (list, tuple)) else [states])]

    def build(self, inputs_shape: Any) -> None:
        batch, features = inputs_shape[0], inputs_shape[-1]
        # A cell that was restored from a file is built already.
        if not self.cell.built:
            self.cell.build((batch, features + self.num_classes))
        output = getattr(self.cell, "output_size", None) or self.state_size[1]
        self.logits.build((batch, output))
        self.sampler.build((batch, self.num_classes))

    def call(self, inputs: Any, states: Any, training: bool | None = None) -> Any:
        token, *states = states
        told = tf.concat([tf.cast(inputs, token.dtype), token], axis=-1)
        output, states = self.cell(told, states, training=training)
        # Codes of single steps are of no use to an export, which listens for codes.
        with record_codes():
            token = self.sampler(self.logits(output), training=training)
        return token, [token, *states]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "cell": keras.saving.serialize_keras_object(self.cell),
            "sampler": keras.saving.serialize_keras_object(self.sampler),
            "num_classes": self.num_classes,
        }
