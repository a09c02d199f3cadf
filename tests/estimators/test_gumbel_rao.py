"""Gumbel-Rao's cost: noise in the backward pass only, a few at a time."""

import numpy as np
import pytest
import tensorflow as tf

from tfconcrete.estimators import gumbel_rao
from tfconcrete.estimators.gumbel_rao import _CHUNK

RANDOM_OP = "StatelessRandomUniformFullIntV2"


def all_nodes(function, *arguments):
    """The nodes of the traced graph and of every function it calls, with their shapes."""
    graph_def = (
        tf.function(function).get_concrete_function(*arguments).graph.as_graph_def(add_shapes=True)
    )
    nodes = list(graph_def.node)
    for inner in graph_def.library.function:
        nodes.extend(inner.node_def)
    return nodes


def sizes(nodes):
    for node in nodes:
        for shape in node.attr["_output_shapes"].list.shape:
            if not shape.unknown_rank:
                yield int(np.prod([dim.size for dim in shape.dim]))


def backward(logits, num_samples):
    with tf.GradientTape() as tape:
        tape.watch(logits)
        sample = gumbel_rao(logits, 0.5, num_samples, seed=0)
    return tape.gradient(sample, logits, output_gradients=tf.ones_like(logits))


def test_the_forward_pass_draws_once():
    nodes = all_nodes(lambda x: gumbel_rao(x, 0.5, 1000, seed=0), tf.TensorSpec([7, 3]))
    assert [node.op for node in nodes].count(RANDOM_OP) == 1


def test_memory_does_not_grow_with_the_number_of_samples():
    nodes = all_nodes(lambda x: backward(x, 1005), tf.TensorSpec([7, 3]))
    assert [node.op for node in nodes].count(RANDOM_OP) > 1
    assert max(sizes(nodes)) == _CHUNK * 21


def test_chunks_do_not_repeat_their_noise():
    logits = tf.random.stateless_normal([500, 4], [0, 1])
    upstream = tf.random.stateless_normal([500, 4], [0, 2])

    def spread(num_samples):
        samples, gradients = [], []
        for seed in range(2):
            with tf.GradientTape() as tape:
                tape.watch(logits)
                sample = gumbel_rao(logits, 0.5, num_samples, seed=seed)
            samples.append(sample.numpy())
            gradients.append(tape.gradient(sample, logits, output_gradients=upstream).numpy())
        same = np.all(samples[0] == samples[1], -1)
        return np.var((gradients[0] - gradients[1])[same])

    # Two seeds, rows with the same draw: the difference is noise alone, and falls as 1/K.
    assert spread(160) < 2.0 * spread(10) / 16


@pytest.mark.parametrize(
    ("num_samples", "error"),
    [(0, ValueError), (-3, ValueError), (1.5, TypeError), (True, TypeError)],
)
def test_bad_number_of_samples(num_samples, error):
    with pytest.raises(error, match="`num_samples`. Expected a whole number of at least 1"):
        gumbel_rao(tf.zeros([2, 3]), 0.5, num_samples)


def test_the_noise_is_independent_of_the_draw():
    """With 64 equal classes all that were not drawn are alike, wherever they stand.

    The draw goes by blocks of 8. A gradient's noise that shared words with it would tell
    the drawn block, or the place inside it, from the others.
    """
    num, num_classes, size = 4_000, 64, 8

    def one_row(seed):
        logits = tf.zeros([1, num_classes])
        with tf.GradientTape() as tape:
            tape.watch(logits)
            draw = gumbel_rao(logits, 0.5, 1, seed=tf.stack([seed, 0]))
            loss = tf.reduce_sum(tf.stop_gradient(draw) * draw)
        return draw[0], tape.gradient(loss, logits)[0]

    run = tf.function(
        lambda seeds: tf.map_fn(one_row, seeds, fn_output_signature=(tf.float32, tf.float32))
    )
    draw, gradient = run(tf.range(num))
    gradient = gradient.numpy().astype(np.float64)
    winner = draw.numpy().argmax(-1)[:, None]
    index = np.arange(num_classes)
    lost = index != winner
    mean, deviation = gradient[lost].mean(), gradient[lost].std()
    groups = {
        "first block": index // size == 0,
        "block of the winner": index // size == winner // size,
        "place of the winner": index % size == winner % size,
        "place of the winner's block": index % size == winner // size,
        "block of the winner's place": index // size == winner % size,
        "block and place exchanged": index == winner % size * size + winner // size,
    }
    for name, group in groups.items():
        chosen = gradient[np.broadcast_to(group, lost.shape) & lost]
        assert abs(chosen.mean() - mean) < 5 * deviation / np.sqrt(chosen.size), name
