"""Binary Concrete functions, and Appendix B's construction from any noise."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

from tests.grids import grid
from tfconcrete import estimators, noise, relaxations

RNG = np.random.default_rng(0)
tfd = tfp.distributions


def numpy_log_density(x, temperature, logits):
    """Eq. 17, term by term."""
    alpha = np.exp(logits)
    top = temperature * alpha * x ** (-temperature - 1) * (1 - x) ** (-temperature - 1)
    return np.log(top / (alpha * x**-temperature + (1 - x) ** -temperature) ** 2)


def numpy_logit_log_density(y, temperature, logits):
    """Appendix C.3.2 as printed."""
    a = -temperature * y + logits
    return np.log(temperature) + a - 2 * np.log(1 + np.exp(a))


@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0, 2.0])
def test_log_densities_equal_the_transcription(temperature):
    x = RNG.uniform(0.01, 0.99, size=[200])
    logits = RNG.normal(size=[200])
    np.testing.assert_allclose(
        relaxations.bin_concrete_log_prob(x, temperature, logits),
        numpy_log_density(x, temperature, logits),
        rtol=0,
        atol=1e-9,
    )
    y = RNG.normal(size=[200]) * 5
    np.testing.assert_allclose(
        relaxations.logit_bin_concrete_log_prob(y, temperature, logits),
        numpy_logit_log_density(y, temperature, logits),
        rtol=0,
        atol=1e-9,
    )


def test_samples_equal_equations_16_and_26():
    logits = RNG.normal(size=[40]).astype(np.float32)
    logistic = noise.logistic([40], seed=4).numpy()
    y = (logits + logistic) / np.float32(0.6)
    np.testing.assert_allclose(relaxations.logit_bin_concrete(logits, 0.6, seed=4), y, rtol=1e-5)
    np.testing.assert_allclose(
        relaxations.bin_concrete(logits, 0.6, seed=4), scipy.special.expit(y), rtol=1e-5
    )


@pytest.mark.parametrize("fill", [0.0, 1e4, np.inf, -np.inf, np.nan])
def test_masked_elements_are_zero(fill):
    mask = np.array([True, False, True])
    logits = tf.constant(np.where(mask, [0.5, 0.0, -2.0], fill), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        x = relaxations.bin_concrete(logits, 0.5, class_mask=mask, seed=0)
        loss = tf.reduce_sum(x**2)
    gradient = tape.gradient(loss, logits).numpy()
    assert x[1] == 0 and gradient[1] == 0
    assert np.all(np.isfinite(gradient)) and np.all(x.numpy()[mask] > 0)


@pytest.mark.parametrize(
    ("temperature", "scale", "compiled"),
    grid(
        [0.005, 0.01, 10.0],
        [5.0, 1e4],
        [False, True],
        quick=lambda t, scale, compiled: not compiled or (t, scale) == (0.005, 1e4),
    ),
)
def test_extremes_stay_finite(temperature, scale, compiled):
    logits = tf.constant(RNG.uniform(-scale, scale, size=[500]), tf.float32)

    @tf.function(jit_compile=compiled)
    def run(logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            x = relaxations.bin_concrete(logits, temperature, seed=1)
            y = relaxations.logit_bin_concrete(logits, temperature, seed=1)
            target = tf.reduce_sum(
                relaxations.bin_concrete_log_prob(x, temperature, logits)
                + relaxations.logit_bin_concrete_log_prob(y, temperature, logits)
            )
        return x, y, target, tape.gradient(target, logits)

    for value in run(logits):
        assert np.all(np.isfinite(value))


def test_endpoints_have_a_finite_density():
    value = relaxations.bin_concrete_log_prob(tf.constant([0.0, 1.0]), 0.1, 0.0)
    assert np.all(np.isfinite(value))
    # Symmetric: the same distance from either end, at logit 0.
    np.testing.assert_allclose(value[0], value[1], rtol=1e-6)


NOISES = {
    "normal": tfd.Normal(0.0, 1.0),
    "logistic": tfd.Logistic(0.0, 1.0),
    "laplace": tfd.Laplace(0.5, 2.0),
    "gumbel": tfd.Gumbel(0.0, 1.0),
}


@pytest.mark.parametrize("name", NOISES)
def test_any_noise_gives_the_right_bernoulli(name):
    """P(D = 1) = alpha / (1 + alpha) whatever the noise: 5 binomial sigma."""
    logits = np.array([-2.0, 0.0, 1.0], np.float32)
    size = 200_000
    relaxed, discrete = relaxations.binary_from_quantile(
        np.broadcast_to(logits, [size, 3]), 0.3, NOISES[name], seed=1
    )
    p = scipy.special.expit(logits)
    error = np.sqrt(p * (1 - p) / size)
    assert np.all(np.abs(discrete.numpy().mean(0) - p) < 5 * error)
    np.testing.assert_array_equal(relaxed.numpy() > 0.5, discrete.numpy() > 0.5)


def test_logistic_noise_gives_back_binary_concrete():
    """The construction with Logistic noise is Eq. 16: compare quantiles of the two."""
    logits = np.full([200_000], 0.7, np.float32)
    relaxed, _ = relaxations.binary_from_quantile(logits, 0.5, NOISES["logistic"], seed=1)
    expected = relaxations.bin_concrete(logits, 0.5, seed=2)
    from scipy.stats import ks_2samp

    assert ks_2samp(relaxed, expected).pvalue > 1e-5


def test_construction_is_differentiable_in_the_logits():
    logits = tf.Variable([0.0, 1.0])
    with tf.GradientTape() as tape:
        relaxed, _ = relaxations.binary_from_quantile(logits, 0.5, NOISES["normal"], seed=1)
        loss = tf.reduce_sum(relaxed)
    assert np.all(tape.gradient(loss, logits).numpy() > 0)


@pytest.mark.parametrize("name", ["normal", "logistic"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_any_noise_with_logits_far_out(name, dtype):
    """Finite values and gradients; where nothing is cut, the threshold of SciPy."""
    logits = np.array([-np.inf, -3e38, -1e4, -30.0, -12.0, 0.0, 12.0, 70.0, 300.0, 1e30, np.inf])
    law = {
        "normal": tfd.Normal(np.zeros([], dtype), 1.0),
        "logistic": tfd.Logistic(np.zeros([], dtype), 1.0),
    }[name]
    x = tf.constant(logits, dtype)
    for compiled in (False, True):

        @tf.function(jit_compile=compiled)
        def run(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                relaxed, discrete = relaxations.binary_from_quantile(x, 2.0, law, seed=4)
            return relaxed, discrete, tape.gradient(relaxed, x)

        relaxed, discrete, gradient = (value.numpy() for value in run(x))
        assert np.all(np.isfinite(gradient)) and np.all(gradient >= 0)
        assert np.all((relaxed >= 0) & (relaxed <= 1))
        np.testing.assert_array_equal(discrete[logits < -20], 0)
        np.testing.assert_array_equal(discrete[logits > 20], 1)
        if compiled:  # TFP's noise is another one there
            continue
        inner = np.abs(logits) <= 12
        tails = scipy.stats.norm if name == "normal" else scipy.stats.logistic
        threshold = tails.isf(scipy.special.expit(logits[inner]))
        noise = law.sample([11], seed=tf.constant([4, 0])).numpy()[inner]
        expected = scipy.special.expit((noise - threshold) / 2.0)
        np.testing.assert_allclose(relaxed[inner], expected, rtol=2e-3)
        p = scipy.special.expit(-logits[inner])
        slope = p * (1 - p) / tails.pdf(tails.ppf(p))
        through = expected * (1 - expected) / 2.0 * slope
        np.testing.assert_allclose(gradient[inner], through, rtol=1e-2)


def test_a_nan_is_a_nan_in_every_binary_draw():
    logits = tf.constant([[0.0, np.nan, 1.0]])
    law = tfd.Normal(0.0, 1.0)
    for compiled in (False, True):

        @tf.function(jit_compile=compiled)
        def run(x):
            return [
                relaxations.bin_concrete(x, 0.5, seed=0),
                relaxations.logit_bin_concrete(x, 0.5, seed=0),
                *relaxations.binary_from_quantile(x, 0.5, law, seed=0),
                estimators.bin_concrete_straight_through(x, 0.5, seed=0),
                estimators.sample_and_log_prob(x, axis=None, seed=0)[0],
            ]

        for value in run(logits):
            np.testing.assert_array_equal(np.isnan(value), [[False, True, False]])


@pytest.mark.parametrize("shape", [[4, 1], [4, 3], [2, 1, 1]])
def test_a_temperature_with_more_rows_than_the_logits_raises(shape):
    """The noise has the shape of the logits: rows would share it."""
    temperature = tf.ones(shape)
    calls = (
        lambda x, t: relaxations.bin_concrete(x, t, seed=0),
        lambda x, t: relaxations.logit_bin_concrete(x, t, seed=0),
        lambda x, t: relaxations.binary_from_quantile(x, t, tfd.Normal(0.0, 1.0), seed=0),
        lambda x, t: estimators.bin_concrete_straight_through(x, t, seed=0),
    )
    for call in calls:
        with pytest.raises(ValueError, match="`temperature`. Expected a shape that broadcasts to"):
            call(tf.zeros([3]), temperature)
        traced = tf.function(call, input_signature=[tf.TensorSpec(None), tf.TensorSpec(None)])
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
            traced(tf.zeros([3]), temperature)
        assert traced(tf.zeros([2, 4, 3]), temperature[..., :1]) is not None


@pytest.mark.parametrize("loc", [[0.0, 0.0, 0.0], [[0.0], [1.0]]])
def test_a_batch_of_noises_is_refused(loc):
    """Its draws would have another shape than the logits."""
    batch = tfd.Normal(tf.constant(loc), 1.0)
    with pytest.raises(ValueError, match="argument `distribution`. Expected a scalar"):
        relaxations.binary_from_quantile(tf.zeros([3]), 0.5, batch, seed=0)
