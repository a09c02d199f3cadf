"""Neighbouring nodes composed by a binary Tree-LSTM, kept while they stay neighbours.

A merge leaves all pairs but two as they are, so a step of a tree composes two new ones and
shifts the rest. Straight-through gradients need more than the values of the rest: a choice
moves nodes, and every pair's score changes with its nodes. That has two parts, both fixed
when a pair is made:

    d score / d weights   the score is kept as a function of the weights, its nodes constant;
    d score / d nodes     the slopes, which `with_slopes` hands to the nodes in every step.

Their sum is the gradient of composing all pairs anew in every step.

A node is a vector `[2 * units]`, its hidden state followed by its memory.
"""

import math
from typing import NamedTuple

import tensorflow as tf


class Weights(NamedTuple):
    """What composes and scores: `[2 * units, 5 * units]`, `[5 * units]`, `[units]`."""

    kernel: tf.Tensor
    bias: tf.Tensor
    query: tf.Tensor


class Pairs(NamedTuple):
    """Each node with its right neighbour, `[batch, length]` pairs.

    Attributes:
        parent: Their compositions, `[..., 2 * units]`, as constants.
        score: `[...]`, differentiable in the weights alone.
        slopes: The gradients of the scores to the left and to the right node, a list of two
            `[..., 2 * units]`; empty where nobody asks for them.
    """

    parent: tf.Tensor
    score: tf.Tensor
    slopes: list


def compose(left, right, weights):
    """A binary Tree-LSTM: the parents of pairs of nodes.

    Args:
        left: Nodes `[..., 2 * units]`.
        right: Their right neighbours.
        weights: `Weights`.

    Returns:
        The parents, `[..., 2 * units]`.
    """
    left_hidden, left_memory = tf.split(left, 2, axis=-1)
    right_hidden, right_memory = tf.split(right, 2, axis=-1)
    gates = tf.concat([left_hidden, right_hidden], axis=-1) @ weights.kernel + weights.bias
    update, keep_left, keep_right, candidate, output = tf.split(gates, 5, axis=-1)
    # 1 is added to the forget gates: they start at 0.73, more open than closed.
    memory = (
        tf.sigmoid(keep_left + 1) * left_memory
        + tf.sigmoid(keep_right + 1) * right_memory
        + tf.sigmoid(update) * tf.tanh(candidate)
    )
    return tf.concat([tf.sigmoid(output) * tf.tanh(memory), memory], axis=-1)


def make_pairs(left, right, weights, has_slopes):
    """The `Pairs` of nodes; arguments as in `compose`."""
    nodes = [tf.stop_gradient(left), tf.stop_gradient(right)]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(nodes)
        parent = compose(*nodes, weights)
        hidden, _ = tf.split(parent, 2, axis=-1)
        score = tf.linalg.matvec(hidden, weights.query) / math.sqrt(hidden.shape[-1])
    slopes = tape.gradient(score, nodes) if has_slopes else []
    return Pairs(tf.stop_gradient(parent), score, [tf.stop_gradient(x) for x in slopes])


def with_slopes(pairs, nodes):
    """The scores `[batch, length]`, differentiable in the nodes too."""
    if not pairs.slopes:
        return pairs.score

    @tf.custom_gradient
    def attach(score, nodes):
        def backward(upstream):
            to_left, to_right = (upstream[..., tf.newaxis] * slope for slope in pairs.slopes)
            return upstream, to_left + _before(to_right)

        return tf.identity(score), backward

    return attach(pairs.score, nodes)


def merge_nodes(nodes, pairs, choice, hard, weights):
    """Every node becomes its pair's parent, stays, or is its right neighbour.

    Args:
        nodes: `[batch, length, 2 * units]`.
        pairs: Their `Pairs`.
        choice: `[batch, length]`, the straight-through choice of a pair.
        hard: boolean `[batch, length]`, its value: True at that pair; in a row that is done
            nowhere, and nothing moves.
        weights: `Weights`.

    Returns:
        The new nodes.
    """
    right = after(nodes)
    made = compose(_take(nodes, hard), _take(right, hard), weights)
    # The parents are constants; the one that is made passes its gradient to its nodes.
    is_made = tf.cast(hard, choice.dtype)[..., tf.newaxis]
    parent = pairs.parent + is_made * (made - tf.stop_gradient(made))[:, tf.newaxis]
    chosen = choice[..., tf.newaxis]
    moved = tf.cumsum(chosen, axis=1)
    return chosen * parent + (1 - moved) * nodes + (moved - chosen) * right


def merge_pairs(pairs, nodes, hard, weights):
    """The pairs of the nodes after a merge: two are new, those behind it move up.

    Args:
        pairs: The `Pairs` before it.
        nodes: The nodes after it.
        hard: boolean `[batch, length]`, where the merged node stands.
        weights: `Weights`.

    Returns:
        The new `Pairs`.
    """
    is_left, is_right = after(hard), _before(hard)
    left, made, right = (_take(tf.stop_gradient(nodes), at) for at in (is_left, hard, is_right))
    new = make_pairs(
        tf.stack([left, made], axis=1),
        tf.stack([made, right], axis=1),
        weights,
        bool(pairs.slopes),
    )
    is_behind = tf.cumsum(tf.cast(is_right, tf.float32), axis=1) > 0.0

    def placed(old, new):
        behind, first, second = (x[..., tf.newaxis] for x in (is_behind, is_left, hard))
        kept = tf.where(behind, after(old), old)
        return tf.where(first, new[:, :1], tf.where(second, new[:, 1:], kept))

    score = placed(pairs.score[..., tf.newaxis], new.score[..., tf.newaxis])
    slopes = [placed(*x) for x in zip(pairs.slopes, new.slopes, strict=True)]
    return Pairs(placed(pairs.parent, new.parent), score[..., 0], slopes)


@tf.custom_gradient
def permuted(x, order):
    """`x` `[batch, length, ...]` in another order `[batch, length]` along axis 1."""

    def backward(upstream):
        # The gradient is a permutation too: no scattering, whose sums have no fixed order.
        inverse = tf.argsort(tf.cast(order, tf.float32))
        return tf.gather(upstream, inverse, batch_dims=1), None

    return tf.gather(x, order, batch_dims=1), backward


def after(x):
    """What stands to the right of every place along axis 1; zeros beyond the last."""
    return tf.concat([x[:, 1:], tf.zeros_like(x[:, :1])], axis=1)


def _before(x):
    return tf.concat([tf.zeros_like(x[:, :1]), x[:, :-1]], axis=1)


def _take(x, at):
    """The entry of `x` `[batch, length, ...]` where `at` is True; zeros where it never is."""
    return tf.reduce_sum(tf.where(at[..., tf.newaxis], x, tf.zeros_like(x)), axis=1)
