"""Gumbels given the winner, against rejection sampling."""

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from tfconcrete.noise import gumbel_given_winner

LOGITS = np.array([0.2, -1.5, 1.0, 0.0], np.float32)


def rejected(winner, num):
    """`num` draws of logits + Gumbel, out of many, in which `winner` happens to win."""
    perturbed = LOGITS + np.random.default_rng(winner).gumbel(size=(40 * num, len(LOGITS)))
    return perturbed[perturbed.argmax(-1) == winner][:num]


@pytest.mark.parametrize("winner", range(4))
def test_law_is_that_of_rejection_sampling(winner):
    num = 10_000
    one_hot = np.eye(4, dtype=np.float32)[winner]
    drawn = gumbel_given_winner(LOGITS, one_hot, num_samples=num, seed=winner).numpy()
    kept = rejected(winner, num)
    assert len(kept) == num
    np.testing.assert_array_equal(drawn.argmax(-1), winner)
    for k in range(4):
        assert scipy.stats.ks_2samp(drawn[:, k], kept[:, k]).pvalue > 1e-4
    # The dependence too: the winner's lead over each of the others, and their spread.
    for k in range(4):
        if k != winner:
            lead, kept_lead = (x[:, winner] - x[:, k] for x in (drawn, kept))
            assert scipy.stats.ks_2samp(lead, kept_lead).pvalue > 1e-4
    others = [k for k in range(4) if k != winner]
    spread, kept_spread = (np.ptp(x[:, others], axis=-1) for x in (drawn, kept))
    assert scipy.stats.ks_2samp(spread, kept_spread).pvalue > 1e-4


def test_drawing_the_winner_first_gives_free_gumbels():
    num = 20_000
    probs = np.exp(LOGITS) / np.exp(LOGITS).sum()
    winner = np.random.default_rng(0).choice(4, size=num, p=probs / probs.sum())
    logits = np.tile(LOGITS, [num, 1])
    drawn = gumbel_given_winner(logits, np.eye(4)[winner], seed=0).numpy() - logits
    for k in range(4):
        assert scipy.stats.kstest(drawn[:, k], "gumbel_r").pvalue > 1e-4


@pytest.mark.parametrize("depth", [60.0, 90.0, 1e3, 1e6])
def test_hopeless_classes_keep_their_own_gumbel(depth):
    # Beyond exp(88) the quotient E / p overflows float32; the law has no edge there.
    logits = np.array([0.0, -depth, 0.0], np.float32)
    drawn = gumbel_given_winner(logits, [1.0, 0.0, 0.0], num_samples=5000, seed=3).numpy()
    assert np.all(np.isfinite(drawn))
    if depth < 1e4:  # at 1e6 float32 is as coarse as the noise
        assert scipy.stats.kstest(drawn[:, 1] + depth, "gumbel_r").pvalue > 1e-4


def test_an_unlikely_winner_still_wins():
    logits = np.array([0.0, -1e4, 5.0], np.float32)
    drawn = gumbel_given_winner(logits, [0.0, 1.0, 0.0], num_samples=1000, seed=3).numpy()
    np.testing.assert_array_equal(drawn.argmax(-1), 1)
    assert np.all(np.isfinite(drawn))
    # The maximum is a Gumbel at log Z, whoever wins.
    log_partition = np.log(1.0 + np.exp(5.0))
    assert scipy.stats.kstest(drawn[:, 1] - log_partition, "gumbel_r").pvalue > 1e-4


def test_axis_and_shapes():
    logits = np.random.default_rng(1).normal(size=(2, 5, 3)).astype(np.float32)
    winner = np.eye(5, dtype=np.float32)[[[1, 2, 0], [4, 4, 3]]].swapaxes(1, 2)
    for axis in (1, -2):
        drawn = gumbel_given_winner(logits, winner, axis, num_samples=7, seed=0)
        assert drawn.shape == (7, 2, 5, 3)
        np.testing.assert_array_equal(tf.argmax(drawn, 2), np.tile(winner.argmax(1), [7, 1, 1]))
    assert gumbel_given_winner(logits, winner, 1, seed=0).shape == (2, 5, 3)
    double = gumbel_given_winner(logits.astype(np.float64), winner, 1, seed=0)
    np.testing.assert_allclose(double, gumbel_given_winner(logits, winner, 1, seed=0), atol=1e-5)
