"""Fitted priors: their rounding probabilities, or means, are the given ones."""

import time

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

import tfconcrete as tfc

fit = tfc.calibration.fit_igr_prior


def share_of_argmax(law, num_samples=200_000, seed=7):
    codes = tf.argmax(law.sample(num_samples, seed=seed), -1).numpy()
    return np.bincount(codes, minlength=law.event_shape[0]) / num_samples


@pytest.mark.parametrize("num_classes", [2, 3, 10])
@pytest.mark.parametrize("delta", [0.1, 1.0])
def test_rounding_probabilities(num_classes, delta):
    probs = np.random.default_rng(num_classes).dirichlet(np.ones(num_classes))
    law = fit(probs, temperature=0.1, delta=delta)
    np.testing.assert_allclose(law.scale_diag, 1)
    np.testing.assert_allclose(law.discrete().probs_parameter(), probs, atol=1e-5)
    shares = share_of_argmax(law)
    assert np.all(np.abs(shares - probs) < 5 * np.sqrt(probs * (1 - probs) / 200_000) + 1e-4)


def test_mean():
    probs = np.random.default_rng(0).dirichlet(np.ones(5))
    law = fit(probs, temperature=0.3, match="mean", scale=0.7)
    z = law.sample(200_000, seed=3).numpy()
    assert np.all(np.abs(z.mean(0) - probs) < 5 * z.std(0) / np.sqrt(len(z)) + 1e-3)
    np.testing.assert_allclose(law.scale_diag, 0.7)
    # Another thing than the rounding probabilities.
    assert np.abs(law.discrete().probs_parameter() - probs).max() > 0.01


def test_mean_of_one_gaussian_by_quadrature():
    law = fit([0.3, 0.7], temperature=0.2, match="mean")
    y = np.linspace(-10, 10, 20_001)
    weights = stats.norm.pdf(y, law.loc.numpy()[0], 1) * (y[1] - y[0])
    np.testing.assert_allclose(np.sum(weights / (1 + np.exp(-y / 0.2))), 0.3, atol=1e-4)


@pytest.mark.parametrize(
    "probs",
    [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.5, 0.5, 0.0], [1e-6, 0.3, 0.7 - 1e-6], [0, 0, 1]],
    ids=str,
)
def test_probabilities_of_zero_and_one(probs):
    law = fit(probs, temperature=0.1)
    assert np.all(np.isfinite(law.loc))
    np.testing.assert_allclose(law.discrete().probs_parameter(), probs, atol=1e-4)


@pytest.mark.slow
def test_a_thousand_classes_in_seconds():
    probs = np.random.default_rng(0).dirichlet(np.ones(1000))
    start = time.perf_counter()
    law = fit(probs, temperature=0.1)
    assert time.perf_counter() - start < 60
    np.testing.assert_allclose(law.discrete().probs_parameter(), probs, atol=1e-5)


def test_other_transforms():
    probs = np.array([0.1, 0.4, 0.2, 0.25, 0.05, 0.0])
    law = fit(probs, 0.2, "stick_breaking")
    np.testing.assert_allclose(share_of_argmax(law, 50_000), probs, atol=0.015)
    assert law.transform == "stick_breaking"


@pytest.mark.slow
def test_more_transforms():
    probs = np.random.default_rng(1).dirichlet(np.ones(6))
    law = fit(probs, 0.2, "interpolation")
    np.testing.assert_allclose(share_of_argmax(law, 50_000), probs, atol=0.015)
    law = fit(probs, 0.2, "interpolation", match="mean")
    np.testing.assert_allclose(law.sample(50_000, seed=1).numpy().mean(0), probs, atol=0.015)
    flow = tfc.bijectors.PlanarFlow.create(2, 5, scale=0.5, seed=0)
    law = fit(probs, 0.2, flow)
    np.testing.assert_allclose(share_of_argmax(law, 50_000), probs, atol=0.015)


@pytest.mark.parametrize(
    "args, kwargs, name",
    [
        (([0.5, 0.6], 0.1), {}, "probs"),
        (([1.0], 0.1), {}, "probs"),
        (([1.5, -0.5], 0.1), {}, "probs"),
        (([0.5, 0.5], -0.1), {}, "temperature"),
        (([0.5, 0.5], 0.1), {"scale": 0.0}, "scale"),
        (([0.5, 0.5], 0.1), {"match": "mode"}, "match"),
        (([0.5, 0.5], 0.1), {"transform": "softmax"}, "transform"),
        (([0.5, 0.5], 0.1), {"transform": "stick_breaking"}, "probs"),
        (([0.5, 0.5], 2.0), {"transform": "interpolation"}, "temperature"),
    ],
    ids=str,
)
def test_bad_arguments(args, kwargs, name):
    with pytest.raises(ValueError, match=f"argument `{name}`"):
        fit(*args, **kwargs)
