"""The quadrature against one that knows every kink, and its gradients against differences."""

from itertools import pairwise

import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate, stats

import tfconcrete as tfc
from tfconcrete.relaxations.gaussian_argmax import gaussian_argmax_jacobian

probs = tfc.relaxations.gaussian_argmax_probs


def reference(loc, scale, threshold):
    """Piecewise Gauss-Legendre in y, with breaks at quarter scales around every mean."""
    low = max(threshold, (loc - 9 * scale).min())
    high = max((loc + 9 * scale).max(), low + 1e-3)
    breaks = (loc[:, None] + scale[:, None] * np.linspace(-9, 9, 37)).ravel()
    edges = np.unique(np.concatenate([[low, high], np.clip(breaks, low, high)]))
    nodes, weights = np.polynomial.legendre.leggauss(16)
    middle, half = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    y = (middle[:, None] + half[:, None] * nodes).ravel()
    weights = (half[:, None] * weights).ravel()
    standard = (y[:, None] - loc) / scale
    log_cdf = stats.norm.logcdf(standard)
    density = stats.norm.logpdf(standard) - np.log(scale) - log_cdf
    winners = weights @ np.exp(density + log_cdf.sum(1, keepdims=True))
    return np.append(winners, np.exp(stats.norm.logcdf((threshold - loc) / scale).sum()))


@pytest.mark.parametrize("num_classes", [2, 3, 10, 60])
@pytest.mark.parametrize("spread", [0.0, 0.7])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_against_reference(num_classes, spread, dtype):
    rng = np.random.default_rng(num_classes)
    for _ in range(3):
        loc = 2 * rng.normal(size=num_classes - 1)
        scale = np.exp(spread * rng.normal(size=num_classes - 1))
        threshold = 0.3 * rng.normal()
        found = probs(loc.astype(dtype), scale.astype(dtype), threshold).numpy()
        np.testing.assert_allclose(found, reference(loc, scale, threshold), atol=1e-5)
        np.testing.assert_allclose(found.sum(), 1, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("num_classes", [2, 3, 10, 32])
@pytest.mark.parametrize("spread", [0.0, 1.0, 100.0])
def test_scales_from_a_thousandth_to_a_thousand(num_classes, spread, dtype):
    rng = np.random.default_rng(num_classes)
    loc = (spread * rng.normal(size=(3, num_classes - 1))).astype(dtype)
    scale = np.exp(rng.uniform(-6.9, 6.9, size=loc.shape)).astype(dtype)
    found = probs(loc, scale, -0.5).numpy()
    for row, m, s in zip(found, loc.astype(float), scale.astype(float), strict=True):
        np.testing.assert_allclose(row, reference(m, s, -0.5), atol=1e-5)


@pytest.mark.parametrize("num_classes", [10, 33, 60, 1000])
@pytest.mark.parametrize("small", [1e-3, 1.0])
def test_one_broad_class_over_many_equal_ones(num_classes, small):
    """By an adaptive quadrature of the one integral that this case has.

    With n equal classes of mean 0 and a broad one, P(broad) = E[Phi(y / small)^n].
    """
    n = num_classes - 2
    loc, scale = np.zeros(n + 1, np.float32), np.full(n + 1, small, np.float32)
    scale[0], loc[0] = 1000.0, 300.0
    points = np.append(small * np.linspace(-6, 6, 13), [-2000, 300, 2000, 5000])

    def integrand(y):
        return stats.norm.pdf(y, 300, 1000) * np.exp(n * stats.norm.logcdf(y / small))

    edges = np.sort(np.append(points, [-8000, 8000]))
    broad = sum(integrate.quad(integrand, *pair, epsabs=1e-12)[0] for pair in pairwise(edges))
    found = probs(loc, scale, -np.inf).numpy()
    np.testing.assert_allclose(found[0], broad, atol=3e-5)
    np.testing.assert_allclose(found[1:-1], (1 - broad) / n, atol=1e-5)
    assert found[-1] == 0


@pytest.mark.parametrize("num_classes", [40, 120])
def test_many_classes_of_mixed_scales(num_classes):
    rng = np.random.default_rng(num_classes)
    size = num_classes - 1
    for loc, scale in (
        (rng.normal(size=size), np.exp(rng.uniform(-3, 1, size=size))),
        (rng.normal(size=size), np.where(np.arange(size) % 2, 0.01, 1.0)),
        (5 * rng.normal(size=size), np.where(np.arange(size) == 7, 1e-3, 1.0)),
    ):
        found = probs(loc.astype(np.float32), scale.astype(np.float32), 0.0).numpy()
        np.testing.assert_allclose(found, reference(loc, scale, 0.0), atol=1e-4)


def test_narrow_classes_far_from_zero():
    """In float32 a position near 1e4 is good to a thousandth, but differences are exact."""
    loc, scale = np.float32([1e4, 1e4 + 0.0078125]), np.float32([0.01, 0.005])
    difference = stats.norm.cdf(0.0078125 / np.hypot(0.01, 0.005))
    found = probs(loc, scale, 0.0).numpy()
    np.testing.assert_allclose(found, [1 - difference, difference, 0], atol=1e-5)


def test_no_scale_at_all():
    found = probs(tf.constant([[1.0, 2.0], [1.0, 1.0], [-2.0, -1.0]]), tf.zeros([2]), 0.0)
    np.testing.assert_allclose(found, [[0, 1, 0], [0.5, 0.5, 0], [0, 0, 1]], atol=1e-6)


def test_thousand_classes_sum_and_symmetry():
    found = probs(tf.zeros([999]), tf.ones([999]), 0.0).numpy()
    np.testing.assert_allclose(found[:-1], 1 / 999, rtol=1e-4)


def test_gradients():
    rng = np.random.default_rng(1)
    loc, scale, threshold = rng.normal(size=5), np.exp(0.3 * rng.normal(size=5)), 0.2
    weights = rng.normal(size=6)
    variables = [tf.constant(v, tf.float64) for v in (loc, scale, threshold)]
    with tf.GradientTape() as tape:
        tape.watch(variables)
        value = tf.reduce_sum(weights * probs(*variables))
    gradients = tape.gradient(value, variables)

    def f(loc, scale, threshold):
        return weights @ reference(loc, scale, threshold)

    h = 1e-5
    for k in range(5):
        e = h * np.eye(5)[k]
        difference = (f(loc + e, scale, threshold) - f(loc - e, scale, threshold)) / (2 * h)
        np.testing.assert_allclose(gradients[0][k], difference, atol=1e-5)
        difference = (f(loc, scale + e, threshold) - f(loc, scale - e, threshold)) / (2 * h)
        np.testing.assert_allclose(gradients[1][k], difference, atol=1e-5)
    difference = (f(loc, scale, threshold + h) - f(loc, scale, threshold - h)) / (2 * h)
    np.testing.assert_allclose(gradients[2], difference, atol=1e-5)

    values, jacobian = gaussian_argmax_jacobian(variables[0], variables[1], threshold)
    np.testing.assert_allclose(values, reference(loc, scale, threshold), atol=1e-6)
    np.testing.assert_allclose(tf.linalg.matvec(jacobian, weights, True), gradients[0], atol=1e-6)


def test_batches_and_xla():
    rng = np.random.default_rng(2)
    loc = tf.constant(rng.normal(size=(4, 3, 5)), tf.float32)
    scale, threshold = tf.ones([5]), tf.constant([[0.0], [0.5], [-0.5], [1.0]])
    eager = probs(loc, scale, threshold)
    assert eager.shape == (4, 3, 6)
    compiled = tf.function(probs, jit_compile=True)(loc, scale, threshold)
    np.testing.assert_allclose(compiled, eager, atol=1e-6)
    expected = reference(loc[1, 2].numpy(), np.ones(5), 0.5)
    np.testing.assert_allclose(eager[1, 2], expected, atol=1e-5)


@pytest.mark.parametrize("threshold", [-np.inf, -1e30, -1e9, 1e9, -50.0, 50.0, np.inf])
def test_extreme_thresholds(threshold):
    given = [tf.constant([0.0, 1.0]), tf.ones([2]), tf.constant(threshold, tf.float32)]
    with tf.GradientTape() as tape:
        tape.watch(given)
        found = probs(*given)
        value = tf.reduce_sum(found * [1.0, 2.0, 4.0])
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found[-1], float(threshold > 0), atol=1e-6)
    for gradient in tape.gradient(value, given):
        assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_single(dtype):
    loc, scale = tf.constant([0.5, -1.0, 2.0], dtype), tf.constant([1.0, 0.25, 2.0], dtype)
    found = probs(loc, scale, 0.5)
    assert found.dtype == tf.float32
    expected = reference(np.array([0.5, -1.0, 2.0]), np.array([1.0, 0.25, 2.0]), 0.5)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("small", [1e-6, 1e-20])
def test_gradients_beside_a_narrow_class(small, jit_compile):
    """A narrow class cuts the broad one at its mean: P(broad) = Phi(gap / broad scale)."""

    @tf.function(jit_compile=jit_compile)
    def value_and_gradient(loc, scale):
        with tf.GradientTape() as tape:
            tape.watch([loc, scale])
            broad = probs(loc, scale, -np.inf)[0]
        return broad, *tape.gradient(broad, [loc, scale])

    loc, scale = tf.constant([0.7, 0.0]), tf.constant([2.0, small])
    broad, to_loc, to_scale = value_and_gradient(loc, scale)
    density = stats.norm.pdf(0.35) / 2.0
    np.testing.assert_allclose(broad, stats.norm.cdf(0.35), atol=1e-5)
    np.testing.assert_allclose(to_loc, [density, -density], atol=1e-4)
    np.testing.assert_allclose(to_scale[0], -0.35 * density, atol=1e-4)
    assert np.isfinite(to_scale[1])
