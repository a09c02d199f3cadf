"""`StructuredPredictor`: L_m^SP against enumeration."""

import keras
import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

import tfconcrete as tfc
from tests.models.enumeration import CATEGORICAL_STATES, dense, log_likelihoods, make_data

layers = tfc.layers
DATA = make_data(40)
CONTEXT, TARGET = DATA[:, :3], DATA[:, 3:]


def make_model(num_latents=1, **kwargs):
    encoders = [dense((3,), (2, 3), 0), dense((2, 3), (2, 3), 1)][:num_latents]
    latents = [layers.ConcreteSample(seed=i) for i in range(num_latents)]
    decoder = dense((2, 3), (3,), 5)
    if num_latents == 1:
        encoders, latents = encoders[0], latents[0]
    return tfc.models.StructuredPredictor(encoders, decoder, latents, **kwargs)


def exact(model, x, y):
    """log p(y | x) of each example, summed over the states of every layer."""
    states = CATEGORICAL_STATES
    encoders = model.encoder if isinstance(model.encoder, list) else [model.encoder]
    logits = log_softmax(np.asarray(encoders[0](x), np.float64), -1)
    log_p = np.einsum("bvk,svk->bs", logits, states)
    for encoder in encoders[1:]:
        logits = log_softmax(np.asarray(encoder(states), np.float64), -1)
        step = np.einsum("avk,svk->as", logits, states)
        log_p = logsumexp(log_p[:, :, None] + step, axis=1)
    return logsumexp(log_p + log_likelihoods(model.decoder(states), y), axis=1)


@pytest.mark.parametrize("num_latents", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_log_likelihood_is_the_exact_one(num_latents):
    model = make_model(num_latents)
    found = model.log_likelihood(CONTEXT[:6], TARGET[:6], 20_000, seed=0, verbose=0)
    np.testing.assert_allclose(found, exact(model, CONTEXT[:6], TARGET[:6]), atol=0.02)


@pytest.mark.parametrize("num_samples", [pytest.param(1, marks=pytest.mark.slow), 5])
def test_training_raises_the_exact_conditional_likelihood(num_samples):
    model = make_model(2, num_samples=num_samples)
    before = exact(model, CONTEXT, TARGET).mean()
    model.compile(keras.optimizers.Adam(0.05))
    model.fit(CONTEXT, TARGET, batch_size=10, epochs=30, verbose=0)
    assert exact(model, CONTEXT, TARGET).mean() - before > 0.5


def test_evaluate_is_discrete_and_the_file_keeps_everything(tmp_path):
    model = make_model(2)
    model.compile("adam")
    model.fit(CONTEXT, TARGET, verbose=0)
    found = model.evaluate(CONTEXT, TARGET, verbose=0, return_dict=True)
    assert set(found) == {"loss", "reconstruction", "bits_per_dim", "discretization_gap"}
    assert model.predict(CONTEXT, verbose=0).shape == TARGET.shape
    images = model.generate(CONTEXT, seed=0)
    assert images.shape == TARGET.shape
    np.testing.assert_array_equal(images, model.generate(CONTEXT, seed=0))
    assert np.abs(images - model.generate(CONTEXT, seed=1)).max() > 0
    model.save(tmp_path / "sp.keras")
    again = keras.models.load_model(tmp_path / "sp.keras")
    np.testing.assert_allclose(again.predict(CONTEXT, verbose=0), model.predict(CONTEXT, verbose=0))


def test_igr_latents_work_too():
    x = keras.Input((3,))
    encoder = keras.Model(x, [dense((3,), (2, 2), i)(x) for i in range(2)])
    model = tfc.models.StructuredPredictor(
        encoder, dense((2, 3), (3,), 5), layers.IGRSample("stick_breaking", seed=0)
    )
    model.compile("adam")
    assert np.isfinite(model.fit(CONTEXT, TARGET, verbose=0).history["loss"][-1])
    assert np.isfinite(model.evaluate(CONTEXT, TARGET, verbose=0)[0])


def test_missing_or_misshapen_targets_raise():
    model = make_model()
    model.compile("adam")
    with pytest.raises(ValueError, match="`y`"):
        model.fit(CONTEXT, verbose=0)
    with pytest.raises(ValueError, match="`decoder`"):
        model.fit(CONTEXT, np.zeros([40, 4], np.float32), verbose=0)
