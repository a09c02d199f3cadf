"""Rounding and exact draws."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

from tfconcrete import relaxations


def test_ties_go_to_the_smallest_index():
    x = tf.constant([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [-0.0, 0.0, -1.0]])
    np.testing.assert_array_equal(relaxations.discretize(x), [[1, 0, 0], [1, 0, 0], [1, 0, 0]])
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


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("num_classes", [63, 65, 997])
def test_draws_by_blocks_follow_the_softmax(num_classes, compiled):
    """Chi-square; 64 is where blocks begin, 65 and 997 leave their last block unfilled."""
    logits = np.random.default_rng(num_classes).normal(0, 2, num_classes).astype(np.float32)
    logits[-1] = logits.max()  # the last class must be there
    draw = tf.function(
        lambda x: relaxations.categorical(tf.broadcast_to(x, [20_000, num_classes]), seed=2),
        jit_compile=compiled,
    )
    draws = draw(logits).numpy()
    np.testing.assert_array_equal(draws.sum(-1), 1.0)
    expected = 20_000 * scipy.special.softmax(logits.astype(np.float64))
    counts, often = draws.sum(0), expected > 5
    observed = np.append(counts[often], counts[~often].sum())
    wanted = np.append(expected[often], expected[~often].sum())
    assert scipy.stats.chisquare(observed[wanted > 0], wanted[wanted > 0]).pvalue > 1e-5


def test_a_rare_block_is_drawn_as_often_as_it_should():
    """Classes alone in their block, from 1e-2 down to 1e-5, and one that underflows."""
    logits = np.full(100, -np.inf, np.float32)
    logits[[0, 10, 20, 30, 40]] = np.log([1, 1e-2, 1e-3, 1e-4, 1e-5])
    logits[50] = -150.0
    counts = np.zeros(100)
    for seed in range(10):
        draws = relaxations.categorical(tf.broadcast_to(logits, [40_000, 100]), seed=seed)
        counts += draws.numpy().sum(0)
    probs = scipy.special.softmax(logits.astype(np.float64))
    error = np.sqrt(400_000 * probs * (1 - probs))
    assert np.all(np.abs(counts - 400_000 * probs) <= 5 * error + 5 * (probs > 0))
    assert counts[probs < 1e-12].sum() == 0


def test_masks_reach_into_blocks():
    logits = np.zeros([2_000, 300], np.float32)
    logits[:, 7] = 1e4
    mask = np.arange(300) % 3 == 1
    mask[7] = False
    draws = relaxations.categorical(logits, mask, seed=0).numpy()
    np.testing.assert_array_equal(draws.sum(-1), 1.0)
    assert draws[:, ~mask].sum() == 0
    nothing = relaxations.categorical(logits[:2], np.zeros(300, bool), seed=0)
    np.testing.assert_array_equal(nothing, np.zeros([2, 300]))


@pytest.mark.parametrize("num_classes", [200, 32_000, 1_000_000])
def test_many_classes_under_xla(num_classes):
    """They compile, and the draws of uniform classes are spread over all of them."""
    draw = tf.function(lambda x, seed: relaxations.categorical(x, seed=seed), jit_compile=True)
    logits = tf.zeros([20, num_classes])
    winners = np.concatenate(
        [draw(logits, tf.constant([3, i])).numpy().argmax(-1) for i in range(10)]
    )
    assert scipy.stats.kstest((winners + 0.5) / num_classes, "uniform").pvalue > 1e-4
