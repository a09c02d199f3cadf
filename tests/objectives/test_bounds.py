"""L_m at once and streamed, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import logsumexp

import tfconcrete as tfc
from tfconcrete._seeds import as_seed, fold_in
from tfconcrete._streams import Stream

o = tfc.objectives


def test_multi_sample_bound_is_the_log_of_the_mean_weight():
    log_weights = np.random.default_rng(0).normal(0, 30, [7, 5]).astype(np.float32)
    expected = logsumexp(log_weights.astype(np.float64), axis=0) - np.log(7)
    np.testing.assert_allclose(o.multi_sample_bound(log_weights), expected, rtol=1e-6)


def test_the_gradient_of_the_bound_is_each_weight_s_share():
    log_weights = tf.constant([[0.0], [1.0], [3.0]])
    with tf.GradientTape() as tape:
        tape.watch(log_weights)
        bound = o.multi_sample_bound(log_weights)
    shares = np.exp([0.0, 1.0, 3.0]) / np.exp([0.0, 1.0, 3.0]).sum()
    np.testing.assert_allclose(tape.gradient(bound, log_weights)[:, 0], shares, rtol=1e-6)


@pytest.mark.parametrize(
    "num_samples, chunk, jit_compile",
    [(10, 10, False), (10, 3, False), (10, 3, True), (10, 100, False), (1, 5, False)],
)
def test_streaming_gives_the_bound_of_the_same_weights(num_samples, chunk, jit_compile):
    """Weights of a known seed, collected outside, with the surplus of the first round cut."""

    def log_weights(chunk, seed):
        return 40.0 * tfc.noise.normal([chunk, 3], seed) - 500.0

    @tf.function(jit_compile=jit_compile)
    def streamed(seed):
        return o.streamed_bound(log_weights, num_samples, chunk, seed)

    seed = as_seed(3)
    size = min(chunk, num_samples)
    rounds = -(-num_samples // size)
    all_weights = np.concatenate(
        [log_weights(size, fold_in(seed, i, Stream.STEP)) for i in range(rounds)]
    )
    kept = all_weights[rounds * size - num_samples :].astype(np.float64)
    assert len(kept) == num_samples
    expected = logsumexp(kept, axis=0) - np.log(num_samples)
    np.testing.assert_allclose(streamed(seed), expected, rtol=2e-6)


def test_streaming_survives_weights_that_exp_would_lose():
    bound = o.streamed_bound(lambda chunk, seed: tf.fill([chunk, 2], -1e5), 20, chunk=7, seed=0)
    np.testing.assert_allclose(bound, [-1e5, -1e5])


@pytest.mark.parametrize("arguments", [(0, 5), (5, 0)])
def test_counts_below_one_raise(arguments):
    with pytest.raises(ValueError, match="at least 1"):
        o.streamed_bound(lambda chunk, seed: tf.zeros([chunk, 1]), *arguments)
