"""`JointVAE`: Eq. 15 with its schedules, and the joint bound against quadrature."""

import keras
import numpy as np
import scipy.stats
from scipy.special import logsumexp

import tfconcrete as tfc
from tests.models.enumeration import PIXELS, dense, log_likelihoods, make_data

X = make_data(10)


def make_model(latent=None, **kwargs):
    x = keras.Input((PIXELS,))
    latent = latent or tfc.ConcreteSample(seed=0)
    shapes = [(2, 2), (2, 2)] if isinstance(latent, tfc.IGRSample) else [(2, 3)]
    shapes += [(1,), (1,)]
    encoder = keras.Model(x, [dense((PIXELS,), s, i)(x) for i, s in enumerate(shapes)])
    z = [keras.Input((2, 3)), keras.Input((1,))]
    flat = keras.layers.Concatenate()([keras.layers.Flatten()(z[0]), z[1]])
    init = keras.initializers.GlorotUniform(seed=7)
    decoder = keras.Model(z, keras.layers.Dense(PIXELS, kernel_initializer=init)(flat))
    return tfc.models.JointVAE(encoder, decoder, latent, seed=1, **kwargs)


def test_the_loss_is_equation_15():
    """Reconstruction plus gamma times the distance of each mean KL from its capacity."""
    model = make_model(gamma=7.0, discrete_capacity=(1.0, 3.0, 10), continuous_capacity=0.25)
    model._step.assign(5)
    terms = model.weigh_terms(model.training_terms(X, None), None)
    terms = {name: np.asarray(value) for name, value in terms.items()}
    penalty = abs(terms["kl"].mean() - 2.0) + abs(terms["continuous_kl"].mean() - 0.25)
    np.testing.assert_allclose(terms["loss"], terms["reconstruction"] + 7.0 * penalty, rtol=1e-5)
    _, loc, log_scale = (np.asarray(v) for v in model.encoder(X))
    expected = 0.5 * (np.exp(2 * log_scale) + loc**2 - 1 - 2 * log_scale).sum(-1)
    np.testing.assert_allclose(terms["continuous_kl"], expected, rtol=1e-4, atol=1e-6)


def test_the_schedule_advances_inside_the_compiled_step():
    model = make_model(gamma=30.0)
    model.compile("adam", steps_per_execution=2)
    model.fit(X, batch_size=5, epochs=3, verbose=0)
    assert int(model._step) == 6


def test_log_likelihood_is_that_of_the_joint_model():
    """log p(x), summed over the states and integrated over the Gaussian."""
    model = make_model()
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = np.log(weights / weights.sum())
    states = np.eye(3, dtype=np.float32)[np.array(np.unravel_index(np.arange(9), (3, 3))).T]
    z = np.repeat(states, len(nodes), axis=0)
    c = np.tile(nodes, 9).astype(np.float32)[:, None]
    log_p = log_likelihoods(model.decoder([z, c]), X) + np.tile(weights, 9) - np.log(9)
    found = model.log_likelihood(X, 20_000, seed=0, verbose=0)
    np.testing.assert_allclose(found, logsumexp(log_p, axis=1), atol=0.05)


def test_training_moves_the_kls_towards_their_capacities():
    model = make_model(
        tfc.IGRSample(temperature=0.5, seed=0),
        gamma=20.0,
        discrete_capacity=0.6,
        continuous_capacity=0.4,
    )
    model.compile(keras.optimizers.Adam(0.05))
    history = model.fit(X, batch_size=10, epochs=60, verbose=0).history
    assert abs(history["kl"][-1] - 0.6) < 0.15
    assert abs(history["continuous_kl"][-1] - 0.4) < 0.15


def test_methods_and_the_file(tmp_path):
    model = make_model()
    model.compile("adam")
    model.fit(X, verbose=0)
    found = model.evaluate(X, verbose=0, return_dict=True)
    np.testing.assert_allclose(
        found["loss"], found["reconstruction"] + found["kl"] + found["continuous_kl"], rtol=1e-4
    )
    codes = model.encode(X)
    assert codes.shape == (10, 2)
    zero = model.decode(codes)
    np.testing.assert_allclose(zero, model.decode(codes, np.zeros([10, 1])), atol=1e-6)
    assert np.abs(zero - model.decode(codes, np.ones([10, 1]))).max() > 1e-3
    assert model.generate(5, seed=0).shape == (5, PIXELS)
    model.save(tmp_path / "joint.keras")
    again = keras.models.load_model(tmp_path / "joint.keras")
    np.testing.assert_allclose(again.predict(X, verbose=0), model.predict(X, verbose=0))
    assert int(again._step) == int(model._step) == 1
    assert int(again.optimizer.iterations) == 1
    np.testing.assert_array_equal(
        again.continuous.seed_generator.state, model.continuous.seed_generator.state
    )


def test_gaussian_draws_of_the_prior_are_normal():
    """Through a decoder that shows the Gaussian alone."""
    model = make_model()
    dense_layer = model.decoder.layers[-1]
    kernel = np.zeros(dense_layer.kernel.shape, np.float32)
    kernel[-1] = 1.0
    dense_layer.kernel.assign(kernel)
    images = np.clip(model.generate(2_000, seed=0)[:, 0].astype(np.float64), 1e-6, 1 - 1e-6)
    values = np.log(images / (1 - images))
    assert scipy.stats.kstest(values, "norm").pvalue > 1e-3
