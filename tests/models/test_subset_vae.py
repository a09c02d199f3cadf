"""`DiscreteVAE` on subsets: 3 of 5 classes twice, against enumeration of the 100 states."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.models.enumeration import (
    PIXELS,
    dense,
    exact_log_likelihood,
    log_likelihoods,
    make_data,
)
from tests.subsets import Law, subsets

K, CLASSES = 3, 5
STATES = np.array(
    [np.stack(pair) for pair in itertools.product(subsets(CLASSES, K), repeat=2)], np.float32
)


def make(estimator="exact", hard=True, **kwargs):
    latent = tfc.layers.SubsetSample(K, estimator=estimator, hard=hard, seed=0, name="z")
    encoder = dense((PIXELS,), (2, CLASSES), 0)
    decoder = dense((2, CLASSES), (PIXELS,), 10)
    return tfc.models.DiscreteVAE(encoder, decoder, latent, **kwargs)


@pytest.mark.parametrize(
    "prior_logits", [pytest.param(None, marks=pytest.mark.slow), np.linspace(-1, 1, CLASSES)]
)
def test_likelihood_is_enumeration(prior_logits):
    model, x = make(prior_logits=prior_logits), make_data(3)
    law = Law(np.zeros(CLASSES) if prior_logits is None else prior_logits, K)
    log_prior = np.add.outer(law.log_probs, law.log_probs).ravel()
    exact = exact_log_likelihood(model, STATES, x, log_prior)
    # The weights' variance, from which the estimate's error follows.
    log_q = np.array(
        [
            np.add.outer(*(Law(row, K).log_probs for row in example)).ravel()
            for example in model.encoder(x).numpy()
        ]
    )
    log_p = log_likelihoods(model.decoder(STATES), x) + log_prior
    variance = np.sum(np.exp(2.0 * (log_p - exact[:, None]) - log_q), -1) - 1.0
    estimate = model.log_likelihood(x, num_samples=20_000, seed=0, verbose=0)
    assert np.all(np.abs(estimate - exact) < 4.5 * np.sqrt(variance / 20_000))


def test_the_kl_is_exact():
    model, x = make(), make_data(4)
    terms = model.training_terms(tf.constant(x), None)
    uniform = Law(np.zeros(CLASSES), K)
    logits = model.encoder(x).numpy()
    expected = [sum(Law(row, K).kl(uniform) for row in example) for example in logits]
    np.testing.assert_allclose(terms["kl"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("estimator", "hard", "kl", "num_samples", "jit_compile"),
    [
        ("exact", True, "auto", 1, False),
        pytest.param("exact", True, "auto", 1, True, marks=pytest.mark.slow),
        pytest.param("gumbel", True, "mass", 2, True, marks=pytest.mark.slow),
        pytest.param("exact", False, "mass", 1, True, marks=pytest.mark.slow),
    ],
)
def test_training_and_codes(estimator, hard, kl, num_samples, jit_compile, tmp_path):
    model = make(estimator, hard, kl=kl, num_samples=num_samples)
    x = make_data(64)
    model.compile(keras.optimizers.Adam(0.05), jit_compile=jit_compile)
    losses = model.fit(x, batch_size=32, epochs=20, verbose=0).history["loss"]
    assert losses[-1] < losses[0] - 0.3
    codes = model.encode(x)
    assert codes.shape == (64, 2, K) and codes.dtype == np.int32
    assert all(len(set(row)) == K for row in codes.reshape(-1, K))
    np.testing.assert_allclose(model.decode(codes), model.predict(x, verbose=0), atol=1e-5)
    assert model.generate(5, seed=1).shape == (5, PIXELS)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.encode(x), codes)
    with pytest.raises(ValueError, match="codes"):
        model.decode(codes + CLASSES)


@pytest.mark.slow
def test_score_function():
    latent = tfc.layers.SubsetSample(K, seed=0)
    encoder, decoder = dense((PIXELS,), (2, CLASSES), 0), dense((2, CLASSES), (PIXELS,), 1)
    model = tfc.models.ScoreFunctionVAE(encoder, decoder, latent, estimator="rloo", num_samples=4)
    x = make_data(64)
    model.compile(keras.optimizers.Adam(0.05))
    losses = model.fit(x, epochs=10, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    with pytest.raises(ValueError, match="estimator"):
        tfc.models.ScoreFunctionVAE(encoder, decoder, latent, estimator="disarm_tree")
