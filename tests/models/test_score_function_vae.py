"""Score-function models: enumerated gradients, and training that raises the likelihood."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.models.enumeration import (
    BINARY_STATES,
    CATEGORICAL_STATES,
    PIXELS,
    dense,
    exact_log_likelihood,
    make_data,
    make_networks,
)

layers = tfc.layers
X = make_data()
ROWS, REPEATS = 400, 150


def concrete():
    return layers.ConcreteSample(seed=0)


def binary():
    return layers.BinConcreteSample(levels=(-1, 1), seed=0)


CASES = {
    "reinforce": (concrete, {}),
    "nvil": (concrete, {"normalize": False}),
    "vimco": (concrete, {"num_samples": 2}),
    "rloo": (concrete, {}),
    "disarm": (binary, {}),
    "disarm_tree": (concrete, {}),
}


def make_model(estimator, prior_logits=0.3):
    make_layer, arguments = CASES[estimator]
    layer = make_layer()
    encoder, decoder, states = make_networks(layer)
    model = tfc.models.ScoreFunctionVAE(
        encoder, decoder, layer, prior_logits=prior_logits, estimator=estimator, **arguments
    )
    return model, states


def enumerated_loss(model, states, x):
    """-E[L_m] of one example by summing over all states (pairs of them for m = 2)."""
    is_binary = states.ndim == 2
    logits, outputs = model.encoder(x), model.decoder(states)
    log_p = tf.reduce_sum(x * outputs - tf.nn.softplus(outputs), -1)
    if is_binary:
        sign = tf.constant(states)
        log_q = tf.reduce_sum(tf.math.log_sigmoid(sign * logits), -1)
        log_p += tf.reduce_sum(tf.math.log_sigmoid(sign * 0.3), -1)
    else:
        log_q = tf.reduce_sum(states * tf.nn.log_softmax(logits), [-1, -2])
        log_p += -np.log(len(states))
    q, values = tf.exp(log_q), log_p - log_q
    if model.estimator != "vimco":
        return -tf.reduce_sum(q * values)
    pairs = list(itertools.product(range(len(states)), repeat=2))
    first, second = (tf.constant(i) for i in zip(*pairs, strict=True))
    bound = tf.reduce_logsumexp(
        tf.stack([tf.gather(values, first), tf.gather(values, second)]), 0
    ) - np.log(2)
    return -tf.reduce_sum(tf.gather(q, first) * tf.gather(q, second) * bound)


@pytest.mark.parametrize("estimator", CASES)
def test_gradients_are_the_enumerated_ones(estimator):
    """The mean of 60,000 draws, for every weight of encoder and decoder, within 4 errors."""
    model, states = make_model(estimator)
    x = tf.constant(X[:1])
    weights = model.encoder.trainable_weights + model.decoder.trainable_weights
    with tf.GradientTape() as tape:
        loss = enumerated_loss(model, states, x)
    exact = [g.numpy() for g in tape.gradient(loss, weights)]
    rows = tf.repeat(x, ROWS, axis=0)

    @tf.function
    def estimate():
        with tf.GradientTape() as tape:
            terms = model.training_terms(rows, None)
            value = tf.reduce_mean(terms["loss"])
        return value, tape.gradient(value, weights)

    estimates = [estimate() for _ in range(REPEATS)]
    values = np.array([value for value, _ in estimates])
    assert abs(values.mean() - loss) < 4 * values.std() / np.sqrt(REPEATS) + 1e-6
    for index, expected in enumerate(exact):
        found = np.array([gradients[index] for _, gradients in estimates])
        error = found.std(0) / np.sqrt(REPEATS) + 1e-6
        assert (np.abs(found.mean(0) - expected) < 4 * error).all(), weights[index].path


def improvement(estimator, jit_compile):
    model, states = make_model(estimator, prior_logits=None)
    before = exact_log_likelihood(model, states, X).mean()
    model.compile(keras.optimizers.Adam(0.05), jit_compile=jit_compile, steps_per_execution=4)
    model.fit(X, batch_size=16, epochs=30, verbose=0)
    return exact_log_likelihood(model, states, X).mean() - before


def test_training_raises_the_exact_likelihood():
    assert improvement("vimco", jit_compile=False) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("estimator", CASES)
def test_every_estimator_raises_the_exact_likelihood(estimator, jit_compile):
    assert improvement(estimator, jit_compile) > 0.4


def test_a_stack_trains_with_vimco():
    encoders = [dense((PIXELS,), (4,), 0), dense((4,), (4,), 1)]
    decoders = [dense((4,), (PIXELS,), 2), dense((4,), (4,), 3)]
    model = tfc.models.ScoreFunctionVAE(
        encoders, decoders, [binary(), binary()], estimator="vimco", num_samples=3
    )
    model.compile(keras.optimizers.Adam(0.05))
    history = model.fit(X, batch_size=16, epochs=12, verbose=0).history["loss"]
    assert history[-1] < history[0] - 0.3


def test_nvil_keeps_its_moments_and_its_baseline_in_the_file(tmp_path):
    model, _ = make_model("nvil")
    model.compile("adam")
    model.fit(X, verbose=0)
    assert model._moments[1].numpy() > 0
    model.save(tmp_path / "nvil.keras")
    again = keras.models.load_model(tmp_path / "nvil.keras")
    for old, new in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(old, new)
    assert int(again.optimizer.iterations) == int(model.optimizer.iterations)


def test_evaluation_has_no_gap():
    model, _ = make_model("rloo")
    model.compile("adam")
    assert model.evaluate(X, verbose=0, return_dict=True)["discretization_gap"] == 0.0
    assert len(CATEGORICAL_STATES) == 9 and len(BINARY_STATES) == 16
