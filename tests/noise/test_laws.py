"""Each noise follows its law, tails included, over millions of draws."""

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from tfconcrete import noise
from tfconcrete.noise.gumbel import exponential, gumbel_of
from tfconcrete.noise.logistic import logistic_of
from tfconcrete.noise.normal import normal_of
from tfconcrete.noise.uniform import open_interval, sign_and_tail

DRAWS = 4_000_000
LAWS = {
    "gumbel": (noise.gumbel, scipy.stats.gumbel_r),
    "logistic": (noise.logistic, scipy.stats.logistic),
    "normal": (noise.normal, scipy.stats.norm),
    "uniform": (noise.uniform, scipy.stats.uniform),
    "exponential": (exponential, scipy.stats.expon),
}


@pytest.fixture(scope="module", params=LAWS)
def sample(request):
    function, law = LAWS[request.param]
    return function([DRAWS], seed=20240607).numpy().astype(np.float64), law


def test_whole_law(sample):
    """Kolmogorov-Smirnov at a level of 1e-5, with the statistic's exact law."""
    draws, law = sample
    result = scipy.stats.kstest(draws, law.cdf)
    assert result.pvalue > 1e-5


def test_equal_cells(sample):
    """Chi-square over 2,000 cells of equal probability."""
    draws, law = sample
    edges = law.ppf(np.arange(1, 2000) / 2000)
    counts = np.bincount(np.searchsorted(edges, draws), minlength=2000)
    assert scipy.stats.chisquare(counts).pvalue > 1e-5


@pytest.mark.parametrize("expected", [100_000, 1_000, 40])
@pytest.mark.parametrize("side", ["lower", "upper"])
def test_tails(sample, side, expected):
    """As many draws beyond a far quantile as the binomial law allows (5 sigma)."""
    draws, law = sample
    share = expected / DRAWS
    beyond = draws < law.ppf(share) if side == "lower" else draws > law.isf(share)
    assert abs(beyond.sum() - expected) < 5 * np.sqrt(expected)


def test_moments(sample):
    draws, law = sample
    mean, variance, kurtosis = law.stats(moments="mvk")
    assert abs(draws.mean() - mean) < 5 * np.sqrt(variance / DRAWS)
    error = np.sqrt((kurtosis + 2) / DRAWS) * variance
    assert abs(draws.var() - variance) < 5 * error


def test_no_serial_correlation(sample):
    draws, _ = sample
    centred = (draws - draws.mean()) / draws.std()
    for lag in (1, 2, 3, 4, 64, 4096):
        correlation = np.mean(centred[lag:] * centred[:-lag])
        assert abs(correlation) < 5 / np.sqrt(DRAWS)


WORDS = tf.constant(
    [0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 129, 2**32 - 2, 2**32 - 1], tf.uint32
)


def test_every_word_is_inside_the_open_interval():
    value = open_interval(WORDS).numpy()
    assert value.min() == np.float32(2.0**-33)
    assert value.max() == np.float32(1 - 2.0**-24)
    assert np.all(np.diff(value.astype(np.float64)) >= 0)


@pytest.mark.parametrize("compiled", [False, True])
def test_extreme_words_give_finite_noise(compiled):
    """The laws at the ends of the words' range, where logarithms break."""

    def extremes(words):
        return gumbel_of(words), logistic_of(words), normal_of(words)

    gumbel, logistic, normal = tf.function(extremes, jit_compile=compiled)(WORDS)
    assert np.all(np.isfinite(gumbel)) and np.all(np.isfinite(logistic))
    assert np.abs(normal.numpy()).max() == pytest.approx(scipy.stats.norm.isf(2**-33), rel=5e-4)
    # -log(-log(1 - 2**-33)) = log(2**33): the top of the Gumbel, and of the Logistic.
    assert gumbel.numpy().max() == pytest.approx(33 * np.log(2), rel=1e-6)
    assert np.abs(logistic.numpy()).max() == pytest.approx(33 * np.log(2), rel=1e-6)


def test_normal_is_the_inverse_cdf_of_its_word():
    """Against SciPy's double-precision quantile, relative to 2e-6, tails included."""
    from tfconcrete._seeds import as_seed, random_words

    seed = as_seed(5)
    sign, tail = sign_and_tail(random_words([200_000], seed))
    exact = -sign.numpy() * scipy.stats.norm.ppf(tail.numpy().astype(np.float64))
    np.testing.assert_allclose(noise.normal([200_000], seed), exact, rtol=2e-6, atol=2e-6)


def test_winner_of_a_million_classes_is_rarely_tied():
    """24-bit uniforms tie in 1.5% of the draws; 32 bits must not in any of 100."""
    for start in range(0, 100, 10):
        draws = noise.gumbel([10, 1_000_000], seed=start)
        top = tf.reduce_max(draws, -1, keepdims=True)
        winners = tf.reduce_sum(tf.cast(draws == top, tf.int32), -1).numpy()
        assert winners.max() == 1
