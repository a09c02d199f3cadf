"""The KL options against enumeration, quadrature and transcriptions of the equations."""

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
from scipy.integrate import quad, trapezoid
from scipy.special import expit, gammaln, log_softmax, logsumexp, softmax

import tfconcrete as tfc

o = tfc.objectives
RNG = np.random.default_rng(0)
Q, P = RNG.normal(0, 1.5, [4, 5]), RNG.normal(0, 1.5, [4, 5])


def log_kappa(y, logits, temperature):
    """Appendix C.3, transcribed."""
    n = y.shape[-1]
    a = logits - temperature * y
    constant = gammaln(n) + (n - 1) * np.log(temperature)
    return constant + a.sum(-1) - n * logsumexp(a, axis=-1)


def test_density_is_the_difference_of_two_exp_concrete_densities():
    y = tfc.relaxations.exp_concrete(Q, 0.7, seed=1)
    expected = log_kappa(y.numpy(), Q, 0.7) - log_kappa(y.numpy(), P, 0.4)
    np.testing.assert_allclose(
        o.concrete_density_kl(y, Q, P, 0.7, 0.4), expected, rtol=1e-9, atol=1e-9
    )
    same = o.concrete_density_kl(y, Q, P, 0.7)
    np.testing.assert_allclose(same, log_kappa(y.numpy(), Q, 0.7) - log_kappa(y.numpy(), P, 0.7))


def test_binary_density_is_the_difference_of_two_logistic_densities():
    """Y t - logits is a standard Logistic, so SciPy has both densities."""
    y = tfc.relaxations.logit_bin_concrete(Q, 0.7, seed=1).numpy()
    q = scipy.stats.logistic.logpdf(y, Q / 0.7, 1 / 0.7)
    p = scipy.stats.logistic.logpdf(y, P / 0.4, 1 / 0.4)
    np.testing.assert_allclose(o.bin_concrete_density_kl(y, Q, P, 0.7, 0.4), q - p, atol=1e-9)


def test_mass_is_exact_for_one_hot_samples_and_linear_between():
    log_ratio = log_softmax(Q, -1) - log_softmax(P, -1)
    np.testing.assert_allclose(
        o.categorical_mass_kl(np.eye(5)[[0, 3, 2, 4]], Q, P), log_ratio[range(4), [0, 3, 2, 4]]
    )
    z = RNG.dirichlet(np.ones(5), 4)
    np.testing.assert_allclose(o.categorical_mass_kl(z, Q, P), (z * log_ratio).sum(-1))


@pytest.mark.parametrize("axis", [-1, 1, 0])
def test_analytic_kl_is_the_enumerated_one(axis):
    q, p = softmax(Q, axis), softmax(P, axis)
    expected = (q * np.log(q / p)).sum(axis)
    np.testing.assert_allclose(o.categorical_kl(Q, P, axis=axis), expected)


def test_binary_forms_are_the_two_class_forms():
    q, p = expit(Q), expit(P)
    expected = q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))
    np.testing.assert_allclose(o.bernoulli_kl(Q, P), expected)
    np.testing.assert_allclose(o.bernoulli_mass_kl(np.ones([4, 5]), Q, P), np.log(q / p))
    np.testing.assert_allclose(
        o.bernoulli_mass_kl(np.zeros([4, 5]), Q, P), np.log((1 - q) / (1 - p))
    )


def test_gaussian_forms_are_those_of_scipy():
    normal = scipy.stats.norm
    for loc, log_scale, prior_loc, prior_log_scale in RNG.normal(0, 1, [5, 4]):
        q, p = normal(loc, np.exp(log_scale)), normal(prior_loc, np.exp(prior_log_scale))
        expected = quad(
            lambda y, q=q, p=p: q.pdf(y) * (q.logpdf(y) - p.logpdf(y)),
            *(loc - 12 * np.exp(log_scale), loc + 12 * np.exp(log_scale)),
        )[0]
        found = o.gaussian_kl(tf.constant(loc, tf.float64), log_scale, prior_loc, prior_log_scale)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
        ratio = o.gaussian_density_kl(
            tf.constant(0.3, tf.float64), loc, log_scale, prior_loc, prior_log_scale
        )
        np.testing.assert_allclose(ratio, q.logpdf(0.3) - p.logpdf(0.3), rtol=1e-9)


def test_extreme_logits_stay_finite_with_their_gradients():
    extreme = tf.constant([[1e4, -1e4, 0.0], [-np.inf, np.inf, 0.0]], tf.float32)
    flat = tf.zeros([2, 3])
    for function in (
        lambda x: o.categorical_kl(x, flat),
        lambda x: o.bernoulli_kl(x, flat),
        lambda x: o.bernoulli_mass_kl(tf.sigmoid(x), x, flat),
    ):
        with tf.GradientTape() as tape:
            tape.watch(extreme)
            value = function(extreme)
        assert np.isfinite(value).all()
        assert np.isfinite(tape.gradient(value, extreme)).all()
    np.testing.assert_allclose(o.categorical_kl(extreme, flat), np.log([3, 3]), rtol=1e-6)


def test_equation_20_is_a_lower_bound_of_the_relaxed_model():
    """Eq. 23 for one binary latent, both sides by quadrature on the latent's logit.

    The same with Eq. 21 or 22 in place of the density exceeds log p(x) somewhere among
    these posteriors: the test would see a wrong KL.
    """
    x, weight, bias, prior_logit, prior_temperature = 1.0, 3.0, -1.0, -0.4, 0.5
    y = np.linspace(-80, 80, 200_001)
    outputs = weight * expit(y) + bias
    log_likelihood = x * outputs - np.logaddexp(0, outputs)

    def integral(values):
        return trapezoid(values, y)

    prior = scipy.stats.logistic(prior_logit / prior_temperature, 1 / prior_temperature)
    evidence = np.log(integral(np.exp(log_likelihood) * prior.pdf(y)))
    exceeded = {"mass": False, "analytic": False}
    for logit in (-2.0, 0.5, 3.0):
        for temperature in (0.3, 2 / 3, 1.5):
            q = scipy.stats.logistic(logit / temperature, 1 / temperature).pdf(y)
            logits = np.float64(logit), np.float64(prior_logit)
            ratios = {
                "density": o.bin_concrete_density_kl(y, *logits, temperature, prior_temperature),
                "mass": o.bernoulli_mass_kl(expit(y), *logits),
                "analytic": o.bernoulli_kl(*logits),
            }
            bounds = {
                name: integral(q * (log_likelihood - np.asarray(ratio)))
                for name, ratio in ratios.items()
            }
            assert evidence - 5.0 < bounds["density"] <= evidence + 1e-8
            for name in exceeded:
                exceeded[name] |= bounds[name] > evidence
    assert any(exceeded.values())
