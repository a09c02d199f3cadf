"""`log_likelihood` and the discrete bound against enumeration."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax, logsumexp

import tfconcrete as tfc
from tests.grids import grid
from tests.models.enumeration import (
    CATEGORICAL_STATES,
    PIXELS,
    dense,
    exact_log_likelihood,
    log_likelihood_error,
    log_likelihoods,
    log_posterior,
    make_data,
    make_networks,
)

layers = tfc.layers
X = make_data(12)
KINDS = {
    "concrete": lambda: layers.ConcreteSample(seed=0),
    "binary": lambda: layers.BinConcreteSample(levels=(-1, 1), seed=0),
    "igr": lambda: layers.IGRSample(seed=0),
}


def make_model(layer, **kwargs):
    encoder, decoder, states = make_networks(layer)
    return tfc.models.DiscreteVAE(encoder, decoder, layer, **kwargs), states


def check(found, log_joint, log_q, num_samples):
    """`found` is the sum over the states, up to 5 standard errors and rounding."""
    assert found.shape == (len(log_joint),)
    error = log_likelihood_error(log_joint, log_q, num_samples)
    assert error.max() < 0.05  # of the logarithm's series, the first term is enough
    assert (np.abs(found - logsumexp(log_joint, 1)) < 5.0 * error + 1e-4).all()


@pytest.fixture(scope="module")
def concrete():
    """A model with a decoder far from flat, so that the posterior matters."""
    model, states = make_model(KINDS["concrete"]())
    kernel = model.decoder.layers[1].kernel
    kernel.assign(4.0 * kernel)
    return model, states


@pytest.mark.parametrize("kind", grid(KINDS, quick=lambda kind: kind not in ("binary", "igr")))
def test_log_likelihood_is_the_exact_one(kind):
    model, states = make_model(KINDS[kind]())
    found = model.log_likelihood(X, num_samples=50_000, chunk=1_000, seed=0, verbose=0)
    log_joint = log_likelihoods(model.decoder(states), X) - np.log(len(states))
    check(found, log_joint, log_posterior(model, states, X), 50_000)


@pytest.mark.slow
def test_the_bound_grows_with_m_and_stays_below(concrete):
    """Averages over repeats: each step up is at least 4 standard errors of the difference."""
    model, states = concrete
    exact = exact_log_likelihood(model, states, X).mean()
    x = np.repeat(X, 200, axis=0)
    means, errors = [], []
    for m in (1, 4, 64):
        bounds = model.log_likelihood(x, num_samples=m, seed=m, batch_size=2400, verbose=0)
        repeats = bounds.reshape(12, 200).mean(0)
        means.append(repeats.mean())
        errors.append(repeats.std() / np.sqrt(len(repeats)))
    assert means[1] - means[0] > 4 * np.hypot(errors[0], errors[1])
    assert means[2] - means[1] > 4 * np.hypot(errors[1], errors[2])
    assert means[2] <= exact + 4 * errors[2]


def enumerated_bound(model, states, x, log_prior):
    """The discrete ELBO of each example, and its variance over one draw, over all states."""
    log_q = log_posterior(model, states, x)
    values = log_likelihoods(model.decoder(states), x) + log_prior - log_q
    mean = (np.exp(log_q) * values).sum(1)
    return mean, (np.exp(log_q) * (values - mean[:, None]) ** 2).sum(1)


@pytest.mark.parametrize("inference", ["argmax", "probs", "sample"])
def test_evaluate_reports_the_discrete_bound_whatever_the_inference(inference, concrete):
    model, states = concrete
    model.latent.inference = inference
    model.compile("adam")
    x = np.repeat(X, 300, axis=0)
    found = model.evaluate(x, batch_size=1200, verbose=0, return_dict=True)
    assert set(found) == {"loss", "reconstruction", "kl", "bits_per_dim", "discretization_gap"}
    bounds, variances = enumerated_bound(model, states, X, -np.log(9))
    error = np.sqrt(variances.mean() / len(x))
    assert abs(found["loss"] + bounds.mean()) < 4.5 * error
    np.testing.assert_allclose(found["loss"], found["reconstruction"] + found["kl"], rtol=1e-5)
    np.testing.assert_allclose(
        found["bits_per_dim"], found["loss"] / (PIXELS * np.log(2)), rtol=1e-5
    )
    model.latent.inference = "argmax"


def test_a_given_prior_counts():
    prior = np.array([[2.0, 0.0, -1.0]], np.float32)
    layer = KINDS["concrete"]()
    model, states = make_model(layer, prior_logits=prior)
    log_prior = (states * log_softmax(prior, -1)).sum((1, 2))
    found = model.log_likelihood(X, 20_000, seed=0, verbose=0)
    log_joint = log_likelihoods(model.decoder(states), X) + log_prior
    check(found, log_joint, log_posterior(model, states, X), 20_000)


def _log_softmax(logits):
    return log_softmax(np.asarray(logits, np.float64), -1)


def test_a_stack_is_the_product_of_its_conditionals():
    """Two latents: p(z2) p(z1 | z2) p(x | z1), summed over all 81 states."""
    encoders = [dense((PIXELS,), (2, 3), 0), dense((2, 3), (2, 3), 1)]
    decoders = [dense((2, 3), (PIXELS,), 2), dense((2, 3), (2, 3), 3)]
    latents = [layers.ConcreteSample(seed=0), layers.ConcreteSample(seed=1)]
    model = tfc.models.DiscreteVAE(encoders, decoders, latents, num_samples=2)
    states = CATEGORICAL_STATES
    log_z1 = np.einsum(
        "avk,svk->as", _log_softmax(decoders[1](states)), states
    )  # p(z1 = s | z2 = a)
    log_x = log_likelihoods(decoders[0](states), X)
    log_joint = log_x[:, None] + log_z1 - np.log(9)  # of x, z2, z1
    log_q1 = np.einsum("bvk,svk->bs", _log_softmax(encoders[0](X)), states)
    log_q2 = np.einsum("svk,avk->as", _log_softmax(encoders[1](states)), states)
    log_q = log_q1[:, None] + log_q2
    found = model.log_likelihood(X, 20_000, seed=0, verbose=0)
    check(found, log_joint.reshape(12, -1), log_q.reshape(12, -1), 20_000)
    codes = model.encode(X)
    assert [c.shape for c in codes] == [(12, 2), (12, 2)]
    assert model.decode(codes).shape == (12, PIXELS)
    assert model.generate(3, seed=0).shape == (3, PIXELS)


@pytest.mark.parametrize("likelihood", ["gaussian", "categorical"])
def test_other_likelihoods(likelihood):
    shape = (4,) if likelihood == "gaussian" else (4, 5)
    encoder, decoder = dense((4,), (2, 3), 0), dense((2, 3), shape, 1)
    kernel = encoder.layers[1].kernel
    kernel.assign(0.1 * kernel)  # a posterior that reaches every state, for data up to 4
    model = tfc.models.DiscreteVAE(encoder, decoder, layers.ConcreteSample(seed=0), likelihood)
    x = np.random.default_rng(0).integers(0, 5, [6, 4]).astype(np.float32)
    outputs = np.asarray(decoder(CATEGORICAL_STATES), np.float64)
    if likelihood == "gaussian":
        log_p = -0.5 * (x[:, None] - outputs) ** 2 - 0.5 * np.log(2 * np.pi)
    else:
        log_p = np.take_along_axis(
            log_softmax(outputs, -1)[None], x.astype(int)[:, None, :, None], -1
        )[..., 0]
    found = model.log_likelihood(x, 20_000, seed=0, verbose=0)
    log_q = log_posterior(model, CATEGORICAL_STATES, x)
    check(found, log_p.sum(-1) - np.log(9), log_q, 20_000)


def test_the_same_seed_gives_the_same_numbers_and_chunks_do_not_matter(concrete):
    model, states = concrete
    first = model.log_likelihood(X, 3_000, chunk=1_000, seed=5, verbose=0)
    again = model.log_likelihood(X, 3_000, chunk=1_000, seed=5, verbose=0)
    np.testing.assert_array_equal(first, again)
    other = model.log_likelihood(X, 3_000, chunk=770, seed=6, batch_size=5, verbose=0)
    assert first.shape == other.shape == (12,)
    log_joint = log_likelihoods(model.decoder(states), X) - np.log(9)
    error = log_likelihood_error(log_joint, log_posterior(model, states, X), 3_000)
    difference = np.abs(first - other)
    assert difference.max() > 0.0 and (difference < 5.0 * np.sqrt(2.0) * error).all()


def test_a_dataset_and_a_progress_bar(concrete, capsys):
    model, _ = concrete
    data = tf.data.Dataset.from_tensor_slices(X).batch(5)
    found = model.log_likelihood(data, 200, chunk=50, batch_size=6, seed=0)
    np.testing.assert_allclose(
        found, model.log_likelihood(X, 200, chunk=50, batch_size=6, seed=0, verbose=0)
    )
    assert "2/2" in capsys.readouterr().out


def test_encode_decode_and_predict_agree(concrete):
    model, _ = concrete
    codes = model.encode(X, batch_size=5)
    assert codes.dtype == np.int32
    np.testing.assert_array_equal(codes, np.argmax(model.encoder(X), -1))
    np.testing.assert_allclose(
        model.decode(codes), model.predict(X, verbose=0), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        model.decode(codes), keras.ops.sigmoid(model.decoder(np.eye(3)[codes])), rtol=1e-5
    )


def test_generate_follows_the_prior_row_by_row():
    """Each state's share among generated images, against its prior probability."""
    prior = np.array([1.0, 0.0, -1.0], np.float32)
    model, states = make_model(KINDS["concrete"](), prior_logits=prior)
    images = model.generate(4_000, seed=3)
    np.testing.assert_allclose(images[:7], model.generate(7, seed=3), atol=1e-6)
    means = np.asarray(keras.ops.sigmoid(model.decoder(states)))
    nearest = np.abs(images[:, None] - means).sum(-1).argmin(1)
    shares = np.bincount(nearest, minlength=9) / len(images)
    expected = np.exp((states * log_softmax(prior)).sum((1, 2)))
    errors = np.sqrt(expected * (1 - expected) / len(images))
    assert (np.abs(shares - expected) < 4.5 * errors).all()
