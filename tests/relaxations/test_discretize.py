"""Rounding and exact draws."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

from tfconcrete import noise, relaxations


def test_ties_go_to_the_smallest_index():
    x = tf.constant([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [-0.0, 0.0, -1.0]])
    np.testing.assert_array_equal(
        relaxations.discretize(x), [[1, 0, 0], [1, 0, 0], [1, 0, 0]]
    )
    np.testing.assert_array_equal(relaxations.codes(x), [0, 0, 0])
    assert relaxations.codes(x).dtype == tf.int32


def test_no_gradient_passes():
    x = tf.Variable([[0.1, 0.7, 0.2]])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(relaxations.discretize(x) * [1.0, 2.0, 3.0])
    assert tape.gradient(loss, x) is None


@pytest.mark.parametrize("compiled", [False, True])
def test_draws_follow_the_softmax(compiled):
    """Chi-square over 400,000 draws of each of three rows of logits."""
    logits = np.array([[0.0, 0.0, 0.0, 0.0], [3.0, -1.0, 0.5, -4.0], [1e4, 1e4, -1e4, 9999.0]])
    draw = tf.function(
        lambda x: relaxations.categorical(tf.broadcast_to(x, [400_000, 3, 4]), seed=1),
        jit_compile=compiled,
    )
    counts = tf.reduce_sum(draw(tf.constant(logits, tf.float32)), 0).numpy()
    probs = scipy.special.softmax(logits, -1)
    for row in range(3):
        seen = probs[row] > 0
        assert np.all(counts[row][~seen] == 0)
        assert scipy.stats.chisquare(counts[row][seen], 400_000 * probs[row][seen]).pvalue > 1e-5


def test_draw_is_the_rounding_of_the_relaxed_sample():
    """The same seed: Proposition 1 (b) sample by sample."""
    logits = tf.constant(np.random.default_rng(0).normal(size=[100, 7]), tf.float32)
    soft = relaxations.concrete(logits, 0.5, seed=5)
    np.testing.assert_array_equal(
        relaxations.discretize(soft), relaxations.categorical(logits, seed=5)
    )


def test_mask_with_a_dominating_masked_logit():
    logits = tf.constant([1e4, 0.0, 0.0])
    mask = tf.constant([False, True, True])
    draws = relaxations.categorical(tf.broadcast_to(logits, [10_000, 3]), mask, seed=0)
    counts = tf.reduce_sum(draws, 0).numpy()
    assert counts[0] == 0
    assert abs(counts[1] - 5_000) < 5 * 50


@pytest.mark.parametrize("num_classes", [200, 32_000, 1_000_000])
def test_many_classes_under_xla(num_classes):
    """The winner is the one NumPy finds in the same noise."""
    draw = tf.function(
        lambda: relaxations.categorical(tf.zeros([2, num_classes]), seed=3), jit_compile=True
    )
    winners = draw().numpy().argmax(-1)
    expected = noise.gumbel([2, num_classes], seed=3).numpy().argmax(-1)
    np.testing.assert_array_equal(winners, expected)
