"""Densities against plain transcriptions, quadrature, and histograms of samples."""

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import tensorflow as tf

import tfconcrete as tfc

D = tfc.distributions
ALPHA = np.array([2.0, 0.5, 1.0])


# Transcriptions: one point, plain products, no log space.


def concrete_density(x, alpha, temperature):
    """Eq. 11."""
    n = len(alpha)
    total = np.sum(alpha * x**-temperature)
    product = np.prod(alpha * x ** (-temperature - 1.0) / total)
    return math.factorial(n - 1) * temperature ** (n - 1) * product


def log_kappa(y, alpha, temperature):
    """Appendix C.3."""
    n = len(alpha)
    scores = np.log(alpha) - temperature * y
    return (
        math.log(math.factorial(n - 1))
        + (n - 1) * math.log(temperature)
        + np.sum(scores)
        - n * np.log(np.sum(np.exp(scores)))
    )


def bin_concrete_density(x, alpha, temperature):
    """Eq. 17."""
    numerator = temperature * alpha * x ** (-temperature - 1) * (1 - x) ** (-temperature - 1)
    return numerator / (alpha * x**-temperature + (1 - x) ** -temperature) ** 2


def logit_density(y, alpha, temperature):
    """Appendix C.3.2."""
    power = np.exp(-temperature * y + np.log(alpha))
    return temperature * power / (1 + power) ** 2


def logistic_normal_density(x, loc, scale, temperature):
    """The normal density of t log(x_i / x_K), by a dense Jacobian."""
    y = temperature * np.log(x[:-1] / x[-1])
    jacobian = temperature * (np.diag(1 / x[:-1]) + 1 / x[-1])
    return np.prod(scipy.stats.norm.pdf(y, loc, scale)) * np.abs(np.linalg.det(jacobian))


def simplex_points(num_classes, rng, count=20):
    return rng.dirichlet(np.full(num_classes, 0.7), count)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("num_classes", [2, 3, 8])
class TestTranscription:
    def test_concrete(self, num_classes, temperature, rng):
        x, alpha = simplex_points(num_classes, rng), rng.gamma(1.0, size=num_classes)
        expected = np.log([concrete_density(point, alpha, temperature) for point in x])
        for parameters in ({"logits": np.log(alpha)}, {"probs": alpha / alpha.sum()}):
            got = D.Concrete(temperature, **parameters).log_prob(x)
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)

    def test_exp_concrete(self, num_classes, temperature, rng):
        y, alpha = np.log(simplex_points(num_classes, rng)), rng.gamma(1.0, size=num_classes)
        expected = [log_kappa(point, alpha, temperature) for point in y]
        for parameters in ({"logits": np.log(alpha)}, {"probs": alpha / alpha.sum()}):
            got = D.ExpConcrete(temperature, **parameters).log_prob(y)
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)

    def test_bin_concrete(self, num_classes, temperature, rng):
        x, alpha = rng.uniform(size=num_classes), rng.gamma(1.0, size=num_classes)
        expected = np.log(bin_concrete_density(x, alpha, temperature))
        for parameters in ({"logits": np.log(alpha)}, {"probs": alpha / (1 + alpha)}):
            got = D.BinConcrete(temperature, **parameters).log_prob(x)
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)

    def test_logit_bin_concrete(self, num_classes, temperature, rng):
        y, alpha = 3 * rng.normal(size=num_classes), rng.gamma(1.0, size=num_classes)
        expected = np.log(logit_density(y, alpha, temperature))
        for parameters in ({"logits": np.log(alpha)}, {"probs": alpha / (1 + alpha)}):
            got = D.LogitBinConcrete(temperature, **parameters).log_prob(y)
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)

    def test_logistic_normal(self, num_classes, temperature, rng):
        x = simplex_points(num_classes, rng)
        loc, scale = rng.normal(size=num_classes - 1), rng.gamma(2.0, size=num_classes - 1)
        distribution = D.LogisticNormal(loc, scale, temperature)
        density = [logistic_normal_density(point, loc, scale, temperature) for point in x]
        finite = np.array(density) > 1e-300
        got = distribution.log_prob(x).numpy()
        np.testing.assert_allclose(
            got[finite], np.log(np.array(density)[finite]), rtol=1e-9, atol=1e-9
        )
        assert finite.mean() > 0.5


def log_ratio_grid(temperature, width=45.0, step=0.25):
    """Simplex points for a trapezoid rule in u_i = log(x_i / x_3), and du."""
    v = np.arange(-width, width + step, step)
    u = np.stack(np.meshgrid(v, v, indexing="ij"), -1).reshape(-1, 2) / temperature
    scores = np.concatenate([u, np.zeros([len(u), 1])], -1)
    log_x = scores - scipy.special.logsumexp(scores, -1, keepdims=True)
    return log_x, (step / temperature) ** 2


def unit_interval(temperature, width=30.0, step=0.1):
    """Points (x, 1 - x) for a trapezoid rule in u = log(x / (1 - x)), and dx."""
    u = np.arange(-width, width + step, step) / temperature
    x = np.stack([scipy.special.expit(u), scipy.special.expit(-u)], -1)
    return x, x.prod(-1) * step / temperature


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
class TestIntegratesToOne:
    """With respect to the base measure that the documentation states."""

    def test_concrete_of_two(self, temperature):
        x, dx = unit_interval(temperature)
        density = D.Concrete(temperature, logits=np.log([2.0, 0.5])).prob(x).numpy()
        assert np.sum(density * dx) == pytest.approx(1.0, abs=1e-9)

    def test_concrete_of_three(self, temperature):
        # Lebesgue measure dx_1 dx_2 is (prod_k x_k) du_1 du_2.
        log_x, du = log_ratio_grid(temperature)
        log_prob = D.Concrete(temperature, logits=np.log(ALPHA)).log_prob(np.exp(log_x))
        total = np.sum(np.exp(log_prob.numpy() + log_x.sum(-1))) * du
        assert total == pytest.approx(1.0, abs=1e-8)

    def test_exp_concrete_of_two(self, temperature):
        distribution = D.ExpConcrete(temperature, logits=np.log([2.0, 0.5]))
        # prod_{i<K} dy_i / x_K, with y_1 = -exp(s) so that both ends are far away.
        s = np.linspace(-90.0, 9.0, 20001)
        y1 = -np.exp(s)
        rest = -np.expm1(y1)
        y = np.stack([y1, np.log(rest)], -1)
        integrand = np.exp(distribution.log_prob(y).numpy()) / rest * np.exp(s)
        assert scipy.integrate.simpson(integrand, x=s) == pytest.approx(1.0, abs=1e-7)

    def test_exp_concrete_of_three(self, temperature):
        log_x, du = log_ratio_grid(temperature)
        x = np.exp(log_x)
        # dy_1 dy_2 = |d(y_1, y_2)/d(u_1, u_2)| du_1 du_2, with a dense determinant.
        jacobian = np.eye(2) - x[:, np.newaxis, :2]
        measure = np.linalg.det(jacobian)
        log_prob = D.ExpConcrete(temperature, logits=np.log(ALPHA)).log_prob(log_x).numpy()
        # Far out, x_3 is below the determinant's rounding; there is no mass there.
        inside = x[:, 2] > 1e-9
        total = np.sum((np.exp(log_prob) * measure / np.maximum(x[:, 2], 1e-9))[inside]) * du
        outside = np.sum(np.exp(log_prob)[~inside]) * du
        assert total + outside == pytest.approx(1.0, abs=1e-6)

    def test_bin_concrete(self, temperature):
        # Up to 1 - x = 1e-10, where x still holds its distance from 1; then Eq. 17's tail.
        u = np.linspace(-60.0, np.log(1e10), 4001)
        x = scipy.special.expit(u)
        density = D.BinConcrete(temperature, logits=np.log(3.0)).prob(x).numpy()
        inside = scipy.integrate.simpson(density * x * (1 - x), x=u)
        tail = 1 / (1 + np.exp(temperature * u[-1] - np.log(3.0)))
        assert inside + tail == pytest.approx(1.0, abs=1e-7)

    def test_logit_bin_concrete(self, temperature):
        y = np.arange(-45.0, 45.0, 0.05) / temperature
        density = D.LogitBinConcrete(temperature, logits=np.log(3.0)).prob(y).numpy()
        assert density.sum() * 0.05 / temperature == pytest.approx(1.0, abs=1e-9)

    def test_logistic_normal_of_two(self, temperature):
        x, dx = unit_interval(temperature)
        distribution = D.LogisticNormal(np.array([0.5]), np.array([1.5]), temperature)
        density = distribution.prob(x).numpy()
        assert np.sum(density * dx) == pytest.approx(1.0, abs=1e-9)

    def test_logistic_normal_of_three(self, temperature):
        log_x, du = log_ratio_grid(temperature, width=20.0)
        distribution = D.LogisticNormal(np.array([0.5, -1.0]), np.array([0.7, 2.0]), temperature)
        log_prob = distribution.log_prob(np.exp(log_x)).numpy()
        total = np.sum(np.exp(log_prob + log_x.sum(-1))) * du
        assert total == pytest.approx(1.0, abs=1e-8)


def check_counts(counts, masses):
    """A chi-square test at one in a million; whatever is left or rare is one cell."""
    frequent = NUM_SAMPLES * masses > 10
    assert frequent.sum() > 20
    counts = np.append(counts[frequent], NUM_SAMPLES - counts[frequent].sum())
    masses = np.append(masses[frequent], 1.0 - masses[frequent].sum())
    statistic = np.sum((counts - NUM_SAMPLES * masses) ** 2 / (NUM_SAMPLES * masses))
    assert statistic < scipy.stats.chi2.ppf(1 - 1e-6, len(counts) - 1)


NUM_SAMPLES = 50_000


def box_masses(log_density, edges, order=12):
    """Integrals of exp(log_density(u)) over the boxes of a grid, Gauss-Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    half = np.diff(edges) / 2
    u = (edges[:-1] + half)[:, np.newaxis] + half[:, np.newaxis] * nodes
    w = half[:, np.newaxis] * weights
    points = np.stack(np.meshgrid(u.ravel(), u.ravel(), indexing="ij"), -1)
    values = np.exp(log_density(points.reshape(-1, 2))).reshape(points.shape[:-1])
    values = values * w.ravel()[:, np.newaxis] * w.ravel()
    cells = len(edges) - 1
    return values.reshape(cells, order, cells, order).sum((1, 3)).ravel()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("kind", ["Concrete", "ExpConcrete", "LogisticNormal"])
def test_histogram_of_three_classes(kind, temperature):
    if kind == "LogisticNormal":
        distribution = D.LogisticNormal(np.array([0.5, -1.0]), np.array([0.7, 2.0]), temperature)
    else:
        distribution = getattr(D, kind)(temperature, logits=np.log(ALPHA))

    def log_density(u):
        scores = np.concatenate([u, np.zeros([len(u), 1])], -1)
        log_x = scores - scipy.special.logsumexp(scores, -1, keepdims=True)
        if kind == "ExpConcrete":
            return distribution.log_prob(log_x).numpy()
        return distribution.log_prob(np.exp(log_x)).numpy() + log_x.sum(-1)

    edges = np.linspace(-3.0, 3.0, 9) / temperature
    sample = distribution.sample(NUM_SAMPLES, seed=11).numpy()
    log_x = sample if kind == "ExpConcrete" else np.log(sample)
    u = log_x[:, :2] - log_x[:, 2:]
    counts = np.histogram2d(u[:, 0], u[:, 1], [edges, edges])[0].ravel()
    check_counts(counts, box_masses(log_density, edges))


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("kind", ["BinConcrete", "LogitBinConcrete"])
def test_histogram_of_binary(kind, temperature):
    distribution = getattr(D, kind)(temperature, logits=np.array(0.7))
    sample = distribution.sample(NUM_SAMPLES, seed=12).numpy()
    edges = np.linspace(-4.0, 4.0, 33) / temperature
    if kind == "BinConcrete":
        edges = scipy.special.expit(edges)
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(edges)[:, np.newaxis] / 2
    points = edges[:-1, np.newaxis] + half * (1 + nodes)
    masses = np.sum(half * weights * distribution.prob(points).numpy(), -1)
    check_counts(np.histogram(sample, edges)[0], masses)


def test_the_two_simplex_conventions_differ_as_documented():
    """The change from ExpConcrete to Concrete is the sum of y."""
    logits, y = np.log(ALPHA), np.log([0.2, 0.5, 0.3])
    difference = D.ExpConcrete(0.7, logits=logits).log_prob(y) - D.Concrete(
        0.7, logits=logits
    ).log_prob(np.exp(y))
    np.testing.assert_allclose(difference, y.sum(), rtol=1e-12)


def test_two_classes_are_the_binary_form():
    x = np.array([0.1, 0.6, 0.95])
    pair = D.Concrete(0.4, logits=np.array([1.3, -0.2])).log_prob(np.stack([x, 1 - x], -1))
    single = D.BinConcrete(0.4, logits=np.array(1.5)).log_prob(x)
    np.testing.assert_allclose(pair, single, rtol=1e-12)


def test_densities_differ_where_parameters_do():
    """Guards the tests above: a wrong temperature is seen by the histogram test."""
    distribution = D.LogitBinConcrete(1.0, logits=np.array(0.7))
    sample = distribution.sample(NUM_SAMPLES, seed=12).numpy()
    other = D.LogitBinConcrete(1.1, logits=np.array(0.7))
    edges = np.linspace(-4.0, 4.0, 33)
    masses = np.diff(tf.sigmoid(1.1 * edges - 0.7))
    np.testing.assert_allclose(masses, np.diff(other.cdf(edges)), rtol=1e-6)
    with pytest.raises(AssertionError):
        check_counts(np.histogram(sample, edges)[0], masses)
