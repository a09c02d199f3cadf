"""`DistributionSample`: KLs against closed forms and quadrature, modes, saving."""

import warnings

import keras
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc

tfd = tfp.distributions
register = keras.saving.register_keras_serializable("tests_distribution")
X = np.array([[0.5, -1.0, 2.0], [0.0, 0.25, -0.5]], np.float32)


@register
def normal(x):
    return tfd.Independent(tfd.Normal(x, 0.5), 1)


@register
def standard_normal():
    return tfd.Independent(tfd.Normal(tf.zeros([3]), 1.0), 1)


@register
def bits(x):
    return tfd.Independent(tfc.distributions.BinConcrete(0.4, logits=x), 1)


@register
def prior_bits(x):
    return tfd.Independent(tfc.distributions.BinConcrete(0.6, logits=tf.zeros_like(x)), 1)


def test_closed_form():
    layer = tfc.layers.DistributionSample(normal, standard_normal, kl_weight=0.25)
    expected = np.sum(np.log(1 / 0.5) + (0.25 + X.astype(np.float64) ** 2) / 2 - 0.5, -1)
    for training in (True, False):
        layer(X, training=training)
        np.testing.assert_allclose(layer.losses, [0.25 * expected.mean()], rtol=1e-6)


def binary_kl(logit, t, prior_t):
    """The KL between two Binary Concrete variables, by quadrature over the logit."""

    def log_density(y, t, logit):
        return np.log(t) + scipy.stats.logistic.logpdf(t * y - logit)

    def integrand(y):
        log_q = log_density(y, t, logit)
        return np.exp(log_q) * (log_q - log_density(y, prior_t, 0.0))

    center = logit / t
    return scipy.integrate.quad(integrand, center - 80, center + 80, points=[center], limit=400)[0]


def test_monte_carlo():
    """The mean over many samples is the KL, and is finite far from any simplex point."""
    layer = tfc.layers.DistributionSample(bits, prior_bits, kl_samples=20_000, seed=0)
    layer(X, training=True)
    expected = np.mean([sum(binary_kl(v, 0.4, 0.6) for v in row) for row in X])
    # The log ratio of one sample has a standard deviation below 2 in each of six terms.
    np.testing.assert_allclose(layer.losses[0], expected, atol=4.5 * 2 * 6**0.5 / 2 / 20_000**0.5)


@pytest.mark.parametrize(
    "family",
    [
        lambda t, x: tfc.distributions.Concrete(t, logits=x),
        lambda t, x: tfd.RelaxedOneHotCategorical(t, logits=x),
    ],
)
def test_log_space_is_exact_where_the_simplex_underflows(family):
    """At temperature 0.01 most coordinates are 0, and the KL is that of the logarithms."""
    logits = tf.constant(X)
    layer = tfc.layers.DistributionSample(
        lambda x: family(0.01, x),
        lambda x: family(0.02, tf.zeros_like(x)),
        kl_samples=4000,
        seed=0,
    )
    with tf.GradientTape() as tape:
        tape.watch(logits)
        sample = layer(logits, training=True)
        loss = layer.losses[0]
    assert np.mean(sample == 0.0) > 0.3
    assert np.all(np.isfinite(tape.gradient(loss, logits)))
    q = tfc.distributions.ExpConcrete(0.01, logits=logits)
    prior = tfc.distributions.ExpConcrete(0.02, logits=tf.zeros_like(logits))
    y = q.sample(4000, seed=1)
    ratios = np.asarray(q.log_prob(y) - prior.log_prob(y)).mean(-1)
    error = 4.5 * ratios.std() / np.sqrt(4000) * np.sqrt(2)
    np.testing.assert_allclose(loss, ratios.mean(), atol=error)


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        (lambda x: tfc.distributions.Concrete(0.5, logits=x), np.eye(3)[[2, 1]]),
        (lambda x: tfd.RelaxedOneHotCategorical(0.5, logits=x), np.eye(3)[[2, 1]]),
        (lambda x: tfd.OneHotCategorical(logits=x), np.eye(3)[[2, 1]]),
        (lambda x: tfc.distributions.BinConcrete(0.5, logits=x), X > 0),
        (lambda x: tfd.RelaxedBernoulli(0.5, logits=x), X > 0),
        (lambda x: tfd.Independent(tfd.Bernoulli(logits=x), 1), X > 0),
        (lambda x: tfd.Categorical(logits=x), [2, 1]),
        (lambda x: tfd.Normal(x, 1.0), X),
        (lambda x: tfc.distributions.LogitBinConcrete(0.5, logits=x), X / 0.5),
        # At the concentrations below 1 the density is unbounded, and TFP's mode NaN.
        (lambda x: tfd.Gamma(1.25 + x, 2.0), np.where(X < -0.25, 1.25 + X, 0.25 + X) / 2.0),
        (lambda x: tfd.Cauchy(x, 1.0, allow_nan_stats=False), X),
        (
            lambda x: tfd.MixtureSameFamily(
                tfd.Categorical(logits=x), tfd.Normal([0.0, 1, 2], 1.0)
            ),
            np.sum(np.exp(X) / np.exp(X).sum(-1, keepdims=True) * [0, 1, 2], -1),
        ),
    ],
)
def test_inference(family, expected):
    layer = tfc.layers.DistributionSample(family)
    output = layer(X)
    assert output.dtype == tf.float32
    np.testing.assert_allclose(output, expected, rtol=1e-5)
    np.testing.assert_array_equal(output, layer(X))
    layer.inference = "sample"
    assert layer(X).shape == output.shape


def test_log_space_rounding():
    layer = tfc.layers.DistributionSample(
        lambda x: tfc.distributions.ExpConcrete(0.5, logits=x), dtype="mixed_float16"
    )
    output = layer(X)
    assert np.all(np.isfinite(output))
    np.testing.assert_array_equal(np.exp(output), np.eye(3)[[2, 1]])


@pytest.mark.slow
def test_functional_models_train_and_save(tmp_path):
    inputs = keras.Input([3])
    hidden = keras.layers.Dense(3)(inputs)
    z = tfc.layers.DistributionSample(bits, prior_bits, kl_weight=0.1, seed=0, name="z")(hidden)
    assert z.shape == (None, 3)
    model = keras.Model(inputs, keras.layers.Dense(3)(z))
    model.compile("adam", "mse", jit_compile=True)
    history = model.fit(X, X, epochs=2, verbose=0)
    assert np.all(np.isfinite(history.history["loss"]))
    losses = model.evaluate(X, X, verbose=0), model.evaluate(X, X, verbose=0)
    assert losses[0] == losses[1]
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(X, training=True), model(X, training=True))
    assert again.get_layer("z").prior is prior_bits


def test_a_distribution_as_prior_cannot_be_saved():
    layer = tfc.layers.DistributionSample(normal, standard_normal())
    layer(X)
    assert len(layer.losses) == 1
    with pytest.raises(ValueError, match="register_keras_serializable"):
        layer.get_config()


def test_several_inputs():
    @register
    def two(inputs):
        return tfd.Independent(tfd.Normal(inputs["loc"], tf.nn.softplus(inputs["scale"])), 1)

    inputs = {"loc": keras.Input([3]), "scale": keras.Input([3])}
    model = keras.Model(inputs, tfc.layers.DistributionSample(two)(inputs))
    np.testing.assert_allclose(model({"loc": X, "scale": X}), X)


@register
def classes(x):
    return tfd.OneHotCategorical(logits=x, dtype=x.dtype)


@register
def numbers(x):
    return tfd.Categorical(logits=x)


LAWS_OF_LOGITS = {
    "relaxed": lambda x: tfc.distributions.Concrete(0.5, logits=x),
    "log": lambda x: tfc.distributions.ExpConcrete(0.5, logits=x),
    "gaussian": lambda x: tfc.distributions.IGR(x, tf.ones_like(x), 0.5),
    "classes": classes,
    "numbers": numbers,
    "bits": bits,
    "plain_bits": lambda x: tfd.Independent(tfd.Bernoulli(logits=x, dtype=x.dtype), 1),
    "subset": lambda x: tfc.distributions.KSubset(2, x),
    "tfp": lambda x: tfd.RelaxedOneHotCategorical(0.5, logits=x),
}


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
@pytest.mark.parametrize("mode", ["training", "argmax", "sample", "probs"])
@pytest.mark.parametrize("name", LAWS_OF_LOGITS)
def test_a_nan_among_the_parameters_is_a_nan_sample(name, mode, dtype):
    """TFP has a mode and draws a class whatever its logits; a layer must not pass that on."""
    if (name, mode) == ("numbers", "probs"):
        pytest.skip("`tfd.Categorical` has no mean")
    x = np.zeros([3, 4], np.float32)
    x[1, 2] = np.nan
    inference = "argmax" if mode == "training" else mode
    layer = tfc.layers.DistributionSample(
        LAWS_OF_LOGITS[name], inference=inference, seed=0, dtype=dtype
    )
    with tfc.layers.record_codes() as codes:
        output = layer(x, training=mode == "training").numpy().astype(np.float64)
    lost = np.zeros(output.shape, bool)
    lost[(1, 2) if "bits" in name else 1] = True
    np.testing.assert_array_equal(np.isnan(output), lost)
    if mode == "argmax" and name != "subset":
        (found,) = [np.asarray(value) for _, value in codes]
        expected = np.zeros([3, 4] if "bits" in name else [3], int)
        expected[(1, 2) if "bits" in name else 1] = -1
        np.testing.assert_array_equal(found, expected)


def test_a_mode_without_gradient_warns():
    logits = tf.Variable(X)
    layer = tfc.layers.DistributionSample(classes, name="q")
    with pytest.warns(UserWarning, match="'q' is in argmax mode"), tf.GradientTape() as tape:
        output = layer(logits)
    assert tape.gradient(output, logits) is None
    # The mode of a Gaussian is its location, which the gradient reaches.
    layer = tfc.layers.DistributionSample(normal)
    with warnings.catch_warnings(), tf.GradientTape() as tape:
        warnings.simplefilter("error")
        output = layer(logits)
    assert tape.gradient(output, logits) is not None
