"""Propositions 1 and 2 of the Concrete paper, each part a test."""

import numpy as np
import pytest
import scipy.special
import scipy.stats

import tfconcrete as tfc

D = tfc.distributions
NUM_SAMPLES = 40_000
ALPHA = np.array([2.0, 0.5, 1.0, 0.1])
PROBS = ALPHA / ALPHA.sum()


def check_frequencies(counts, probs):
    """A chi-square test at one in a million."""
    expected = counts.sum() * probs
    statistic = np.sum((counts - expected) ** 2 / expected)
    assert statistic < scipy.stats.chi2.ppf(1 - 1e-6, len(counts) - 1)


def second_differences(log_density, start, end, count=61):
    """Of the log density along the segment from `start` to `end`."""
    s = np.linspace(0.0, 1.0, count)[:, np.newaxis]
    return np.diff(log_density((1 - s) * start + s * end), 2)


class TestProposition1:
    @pytest.mark.parametrize("temperature", [0.4, 1.5])
    def test_a_reparameterization(self, temperature):
        """The density of Eq. 11 is the law of the softmax of NumPy's own Gumbels."""
        rng = np.random.default_rng(1)
        scores = (np.log([2.0, 0.5]) + rng.gumbel(size=[NUM_SAMPLES, 2])) / temperature
        x = scipy.special.softmax(scores, -1)
        distribution = D.Concrete(temperature, logits=np.log([2.0, 0.5]))
        # Cells in u = log(x_1 / x_2), where dx_1 = x_1 x_2 du.
        edges = np.linspace(-3.0, 4.0, 29) / temperature
        nodes, weights = np.polynomial.legendre.leggauss(16)
        half = np.diff(edges)[:, np.newaxis] / 2
        u = edges[:-1, np.newaxis] + half * (1 + nodes)
        points = scipy.special.softmax(np.stack([u, np.zeros_like(u)], -1), -1)
        masses = np.sum(half * weights * distribution.prob(points).numpy() * points.prod(-1), -1)
        counts = np.histogram(np.log(x[:, 0] / x[:, 1]), edges)[0]
        check_frequencies(
            np.append(counts, NUM_SAMPLES - counts.sum()), np.append(masses, 1 - masses.sum())
        )

    @pytest.mark.parametrize("temperature", [0.1, 1.0])
    def test_a_reparameterization_of_our_samples(self, temperature):
        rng = np.random.default_rng(2)
        scores = (np.log(ALPHA) + rng.gumbel(size=[NUM_SAMPLES, 4])) / temperature
        theirs = scipy.special.log_softmax(scores, -1)
        ours = D.ExpConcrete(temperature, logits=np.log(ALPHA)).sample(NUM_SAMPLES, seed=3)
        for k in range(4):
            assert scipy.stats.ks_2samp(ours.numpy()[:, k], theirs[:, k]).pvalue > 1e-6

    @pytest.mark.parametrize("temperature", [0.1, 1.0, 10.0])
    def test_b_rounding(self, temperature):
        distribution = D.Concrete(temperature, logits=np.log(ALPHA))
        winners = np.argmax(distribution.sample(NUM_SAMPLES, seed=4), -1)
        check_frequencies(np.bincount(winners, minlength=4), PROBS)
        np.testing.assert_allclose(distribution.discrete().probs_parameter(), PROBS, rtol=1e-12)

    def test_c_zero_temperature(self):
        x = D.Concrete(1e-6, logits=np.log(ALPHA)).sample(NUM_SAMPLES, seed=5).numpy()
        at_vertex = x.max(-1) > 1 - 1e-9
        # Two perturbed logits closer than 2e-5 are what keeps a sample from its vertex.
        assert at_vertex.mean() > 0.999
        check_frequencies(np.bincount(x[at_vertex].argmax(-1), minlength=4), PROBS)

    @pytest.mark.parametrize("num_classes", [2, 3, 5])
    @pytest.mark.parametrize("share", [0.3, 1.0])
    def test_d_convex_eventually(self, num_classes, share):
        rng = np.random.default_rng(6)
        temperature = share / (num_classes - 1)
        for _ in range(30):
            alpha = rng.gamma(0.5, size=num_classes) + 1e-3
            log_density = D.Concrete(temperature, logits=np.log(alpha)).log_prob
            start, end = rng.dirichlet(np.ones(num_classes), 2) * 0.98 + 0.02 / num_classes
            assert np.min(second_differences(log_density, start, end)) > -1e-10

    def test_d_is_not_convex_above_its_bound(self):
        log_density = D.Concrete(2.0, logits=np.zeros(3)).log_prob
        start, end = np.array([0.1, 0.45, 0.45]), np.array([0.8, 0.1, 0.1])
        assert np.min(second_differences(log_density, start, end)) < -1e-4


class TestProposition2:
    @pytest.mark.parametrize("temperature", [0.4, 1.5])
    def test_a_reparameterization(self, temperature):
        """The density of Eq. 17 is the law of the sigmoid of NumPy's own Logistics."""
        rng = np.random.default_rng(7)
        y = (np.log(2.0) + rng.logistic(size=NUM_SAMPLES)) / temperature
        distribution = D.BinConcrete(temperature, logits=np.log(2.0))
        edges = np.linspace(-4.0, 5.0, 37) / temperature
        nodes, weights = np.polynomial.legendre.leggauss(16)
        half = np.diff(edges)[:, np.newaxis] / 2
        x = scipy.special.expit(edges[:-1, np.newaxis] + half * (1 + nodes))
        masses = np.sum(half * weights * distribution.prob(x).numpy() * x * (1 - x), -1)
        counts = np.histogram(y, edges)[0]
        check_frequencies(
            np.append(counts, NUM_SAMPLES - counts.sum()), np.append(masses, 1 - masses.sum())
        )
        ours = D.LogitBinConcrete(temperature, logits=np.log(2.0)).sample(NUM_SAMPLES, seed=8)
        assert scipy.stats.ks_2samp(ours.numpy(), y).pvalue > 1e-6

    @pytest.mark.parametrize("temperature", [0.1, 1.0, 10.0])
    @pytest.mark.parametrize("alpha", [0.2, 3.0])
    def test_b_rounding(self, temperature, alpha):
        distribution = D.BinConcrete(temperature, logits=np.log(alpha))
        ones = np.sum(distribution.sample(NUM_SAMPLES, seed=9).numpy() > 0.5)
        prob = alpha / (1 + alpha)
        check_frequencies(np.array([ones, NUM_SAMPLES - ones]), np.array([prob, 1 - prob]))
        np.testing.assert_allclose(distribution.discrete().probs_parameter(), prob)

    def test_c_zero_temperature(self):
        x = D.BinConcrete(1e-6, logits=np.log(3.0)).sample(NUM_SAMPLES, seed=10).numpy()
        ones, zeros = np.sum(x > 1 - 1e-9), np.sum(x < 1e-9)
        assert ones + zeros > 0.999 * NUM_SAMPLES
        check_frequencies(np.array([ones, zeros]), np.array([0.75, 0.25]))

    @pytest.mark.parametrize("temperature", [0.05, 0.5, 1.0])
    def test_d_convex_eventually(self, temperature):
        rng = np.random.default_rng(11)
        x = np.linspace(0.005, 0.995, 199)
        for alpha in rng.gamma(0.5, size=30) + 1e-3:
            log_density = D.BinConcrete(temperature, logits=np.log(alpha)).log_prob(x)
            assert np.min(np.diff(log_density, 2)) > -1e-10

    def test_d_is_not_convex_above_its_bound(self):
        x = np.linspace(0.005, 0.995, 199)
        log_density = D.BinConcrete(2.0, logits=np.array(0.0)).log_prob(x)
        assert np.min(np.diff(log_density, 2)) < -1e-4
