"""Likelihoods against SciPy, base-rate biases, capacities."""

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

import tfconcrete as tfc

o = tfc.objectives
RNG = np.random.default_rng(0)
OUTPUTS = RNG.normal(0, 2, [3, 4, 2, 5]).astype(np.float32)  # samples, batch, data


def test_bernoulli_log_prob_keeps_the_sample_dimension():
    x = RNG.integers(0, 2, [4, 2, 5]).astype(np.float32)
    expected = scipy.stats.bernoulli.logpmf(x, 1 / (1 + np.exp(-OUTPUTS))).sum((-1, -2))
    np.testing.assert_allclose(o.Bernoulli().log_prob(x, OUTPUTS), expected, rtol=1e-4)
    assert o.Bernoulli().num_dims(tf.constant(x)) == 10


@pytest.mark.parametrize("shape", [(3, 16), (3, 2, 8), (3, 7)])
def test_sharing_logarithms_changes_neither_value_nor_gradient(shape):
    logits = RNG.normal(0, 30, shape)
    logits[:, ..., 0] = 0.0
    logits, x = tf.constant(logits), tf.constant(RNG.random(shape))
    with tf.GradientTape() as tape:
        tape.watch([logits, x])
        value = o.Bernoulli().log_prob(x, logits)
        scaled = value * tf.constant([1.0, 2.0, 3.0], tf.float64)
    expected = (x * logits - np.logaddexp(0, logits)).numpy().reshape(3, -1).sum(1)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    weights = np.array([1.0, 2.0, 3.0]).reshape(-1, *[1] * (len(shape) - 1))
    to_logits, to_x = tape.gradient(scaled, [logits, x])
    expected = weights * (x - scipy.special.expit(logits.numpy()))
    np.testing.assert_allclose(to_logits, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(to_x, weights * logits, rtol=1e-12)


@pytest.mark.parametrize("size", [784, 785])
def test_sure_pixels_cost_the_others_no_digits(size):
    """Half of the logits are far out, on the side of their pixel: they count nothing."""
    x = RNG.integers(0, 2, [20, size])
    far = RNG.random(x.shape) < 0.5
    sure = (2 * x - 1) * 10.0 ** RNG.uniform(3, 8, x.shape)
    logits = np.where(far, sure, RNG.normal(0, 5, x.shape)).astype(np.float32)
    expected = -np.logaddexp(0, (1 - 2 * x) * logits.astype(np.float64)).sum(1)
    found = o.Bernoulli().log_prob(x.astype(np.float32), logits)
    np.testing.assert_allclose(found, expected, rtol=2e-6)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("size", [8, 3])
@pytest.mark.parametrize("sign", [-1, 1])
def test_infinite_logits_act_as_very_large_ones(sign, size, compiled):
    """On the right side the pixel is sure, on the wrong one it costs 1e30; a NaN stays."""
    logits = np.zeros([4, size], np.float32)
    logits[:3, 0], logits[3, 0] = sign * np.inf, np.nan
    x = np.zeros([4, size], np.float32)
    x[:3, 0] = [sign > 0, sign < 0, 0.5]

    @tf.function(jit_compile=compiled)
    def run(logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            value = o.Bernoulli().log_prob(x, logits)
        return value, tape.gradient(value, logits)

    value, gradient = run(tf.constant(logits))
    rest = -(size - 1) * np.log(2.0)
    np.testing.assert_allclose(value, [rest, -1e30, -0.5e30, np.nan], rtol=1e-6)
    np.testing.assert_array_equal(gradient[:, 0], [0.0, -sign, -0.5 * sign, np.nan])
    np.testing.assert_array_equal(gradient[:, 1:], x[:, 1:] - 0.5)


def test_gaussian_log_prob():
    x = RNG.normal(0, 1, [4, 2, 5]).astype(np.float32)
    expected = scipy.stats.norm.logpdf(x, OUTPUTS, 0.3).sum((-1, -2))
    np.testing.assert_allclose(o.Gaussian(0.3).log_prob(x, OUTPUTS), expected, rtol=1e-5)


def test_categorical_log_prob_of_indices_and_of_one_hot_data():
    x = RNG.integers(0, 5, [4, 2])
    log_probs = OUTPUTS - np.log(np.exp(OUTPUTS).sum(-1, keepdims=True))
    expected = np.take_along_axis(log_probs, np.broadcast_to(x[None, ..., None], (3, 4, 2, 1)), -1)
    expected = expected[..., 0].sum(-1)
    np.testing.assert_allclose(o.Categorical().log_prob(x, OUTPUTS), expected, rtol=1e-5)
    one_hot = np.eye(5, dtype=np.float32)[x]
    found = o.Categorical(one_hot=True)
    np.testing.assert_allclose(found.log_prob(one_hot, OUTPUTS), expected, rtol=1e-5)
    assert o.Categorical().num_dims(tf.constant(x)) == found.num_dims(tf.constant(one_hot)) == 2


@pytest.mark.parametrize("label", [-1, 4, -1.0, -0.5, 0.5, 3.5, 4.0])
def test_what_is_no_class_has_no_probability(label):
    log_prob = tfc.objectives.Categorical().log_prob(np.array([[label]]), np.zeros([1, 1, 4]))
    np.testing.assert_array_equal(log_prob, [-np.inf])


def test_a_row_of_zeros_is_no_class():
    x = tf.one_hot([[1, 4], [1, 3]], 4)
    log_prob = o.Categorical(one_hot=True).log_prob(x, tf.zeros([2, 2, 4]))
    np.testing.assert_allclose(log_prob, [-np.inf, -2 * np.log(4)], rtol=1e-6)


def test_outputs_of_another_shape_than_the_data_raise():
    with pytest.raises(ValueError, match=r"outputs of shape \(batch, 3\)"):
        o.Bernoulli().log_prob(tf.zeros([4, 3]), tf.zeros([4, 2]))
    with pytest.raises(ValueError, match="decoder"):
        o.Categorical().log_prob(tf.zeros([4, 3]), tf.zeros([4, 3]))


@pytest.mark.parametrize("likelihood", [o.Gaussian(0.2), o.Categorical(True), o.Bernoulli()])
def test_likelihoods_are_serialisable(likelihood):
    config = keras.saving.serialize_keras_object(likelihood)
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is type(likelihood)
    assert again.get_config() == likelihood.get_config()


def test_unknown_likelihood_names_the_known():
    with pytest.raises(ValueError, match='"bernoulli", "gaussian", "categorical"'):
        o.get_likelihood("poisson")
    with pytest.raises(ValueError, match="scale"):
        o.Gaussian(0.0)


def test_base_rate_bias_is_the_logit_of_the_rate():
    data = np.zeros([98, 3])
    data[:49, 1] = 1.0
    data[:, 2] = 1.0
    rates = np.array([1, 50, 99]) / 100
    np.testing.assert_allclose(
        o.base_rate_bias(data), np.log(rates / (1 - rates)), rtol=1e-6, atol=1e-7
    )
    for bad in (np.zeros(3), np.full([2, 2], 7.0), np.full([2, 2], np.nan)):
        with pytest.raises(ValueError, match="data"):
            o.base_rate_bias(bad)


def test_capacity_is_linear_then_constant_and_the_penalty_its_distance():
    capacity = o.LinearCapacity(1.0, 5.0, steps=100)
    found = [float(capacity(step)) for step in (0, 25, 100, 10_000)]
    np.testing.assert_allclose(found, [1, 2, 5, 5])
    assert float(o.capacity_penalty(tf.constant([1.0, 3.0]), 5.0, 10.0)) == 30.0
    assert float(o.capacity_penalty(tf.constant([6.0, 8.0]), 5.0, 10.0)) == 20.0
    with pytest.raises(ValueError, match="final"):
        o.LinearCapacity(0.0, -1.0, 10)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(capacity))
    assert again.get_config() == capacity.get_config()
