"""`LatentTreeLSTM`: a sequence composed along a binary tree that the layer chooses itself."""

from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import check_count, check_flag, invalid_type, invalid_value
from tfconcrete.layers.base import SamplingLayer
from tfconcrete.layers.recorder import record_codes
from tfconcrete.layers.tree_pairs import (
    Weights,
    after,
    make_pairs,
    merge_nodes,
    merge_pairs,
    permuted,
    with_slopes,
)
from tfconcrete.relaxations.discretize import codes
from tfconcrete.variables import Categorical


@keras.saving.register_keras_serializable(package="tfconcrete")
class LatentTreeLSTM(keras.layers.Layer):
    """Merges neighbours one pair at a time, each pair a discrete choice (Gumbel Tree-LSTM).

    Each step composes every pair of neighbours with a binary Tree-LSTM, scores the
    results against a learned query, lets `choice` pick one pair of those that exist,
    and puts its composition in the place of the two. After `length - 1` steps one node
    is left, the root. Gradients reach the scores through the straight-through choices.

    A merge leaves all pairs but two as they are, and only these are composed anew: for a
    sequence of n tokens 4n compositions, and n**2 states to be moved. All steps are one
    `tf.while_loop` of static shapes, also under XLA.

    Args:
        units: Size of the nodes' hidden and memory states.
        choice: The sampling layer that makes the choices, such as
            `tfc.GapStraightThrough(temperature=0.1)`, hard in its forward pass. A
            temperature schedule given to it advances once for each tree.
        leaf_lstm: Whether the leaves are the states of an LSTM over the sequence, instead
            of a linear map of each element.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        sequence: float tensor `[batch, length, features]`.
        mask: boolean `[batch, length]`, True for the elements of a sequence: the others are
            never merged, and positions count without them. None where all have the full
            length. Keras passes the mask of an `Embedding(mask_zero=True)` by itself.
        training: Whether `choice` gives its training output, or what its `inference` says.

    Returns:
        `(root, merges)`: the hidden state of the root, `[batch, units]`, and the parse,
        int32 `[batch, length - 1]`: step t merged node `merges[:, t]` of the nodes left
        with its right neighbour; -1 past the end. A sequence of one element is its own
        root.

    Reference:
        Choi, Yoo & Lee (2018), "Learning to Compose Task-Specific Tree Structures";
        Fan et al. (2022), Section 5.2.

    Example:

    >>> tree = tfc.layers.LatentTreeLSTM(8, tfc.GapStraightThrough(temperature=0.1))
    >>> mask = tf.sequence_mask([5, 3], 5)
    >>> root, merges = tree(tf.random.normal([2, 5, 4]), mask=mask)
    >>> root.shape, merges.shape
    (TensorShape([2, 8]), TensorShape([2, 4]))
    >>> merges.numpy()[1, 2:]
    array([-1, -1], dtype=int32)
    """

    def __init__(self, units: int, choice: keras.Layer, leaf_lstm: bool = False, **kwargs) -> None:
        super().__init__(**kwargs)
        self.units = check_count(units, "units")
        if isinstance(choice, dict):
            choice = keras.saving.deserialize_keras_object(choice)
        if not isinstance(choice, SamplingLayer) or type(choice.variable) is not Categorical:
            raise invalid_type("choice", "a straight-through layer of `tfc.layers`", choice)
        if choice.axis not in (-1, 1):
            raise invalid_value("choice", "a layer with axis=-1", choice)
        self.choice = choice
        self.leaf_lstm = check_flag(leaf_lstm, "leaf_lstm")
        if leaf_lstm:
            cell = _LeafCell(units, kernel_initializer="he_normal", dtype=self.dtype_policy)
            self.leaves = keras.layers.RNN(
                cell, return_sequences=True, name="leaves", dtype=self.dtype_policy
            )
        else:
            self.leaves = keras.layers.Dense(
                2 * units, kernel_initializer="he_normal", name="leaves", dtype=self.dtype_policy
            )

    def build(self, sequence_shape: Any) -> None:
        if len(sequence_shape) != 3:
            raise invalid_value("sequence", "a shape [batch, length, features]", sequence_shape)
        self.leaves.build(sequence_shape)
        self.choice.build((None, None))
        self.kernel = self.add_weight(
            shape=(2 * self.units, 5 * self.units), initializer="orthogonal", name="kernel"
        )
        self.bias = self.add_weight(shape=(5 * self.units,), initializer="zeros", name="bias")
        self.query = self.add_weight(
            shape=(self.units,), initializer=keras.initializers.RandomNormal(0, 0.01), name="query"
        )

    def call(
        self, sequence: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None
    ) -> Any:
        length = sequence.shape[1] or tf.shape(sequence)[1]
        # Places are counted in float32: int32 arithmetic runs on the host of a GPU.
        places = tf.range(tf.cast(length, tf.float32))
        if mask is None:
            mask = tf.ones(tf.shape(sequence)[:2], tf.bool)
        else:
            mask = _checked(mask, sequence.shape[:2])
            # Elements come first, in their order; what is masked may be NaN.
            moved = tf.where(mask, places, places + tf.cast(length, tf.float32))
            sequence = tf.where(mask[..., tf.newaxis], sequence, tf.zeros_like(sequence))
            sequence = permuted(sequence, tf.argsort(moved))
        num_nodes = tf.reduce_sum(tf.cast(mask, tf.float32), axis=-1, keepdims=True)
        mask = places < num_nodes
        weights = Weights(*map(tf.convert_to_tensor, (self.kernel, self.bias, self.query)))
        # `tf.identity` carries no Keras mask: what follows a sequence changes no state of it.
        leaves = self.leaves(tf.identity(sequence))
        nodes = tf.where(mask[..., tf.newaxis], leaves, tf.zeros_like(leaves))
        is_relaxed = self.choice.current_mode(training) == "relaxed"
        pairs = make_pairs(nodes, after(nodes), weights, is_relaxed)
        parse = tf.TensorArray(tf.int32, size=length - 1, element_shape=sequence.shape[:1])

        def merge_one(step, nodes, pairs, parse):
            is_pair = places < num_nodes - 1.0 - tf.cast(step, tf.float32)
            # An export, which listens for codes, gets all of them at once: the merges.
            with record_codes():
                scores = with_slopes(pairs, nodes)
                choice = self.choice(scores, class_mask=is_pair, training=training)
            merge = codes(choice, class_mask=is_pair)
            hard = places == tf.cast(merge, tf.float32)[:, tf.newaxis]
            choice = tf.cast(hard, choice.dtype) + (choice - tf.stop_gradient(choice))
            nodes = merge_nodes(nodes, pairs, choice, hard, weights)
            pairs = merge_pairs(pairs, nodes, hard, weights)
            return step + 1, nodes, pairs, parse.write(step, merge)

        _, nodes, _, parse = tf.while_loop(
            lambda step, *_: step < length - 1,
            merge_one,
            (tf.constant(0), nodes, pairs, parse),
            maximum_iterations=length - 1,
            parallel_iterations=1,
        )
        return nodes[:, 0, : self.units], tf.transpose(parse.stack())

    def compute_mask(self, sequence: tf.Tensor, previous_mask: tf.Tensor | None = None) -> Any:
        return [None, None]

    def compute_output_spec(
        self, sequence: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None
    ) -> Any:
        batch, length = sequence.shape[:2]
        merges = None if length is None else length - 1
        return (
            keras.KerasTensor((batch, self.units), dtype=self.compute_dtype),
            keras.KerasTensor((batch, merges), dtype="int32"),
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "choice": keras.saving.serialize_keras_object(self.choice),
            "leaf_lstm": self.leaf_lstm,
        }


def _checked(mask, shape):
    """A boolean tensor `[batch, length]`."""
    mask = tf.convert_to_tensor(mask)
    if mask.dtype != tf.bool:
        raise invalid_type("mask", "a boolean tensor, True for each element", mask)
    if not mask.shape.is_compatible_with(shape):
        raise invalid_value("mask", f"shape {tuple(shape)}, [batch, length]", mask)
    return mask


class _LeafCell(keras.layers.LSTMCell):
    """An LSTM cell whose output is both of its states."""

    output_size = property(lambda self: 2 * self.units, lambda self, value: None)

    def call(self, inputs, states, training=False):
        _, states = super().call(inputs, states, training)
        return tf.concat(states, axis=-1), states
