"""Likelihoods against SciPy, base-rate biases, capacities."""

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

import tfconcrete as tfc
from tfconcrete.objectives.likelihoods import sum_softplus

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
    logits = tf.constant(RNG.normal(0, 30, shape), tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        value = sum_softplus(logits, len(shape) - 1)
        scaled = value * tf.constant([1.0, 2.0, 3.0], tf.float64)
    expected = np.logaddexp(0, logits).reshape(3, -1).sum(1)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    weights = np.array([1.0, 2.0, 3.0]).reshape(-1, *[1] * (len(shape) - 1))
    expected = weights * scipy.special.expit(logits.numpy())
    np.testing.assert_allclose(tape.gradient(scaled, logits), expected, rtol=1e-12)


def test_shared_logarithms_are_exact_in_float32_too():
    logits = RNG.normal(0, 5, [50, 784])
    found = sum_softplus(tf.constant(logits, tf.float32), 1)
    np.testing.assert_allclose(found, np.logaddexp(0, logits).sum(1), rtol=2e-6)


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
