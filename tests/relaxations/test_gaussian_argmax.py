"""The quadrature against one that knows every kink, and its gradients against differences."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

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


def test_scales_far_apart():
    rng = np.random.default_rng(0)
    for _ in range(5):
        loc, scale = rng.normal(size=9), np.ones(9)
        scale[:4] = 0.01
        found = probs(loc, scale, -1.0).numpy()
        np.testing.assert_allclose(found, reference(loc, scale, -1.0), atol=1e-4)


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


@pytest.mark.parametrize("threshold", [-1e9, 1e9, -50.0, 50.0])
def test_extreme_thresholds(threshold):
    found = probs(tf.constant([0.0, 1.0]), tf.ones([2]), threshold).numpy()
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found[-1], float(threshold > 0), atol=1e-6)
