"""Streams that should have nothing to do with each other have nothing to do with each other."""

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from tfconcrete import noise
from tfconcrete._seeds import as_seed, fold_in, split

SIZE = 500_000
BOUND = 5 / np.sqrt(SIZE)


def _standard(seed):
    draws = noise.gumbel([SIZE], seed).numpy().astype(np.float64)
    return (draws - draws.mean()) / draws.std()


def _families():
    root = as_seed(11)
    generator = keras.random.SeedGenerator(3)
    yield "neighbouring ints", [0, 1, 2, 3, 4]
    yield "one bit apart", [0, 2**8, 2**16, 2**31, 2**32, 2**48]
    yield "neighbouring second words", [tf.constant([7, c], tf.int32) for c in range(5)]
    yield "a generator's calls", [as_seed(generator) for _ in range(5)]
    yield "parent and children", [root, *split(root, 4)]
    yield "grandchildren", [fold_in(fold_in(root, i), j) for i in (0, 1) for j in (0, 1)]


@pytest.mark.parametrize("family", [name for name, _ in _families()])
def test_streams_are_uncorrelated(family):
    seeds = dict(_families())[family]
    streams = np.stack([_standard(seed) for seed in seeds])
    correlation = streams @ streams.T / SIZE
    np.fill_diagonal(correlation, 0.0)
    assert np.abs(correlation).max() < BOUND
    # Shifted against each other too: a stream must not be another one, later on.
    for shift in (1, 2, 3, 4):
        crossed = streams[:, shift:] @ streams[:, :-shift].T / SIZE
        assert np.abs(crossed).max() < BOUND


def test_neighbouring_seeds_are_jointly_uniform():
    """Chi-square of the pair (u, v) over a 64 x 64 grid, for seeds 0 and 1."""
    u, v = (noise.uniform([SIZE], seed).numpy() for seed in (0, 1))
    cells = np.bincount((u * 64).astype(int) * 64 + (v * 64).astype(int), minlength=64 * 64)
    assert scipy.stats.chisquare(cells).pvalue > 1e-5


def test_first_draws_of_many_seeds_follow_the_law():
    """One draw from each of 20,000 consecutive seeds: layers are seeded like that."""

    @tf.function
    def draw(seeds):
        return tf.map_fn(
            lambda s: noise.uniform([1], tf.stack([s, 0])),
            seeds,
            fn_output_signature=tf.float32,
        )

    first = draw(tf.range(20_000))
    assert scipy.stats.kstest(first.numpy().ravel(), "uniform").pvalue > 1e-5


def test_fold_in_spreads_neighbouring_numbers():
    children = np.stack([fold_in(as_seed(0), i).numpy() for i in range(2_000)])
    assert len({tuple(child) for child in children}) == 2_000
    bits = np.unpackbits(children.astype(np.int32).view(np.uint8), axis=1)
    # Every bit is a fair coin: 64 binomials of 2,000, 5 sigma.
    assert np.abs(bits.mean(0) - 0.5).max() < 5 * 0.5 / np.sqrt(2_000)
