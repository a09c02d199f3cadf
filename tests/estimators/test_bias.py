"""Mean gradients against exact enumeration and quadrature."""

import functools

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import tensorflow as tf

import tfconcrete as tfc

e = tfc.estimators
LOGITS = np.array([[0.4, -0.9, 1.1, 0.0], [-0.3, 0.8, 0.2, -1.2]])  # two variables
CLASSES = 4
STATES = np.array(list(np.ndindex(CLASSES, CLASSES)))
ONE_HOTS = np.eye(CLASSES)[STATES]  # [16, 2, 4]
RNG = np.random.default_rng(5)
LINEAR = RNG.normal(size=8)
QUADRATIC = RNG.normal(size=(8, 8))
CUBIC = RNG.normal(size=8)


def linear(x):
    return tf.reduce_sum(x * LINEAR.astype(x.dtype.as_numpy_dtype), -1)


def quadratic(x):
    return linear(x) + tf.einsum("...i,ij,...j->...", x, tf.constant(QUADRATIC, x.dtype), x)


def cubic(x):
    return quadratic(x) + tf.reduce_sum(x * CUBIC.astype(x.dtype.as_numpy_dtype), -1) ** 3


def exact_gradient(objective):
    """The gradient of sum_states p(state) f(state), by enumeration in float64."""
    logits = tf.constant(LOGITS)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        log_probs = tf.nn.log_softmax(logits)
        log_state = tf.reduce_sum(ONE_HOTS * log_probs, [1, 2])
        value = tf.reduce_sum(tf.exp(log_state) * objective(tf.constant(ONE_HOTS.reshape(16, 8))))
    return tape.gradient(value, logits).numpy()


def sample_gradients(estimator, objective, num, seed=0):
    """`num` single-draw gradients `[num, 2, 4]`, and the drawn one-hots."""
    logits = tf.constant(np.tile(LOGITS, [num, 1, 1]), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        sample = estimator(logits, seed=seed)
        total = tf.reduce_sum(objective(tf.reshape(sample, [num, 8])))
    return tape.gradient(total, logits).numpy().astype(np.float64), sample.numpy()


def mean_gradient(estimator, objective):
    """The exact mean of an estimator whose only randomness is the draw.

    Given the drawn state its gradient is one number, found among many draws; the mean is
    the sum over states with their probabilities.
    """
    gradients, sample = sample_gradients(estimator, objective, 4000)
    probs = scipy.special.softmax(LOGITS, -1)
    mean = 0.0
    for one_hot in ONE_HOTS:
        rows = np.flatnonzero(np.all(sample == one_hot, axis=(1, 2)))
        np.testing.assert_allclose(gradients[rows[0]], gradients[rows[-1]], atol=1e-5)
        mean = mean + np.prod(np.sum(probs * one_hot, -1)) * gradients[rows[0]]
    return mean


@pytest.mark.parametrize(
    ("estimator", "objective", "unbiased"),
    [
        (e.straight_through, linear, True),
        (e.straight_through, quadratic, False),
        (e.reinmax, linear, True),
        (e.reinmax, quadratic, True),
        (e.reinmax, cubic, False),
        (functools.partial(e.reinmax, temperature=1.5), quadratic, False),
        (functools.partial(e.straight_through, temperature=0.5), linear, False),
        (functools.partial(e.gapped_straight_through, temperature=1.0), linear, False),
    ],
)
def test_bias_by_enumeration(estimator, objective, unbiased):
    exact = exact_gradient(objective)
    error = np.max(np.abs(mean_gradient(estimator, objective) - exact))
    if unbiased:
        assert error < 1e-5
    else:  # and the check can tell
        assert error > 1e-2 * np.max(np.abs(exact))


def test_gumbel_rao_is_straight_through_gumbel_softmax_with_less_variance():
    num, temperature = 20_000, 0.7
    single, _ = sample_gradients(
        functools.partial(e.straight_through_gumbel_softmax, temperature=temperature),
        cubic,
        num,
        seed=1,
    )
    variances = [single.var(0).sum()]
    for num_samples in (1, 10, 50):
        averaged, _ = sample_gradients(
            functools.partial(e.gumbel_rao, temperature=temperature, num_samples=num_samples),
            cubic,
            num,
            seed=2,
        )
        error = np.sqrt((single.var(0) + averaged.var(0)) / num)
        difference = single.mean(0) - averaged.mean(0)
        assert np.all(np.abs(difference) < 4.5 * error)
        variances.append(averaged.var(0).sum())
    # K = 1 is STGS in distribution; more noises leave only what the draw itself does.
    assert abs(variances[1] / variances[0] - 1.0) < 0.1
    assert variances[2] < 0.8 * variances[1]
    assert variances[3] < variances[2]
    # 1 / K of the conditional variance goes away: V(K) = b + a / K, three points on a line.
    a = (variances[1] - variances[2]) / (1 - 1 / 10)
    assert abs((variances[2] - variances[3]) - a * (1 / 10 - 1 / 50)) < 0.1 * variances[1]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("lead", [-2.0, 0.0, 1.5])
def test_gumbel_rao_against_quadrature(temperature, lead):
    """Two classes: the winner's lead is a Logistic at `lead`, given that it is positive."""

    def integrand(x):
        s = scipy.special.expit(x / temperature)
        return scipy.stats.logistic.pdf(x - lead) * s * (1.0 - s) / temperature

    expected = scipy.integrate.quad(integrand, 0.0, 60.0)[0] / scipy.special.expit(lead)
    num = 3000
    logits = tf.constant(np.tile([[lead, 0.0]], [num, 1]), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        sample = e.gumbel_rao(logits, temperature, num_samples=40, seed=0)
        first = tf.reduce_sum(sample[:, 0])
    gradient = tape.gradient(first, logits).numpy().astype(np.float64)
    given = gradient[sample[:, 0].numpy() == 1.0]
    error = given.std(0) / np.sqrt(len(given))
    np.testing.assert_array_less(np.abs(given.mean(0) - [expected, -expected]), 4.5 * error)


@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_binary_mean_against_quadrature(temperature):
    """E of d sigmoid((l + L) / t) / dl, for an objective of slope 1 and of slope D."""
    logit, num = 0.7, 100_000

    def integrand(x):
        s = scipy.special.expit((logit + x) / temperature)
        return scipy.stats.logistic.pdf(x) * s * (1.0 - s) / temperature

    expected = scipy.integrate.quad(integrand, -50.0, 50.0, points=[-logit])[0]
    logits = tf.fill([num], tf.constant(logit))
    with tf.GradientTape() as tape:
        tape.watch(logits)
        sample = e.bin_concrete_straight_through(logits, temperature, seed=0)
    gradient = tape.gradient(sample, logits).numpy().astype(np.float64)
    error = gradient.std() / np.sqrt(num)
    assert abs(gradient.mean() - expected) < 4.5 * error
    assert error < 0.02 * expected
