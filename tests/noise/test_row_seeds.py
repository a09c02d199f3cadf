"""One seed for each row: SplitMix64 by Python's own integers, its law, its independence."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

import tfconcrete as tfc
from tfconcrete._row_seeds import _mix
from tfconcrete._seeds import RowSeeds, Stream, fold_in, random_words

MODES = {
    "eager": lambda function: function,
    "graph": lambda function: tf.function(function, autograph=False),
    "xla": lambda function: tf.function(function, autograph=False, jit_compile=True),
}
GAMMA = 0x9E3779B97F4A7C15


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return z ^ (z >> 31)


def splitmix(low, high, stream, index):
    seed = low % 2**32 + (high % 2**32) * 2**32
    state = mix((seed + (2 * stream + 1) * GAMMA) % 2**64)
    return mix((state + (index + 1) * GAMMA) % 2**64)


def test_the_mixer_is_that_of_splitmix64():
    """The first numbers of the generator's published test, seed 1234567."""
    states = np.array([1234567 + (k + 1) * GAMMA for k in range(3)], object) % 2**64
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    np.testing.assert_array_equal(_mix(tf.constant(states.astype(np.uint64))), expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1, 2, 7])
def test_words_and_seeds_by_pythons_integers(mode, size):
    seeds = [[0, 0], [0, 1], [-1, -1], [2**31 - 1, -(2**31)]]
    run = MODES[mode](
        lambda s: (
            random_words([4, size], RowSeeds(s)),
            fold_in(RowSeeds(s), 5, Stream.LATENT).seeds,
        )
    )
    words, children = run(tf.constant(seeds, tf.int32))
    for row, (low, high) in enumerate(seeds):
        pairs = [splitmix(low, high, Stream.NOISE, k) for k in range(4)]
        expected = [word for pair in pairs for word in (pair % 2**32, pair >> 32)]
        np.testing.assert_array_equal(words[row], expected[:size])
        child = splitmix(low, high, Stream.LATENT, 5)
        np.testing.assert_array_equal(children[row].numpy().view(np.uint64)[0], child)


@pytest.mark.parametrize("mode", MODES)
def test_a_row_is_the_same_in_every_batch(mode):
    seeds = tf.constant(np.random.default_rng(0).integers(-(2**31), 2**31, [6, 2]), tf.int32)
    logits = tf.constant(np.random.default_rng(1).normal(size=[6, 3, 70]), tf.float32)
    draws = (
        lambda x, s: tfc.relaxations.categorical(x, seed=RowSeeds(s)),
        lambda x, s: tfc.relaxations.categorical(x[..., :5], seed=RowSeeds(s)),
        lambda x, s: tfc.relaxations.categorical(x, axis=1, seed=RowSeeds(s)),
        lambda x, s: tfc.estimators.bin_concrete_straight_through(x, 1.0, seed=RowSeeds(s)),
        lambda x, s: tfc.estimators.straight_through_k_subset(x, 2, seed=RowSeeds(s)),
        lambda x, s: tfc.estimators.straight_through_gumbel_top_k(
            x, 2, 0.5, axis=1, seed=RowSeeds(s)
        ),
        lambda x, s: tfc.noise.normal(tf.shape(x), RowSeeds(s)),
        lambda x, s: tfc.noise.normal(tf.shape(x), fold_in(RowSeeds(s), 3, Stream.LATENT)),
    )
    run = MODES[mode](lambda x, s: [draw(x, s) for draw in draws])  # one compilation
    for draw, together in zip(draws, run(logits, seeds), strict=True):
        together = together.numpy()
        assert len({row.tobytes() for row in together}) == 6
        for row in range(6):
            alone = draw(logits[row : row + 1], seeds[row : row + 1]).numpy()
            np.testing.assert_allclose(together[row], alone[0], rtol=1e-6)


def _neighbours(count):
    return tf.stack([tf.range(count), tf.zeros([count], tf.int32)], -1)


def test_draws_with_neighbouring_seeds_follow_the_law():
    """One row of three variables from each of 40,000 consecutive seeds."""
    seeds = RowSeeds(_neighbours(40_000))
    for num_classes in (5, 100):
        logits = np.random.default_rng(num_classes).normal(size=[3, num_classes])
        many = tf.broadcast_to(tf.constant(logits, tf.float32), [40_000, 3, num_classes])
        counts = tfc.relaxations.categorical(many, seed=seeds).numpy().sum(0)
        expected = 40_000 * scipy.special.softmax(logits, -1)
        for seen, wanted in zip(counts, expected, strict=True):
            assert scipy.stats.chisquare(seen, wanted).pvalue > 1e-5
    normal = tfc.noise.normal([40_000, 2], seeds).numpy()
    assert scipy.stats.kstest(normal[:, 0], "norm").pvalue > 1e-5
    assert scipy.stats.kstest(normal[:, 1], "norm").pvalue > 1e-5


@pytest.mark.parametrize("apart", [1, 2**8, 2**16, 2**31])
def test_neighbouring_rows_are_independent(apart):
    """Chi-square of (u, v) over a grid, for words of two seeds, in place and shifted."""
    seeds = np.array([[7, 3], [(7 + apart) % 2**32, 3], [7, (3 + apart) % 2**32]], np.uint32)
    words = random_words([3, 400_000], RowSeeds(tf.constant(seeds.view(np.int32)))).numpy()
    cells = words >> 26
    for first, second in ((0, 1), (0, 2), (1, 2)):
        for shift in (0, 1, 2):
            pairs = cells[first, shift:].astype(int) * 64 + cells[second, : 400_000 - shift]
            counts = np.bincount(pairs, minlength=64 * 64)
            assert scipy.stats.chisquare(counts).pvalue > 1e-6


def test_every_bit_of_neighbouring_seeds_is_fair():
    """Bits of the first word across 100,000 consecutive seeds, alone and in pairs."""
    words = random_words([100_000, 2], RowSeeds(_neighbours(100_000))).numpy()
    bits = (words[:, :, None] >> np.arange(32, dtype=np.uint32) & 1).reshape(100_000, 64)
    signs = 2.0 * bits - 1.0
    bound = 5.5 / np.sqrt(100_000)
    assert np.abs(signs.mean(0)).max() < bound
    within = signs.T @ signs / 100_000
    np.fill_diagonal(within, 0.0)
    assert np.abs(within).max() < bound
    across = signs[1:].T @ signs[:-1] / 100_000
    assert np.abs(across).max() < bound


def test_a_draw_that_does_not_begin_with_the_rows_raises():
    seeds = RowSeeds(_neighbours(4))
    with pytest.raises(ValueError, match="one seed for each row"):
        tfc.noise.uniform([5, 4], seeds)
    with pytest.raises(ValueError, match=r"shape \[rows, 2\]"):
        RowSeeds(tf.zeros([4, 3], tf.int32))
    with pytest.raises(TypeError, match="integer tensor"):
        RowSeeds(tf.zeros([4, 2]))
