"""Failures known from other libraries, each of which must not happen here."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc

D = tfc.distributions
tfd = tfp.distributions


def finite(*values):
    return all(np.all(np.isfinite(np.asarray(tf.cast(v, tf.float64)))) for v in values)


@pytest.mark.parametrize("kind", [D.BinConcrete, D.LogitBinConcrete])
def test_relaxed_bernoulli_at_temperature_0_005_and_logit_minus_5(kind):
    logits, temperature = tf.constant(-5.0), tf.constant(0.005)
    with tf.GradientTape() as tape:
        tape.watch([logits, temperature])
        distribution = kind(temperature, logits=logits)
        x = distribution.sample(1000, seed=0)
        log_prob = distribution.log_prob(tf.identity(x))
        fused = distribution.experimental_sample_and_log_prob(1000, seed=0)[1]
        total = tf.reduce_sum(log_prob) + tf.reduce_sum(fused)
    assert finite(x, log_prob, fused, *tape.gradient(total, [logits, temperature]))


def test_a_thousand_classes_at_temperature_0_1():
    logits = tf.constant(np.random.default_rng(0).normal(size=1000), tf.float32)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        distribution = D.Concrete(0.1, logits=logits)
        x = distribution.sample(20, seed=1)
        plain = distribution.log_prob(tf.identity(x))
        same, fused = distribution.experimental_sample_and_log_prob(20, seed=1)
    assert finite(x, plain, fused, tape.gradient(plain, logits), tape.gradient(fused, logits))
    np.testing.assert_array_equal(x, same)
    assert np.min(x) < 1e-30  # so that the plain sample has lost something
    exact = D.Concrete(0.1, logits=tf.cast(logits, tf.float64))
    np.testing.assert_allclose(
        fused, exact.experimental_sample_and_log_prob(20, seed=1)[1], rtol=1e-5
    )


@pytest.mark.parametrize("jit_compile", [False, True])
def test_log_prob_at_low_temperature_through_independent(jit_compile):
    @tf.function(jit_compile=jit_compile)
    def run(logits):
        distribution = tfd.Independent(D.BinConcrete(0.01, logits=logits), 1)
        sample = distribution.sample(100, seed=2)
        plain = distribution.log_prob(tf.identity(sample))
        return plain, tf.gradients(plain, logits)[0]

    assert finite(*run(tf.constant([-5.0, 0.0, 5.0])))
    nested = tfd.Independent(D.Concrete(0.01, logits=tf.zeros([4, 10])), 1)
    assert finite(nested.log_prob(tf.identity(nested.sample(100, seed=2))))


@pytest.mark.parametrize("kind", [D.Concrete, D.ExpConcrete])
def test_temperatures_of_shape_n_1(kind):
    logits = tf.zeros([4, 3])
    with pytest.raises(ValueError, match=r"of shape \(4,\) and with no class dimension"):
        kind(tf.ones([4, 1]), logits=logits)
    assert kind(tf.ones([4]), logits=logits).batch_shape == [4]
    assert kind(tf.ones([4]), logits=logits).log_prob(tf.fill([4, 3], 1 / 3)).shape == [4]


def test_temperatures_of_shape_n_1_with_unknown_n():
    @tf.function(input_signature=[tf.TensorSpec([None, 1]), tf.TensorSpec([None, 3])])
    def run(temperature, logits):
        return D.Concrete(temperature, logits=logits).sample()

    with pytest.raises(ValueError, match="with no class dimension"):
        run.get_concrete_function()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(make, dtype):
    distribution = make(tf.constant(0.3, dtype), dtype=dtype, validate_args=True)
    sample = distribution.sample(50, seed=3)
    log_prob = distribution.log_prob(tf.identity(sample))
    same, fused = distribution.experimental_sample_and_log_prob(50, seed=3)
    assert {v.dtype.name for v in (sample, log_prob, same, fused)} == {dtype}
    assert sample.shape[1:] == distribution.batch_shape + distribution.event_shape
    assert finite(sample, log_prob, fused)
    assert distribution.discrete().sample(seed=3).dtype == dtype


def test_temperature_zero(make):
    for temperature in (0.0, 0, -1.0, float("nan"), float("inf"), tf.constant(0.0)):
        with pytest.raises(ValueError, match="Invalid value received for argument `temperature`"):
            make(temperature)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("kind", [D.Concrete, D.ExpConcrete, D.BinConcrete, D.LogitBinConcrete])
def test_infinite_logits(kind, jit_compile):
    @tf.function(jit_compile=jit_compile)
    def run(logits, temperature):
        distribution = kind(temperature, logits=logits)
        sample, fused = distribution.experimental_sample_and_log_prob(50, seed=4)
        plain = distribution.log_prob(tf.identity(sample))
        gradients = tf.gradients([plain, fused], [logits, temperature])
        return sample, plain, fused, gradients

    logits = tf.constant([0.0, -float("inf"), 1.0, -float("inf")])
    sample, plain, fused, gradients = run(logits, tf.constant(0.1))
    assert finite(sample, plain, fused, *gradients)
    if kind in (D.Concrete, D.ExpConcrete):
        assert np.all(np.isin(np.argmax(sample, -1), [0, 2]))
    x = sample if kind in (D.Concrete, D.BinConcrete) else tf.exp(sample)
    assert np.all(x.numpy()[:, [1, 3]] == 0.0)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_zero_probs(jit_compile):
    @tf.function(jit_compile=jit_compile)
    def run(probs):
        distribution = D.Concrete(0.5, probs=probs)
        sample, fused = distribution.experimental_sample_and_log_prob(50, seed=5)
        plain = distribution.log_prob(tf.identity(sample))
        return sample, plain, fused, tf.gradients([plain, fused], probs)[0]

    result = run(tf.constant([0.5, 0.0, 0.5]))
    assert finite(*result)
    assert np.all(result[0].numpy()[:, 1] == 0.0)


@pytest.mark.parametrize("jit_compile", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_masked_class_is_never_sampled(jit_compile):
    mask = tf.constant([True, False, True])
    logits = tf.constant([0.0, 1e4, -1.0])  # the masked class would always win

    @tf.function(jit_compile=jit_compile)
    def run(temperature):
        rows = tf.broadcast_to(logits, [1000, 3])
        return (
            tfc.relaxations.concrete(rows, temperature, class_mask=mask, seed=6),
            tf.exp(tfc.relaxations.exp_concrete(rows, temperature, class_mask=mask, seed=6)),
            tfc.relaxations.categorical(rows, class_mask=mask, seed=6),
        )

    for temperature in (0.01, 1.0, 10.0):
        for sample in run(tf.constant(temperature)):
            assert np.all(sample.numpy()[:, 1] == 0.0)
            np.testing.assert_allclose(np.sum(sample, -1), 1.0, rtol=1e-5)


def test_vertices_are_never_nan():
    vertex = tf.constant([0.0, 1.0, 0.0])
    logits = tf.constant([0.3, -1.0, 2.0])
    for temperature in (0.01, 0.5, 1.0, 10.0):
        assert finite(D.Concrete(temperature, logits=logits).log_prob(vertex))
        log_vertex = tf.math.log(vertex)  # -inf, 0, -inf
        assert finite(D.ExpConcrete(temperature, logits=logits).log_prob(log_vertex))
        assert finite(D.BinConcrete(temperature, logits=logits).log_prob(vertex))
        infinite = tf.constant([-float("inf"), float("inf"), 0.0])
        assert finite(D.LogitBinConcrete(temperature, logits=logits).log_prob(infinite))
        distribution = D.LogisticNormal(logits[:2], tf.ones([2]), temperature)
        assert finite(distribution.log_prob(vertex))
