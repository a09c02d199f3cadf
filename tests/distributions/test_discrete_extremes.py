"""`discrete()` at infinite parameters, probabilities of 0 and in half precision."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

import tfconcrete as tfc

D = tfc.distributions
INF = np.inf
LAWS = {
    "Concrete": lambda x: D.Concrete(tf.constant(0.5, x.dtype), logits=x),
    "ExpConcrete": lambda x: D.ExpConcrete(tf.constant(0.5, x.dtype), logits=x),
    "LogisticNormal": lambda x: D.LogisticNormal(x, tf.ones_like(x), tf.constant(0.5, x.dtype)),
    "IGR": lambda x: D.IGR(x, tf.ones_like(x), tf.constant(0.5, x.dtype)),
    "stick_breaking": lambda x: D.IGR(
        x, tf.ones_like(x), tf.constant(0.5, x.dtype), "stick_breaking"
    ),
}
DTYPES = ("float16", "bfloat16", "float32", "float64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("values", [[INF, 0.0, -1.0], [-INF, 0.0, 1.0], [-1e4, 2e4, -2e4]])
def test_masses_are_numbers(name, dtype, values):
    d = LAWS[name](tf.constant(values, dtype)).discrete()
    probs = tf.cast(d.probs_parameter(), tf.float64).numpy()
    np.testing.assert_allclose(probs.sum(), 1.0, atol=2e-2 if "16" in dtype else 1e-5)
    tolerance = 2e-4 if dtype == "float16" else 1e-7
    if max(values) > 1e3:
        np.testing.assert_allclose(probs[np.argmax(values)], 1.0, atol=2e-3)
    np.testing.assert_allclose(probs[: len(values)][np.array(values) < -1e3], 0.0, atol=tolerance)
    mass = tf.cast(d.log_prob(tf.eye(len(probs), dtype=dtype)), tf.float64).numpy()
    assert not np.any(np.isnan(mass))
    np.testing.assert_allclose(np.exp(mass), probs, atol=2e-2 if "16" in dtype else 1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_at_minus_infinity_leaves_the_remainder(dtype):
    for name in ("LogisticNormal", "IGR", "stick_breaking"):
        d = LAWS[name](tf.fill([3], tf.constant(-INF, dtype))).discrete()
        probs = tf.cast(d.probs_parameter(), tf.float64)
        np.testing.assert_allclose(probs, [0.0, 0.0, 0.0, 1.0], atol=2e-4)


def test_the_remainder_that_never_wins_costs_no_mass_of_the_others():
    """After stick-breaking its frequency is exactly 0."""
    d = D.IGR(tf.zeros([2]), tf.ones([2]), 0.5, "stick_breaking").discrete(num_samples=1000, seed=0)
    probs = d.probs_parameter().numpy()
    assert probs[-1] == 0.0
    np.testing.assert_allclose(d.log_prob(np.eye(3)[:2]), np.log(probs[:2]), rtol=1e-5)
    assert d.log_prob(np.float32([0.0, 0.0, 1.0])) < -80.0
    other = tfd.OneHotCategorical(probs=np.float32([0.2, 0.5, 0.3]))
    kl = np.sum(probs[:2] * np.log(probs[:2] / [0.2, 0.5]))
    np.testing.assert_allclose(tfd.kl_divergence(d, other), kl, rtol=1e-5)
    np.testing.assert_allclose(d.entropy(), -np.sum(probs[:2] * np.log(probs[:2])), rtol=1e-5)


@pytest.mark.parametrize("name", ["Concrete", "ExpConcrete", "BinConcrete", "LogitBinConcrete"])
def test_an_unknown_probability_stays_unknown(name):
    d = getattr(D, name)(0.5, probs=[np.nan, 0.5, 0.5])
    unknown = [True] * 3 if name in ("Concrete", "ExpConcrete") else [True, False, False]
    np.testing.assert_array_equal(np.isnan(d.sample(seed=0)), unknown)


def test_argmax_probabilities_of_infinite_locations():
    probs = tfc.relaxations.gaussian_argmax_probs([[INF, 0.0], [-INF, 0.0]], [1.0, 1.0], 0.0)
    np.testing.assert_allclose(probs, [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]], atol=1e-5)
