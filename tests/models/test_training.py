"""Training raises the exact likelihood, for each valid pair of KL option and layer."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.models.enumeration import exact_log_likelihood, make_data, make_networks

layers = tfc.layers
X = make_data()
LAYERS = {
    "concrete": lambda: layers.ConcreteSample(seed=0),
    "exp_concrete": lambda: layers.ExpConcreteSample(seed=0),
    "bin_concrete": lambda: layers.BinConcreteSample(levels=(-1, 1), seed=0),
    "concrete_hard": lambda: layers.ConcreteSample(hard=True, seed=0),
    "bin_concrete_hard": lambda: layers.BinConcreteSample(hard=True, seed=0),
    "straight_through": lambda: layers.StraightThrough(seed=0),
    "gumbel_rao": lambda: layers.GumbelRao(num_samples=10, seed=0),
    "gapped": lambda: layers.GapStraightThrough(seed=0),
    "reinmax": lambda: layers.ReinMax(seed=0),
    "igr": lambda: layers.IGRSample(seed=0),
}
OPTIONS = {
    "concrete": ("density", "mass", "analytic"),
    "exp_concrete": ("density", "mass", "analytic"),
    "bin_concrete": ("density", "mass", "analytic"),
    "igr": ("gaussian",),
}
PAIRS = [(name, kl) for name in LAYERS for kl in OPTIONS.get(name, ("mass", "analytic"))]
QUICK = [
    ("concrete", "density"),
    ("gapped", "analytic"),
    ("igr", "gaussian"),
    pytest.param("exp_concrete", "mass", marks=pytest.mark.slow),
    pytest.param("bin_concrete", "density", marks=pytest.mark.slow),
]
ALL_OPTIONS = ("density", "mass", "analytic", "gaussian")


def improvement(name, kl, jit_compile, num_samples=1):
    """By how many nats 120 steps raise the exact log p(x)."""
    layer = LAYERS[name]()
    encoder, decoder, states = make_networks(layer)
    model = tfc.models.DiscreteVAE(
        encoder, decoder, layer, kl=kl, num_samples=num_samples, prior_temperature=0.5
    )
    before = exact_log_likelihood(model, states, X).mean()
    model.compile(keras.optimizers.Adam(0.05), jit_compile=jit_compile, steps_per_execution=4)
    history = model.fit(X, batch_size=16, epochs=30, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    return exact_log_likelihood(model, states, X).mean() - before


@pytest.mark.parametrize("name, kl", QUICK)
def test_training_raises_the_exact_likelihood(name, kl):
    assert improvement(name, kl, jit_compile=False) > 0.8


def test_training_raises_the_exact_likelihood_under_xla():
    assert improvement("concrete", "density", jit_compile=True) > 0.8


@pytest.mark.slow
def test_several_samples_train_too():
    assert improvement("gapped", "mass", jit_compile=False, num_samples=3) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("name, kl", PAIRS)
def test_every_valid_pair_raises_the_exact_likelihood(name, kl, jit_compile):
    assert improvement(name, kl, jit_compile) > 0.5


@pytest.mark.parametrize("name", LAYERS)
def test_invalid_pairs_raise_and_name_the_valid_ones(name):
    layer = LAYERS[name]()
    encoder, decoder, _ = make_networks(layer)
    valid = OPTIONS.get(name, ("mass", "analytic"))
    for kl in set(ALL_OPTIONS) - set(valid):
        with pytest.raises(ValueError, match="Invalid value received for argument `kl`") as error:
            tfc.models.DiscreteVAE(encoder, decoder, layer, kl=kl)
        assert all(f'"{option}"' in str(error.value) for option in valid)
    if "analytic" in valid:
        with pytest.raises(ValueError, match="num_samples=2") as error:
            tfc.models.DiscreteVAE(encoder, decoder, layer, kl="analytic", num_samples=2)
        assert '"mass"' in str(error.value)


@pytest.mark.parametrize(
    "name, num_samples, expected",
    [
        ("concrete", 1, "density"),
        ("bin_concrete", 5, "density"),
        ("gapped", 1, "analytic"),
        ("gapped", 5, "mass"),
        ("bin_concrete_hard", 1, "analytic"),
        ("igr", 1, "gaussian"),
    ],
)
def test_auto_is_the_best_valid_option(name, num_samples, expected):
    encoder, decoder, _ = make_networks(LAYERS[name]())

    def losses(kl):
        model = tfc.models.DiscreteVAE(
            encoder, decoder, LAYERS[name](), num_samples=num_samples, kl=kl
        )
        return model.training_terms(tf.constant(X[:16]), None)["loss"].numpy()

    np.testing.assert_array_equal(losses("auto"), losses(expected))


def test_a_trainable_prior_learns_the_data_s_shares():
    """A model whose states are the data: the prior must move to their frequencies."""
    layer = layers.ConcreteSample(hard=True, seed=0)
    encoder, decoder, states = make_networks(layer)
    model = tfc.models.DiscreteVAE(encoder, decoder, layer, prior_logits="trainable")
    model.compile(keras.optimizers.Adam(0.05))
    model.fit(X, batch_size=16, epochs=15, verbose=0)
    prior = np.asarray(model._prior)
    assert prior.shape == (1, 2, 3) and np.abs(prior).max() > 0.1
    assert any("prior" in weight.path for weight in model.trainable_weights)


def test_beta_weighs_the_kl_in_training_alone():
    losses = {}
    for beta in (0.0, 1.0, 3.0):
        layer = layers.ConcreteSample(seed=0)
        encoder, decoder, _ = make_networks(layer)
        model = tfc.models.DiscreteVAE(encoder, decoder, layer, beta=beta)
        terms = model.training_terms(X, None)
        np.testing.assert_allclose(
            terms["loss"], terms["reconstruction"] + beta * terms["kl"], rtol=1e-4, atol=1e-5
        )
        losses[beta] = model.discrete_terms(X, None)["loss"].numpy()
    np.testing.assert_allclose(losses[0.0], losses[3.0], rtol=1e-5)


def test_the_discretization_gap_of_exact_samples_is_zero():
    for kl in ("mass", "analytic"):
        layer = layers.GapStraightThrough(seed=0)
        encoder, decoder, _ = make_networks(layer)
        model = tfc.models.DiscreteVAE(encoder, decoder, layer, kl=kl)
        terms = model.discrete_terms(X, None)
        np.testing.assert_allclose(terms["loss"], terms["relaxed_loss"], rtol=1e-6)
