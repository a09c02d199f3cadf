"""What the IGR paper's published program does, against NumPy and exact values."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

import tfconcrete as tfc


@pytest.fixture
def program(example):
    return example("reproduction.igr_program")


def test_a_scale_for_every_pixel(program):
    rng = np.random.default_rng(0)
    x, params = rng.random([3, 5, 4]), rng.normal(0, 2, [3, 5, 4, 2])
    elu = np.where(params > 0, params, np.expm1(params))
    mean, scale = 1 / (1 + np.exp(-elu[..., 0])), 1e-6 + np.log1p(np.exp(elu[..., 1]))
    likelihood = program.PixelGaussian()
    found = likelihood.log_prob(tf.constant(x), tf.constant(params))
    expected = stats.norm.logpdf(x, mean, scale).sum((1, 2))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    np.testing.assert_allclose(likelihood.mean(tf.constant(params)), mean, rtol=1e-10)
    assert likelihood.params_shape((None, 28, 28)) == (None, 28, 28, 2)


def test_what_no_pixel_reaches(program):
    """The bounds that the docstring states: the least mean, and the largest log density."""
    extreme, likelihood = tf.constant([[-1e3, -1e3]], tf.float64), program.PixelGaussian()
    least = likelihood.mean(extreme)
    np.testing.assert_allclose(least, 1 / (1 + np.e), rtol=1e-12)
    top = float(likelihood.log_prob(least[:, None], extreme[:, None])[0])
    np.testing.assert_allclose(top, stats.norm.logpdf(0.0, 0.0, np.log1p(np.exp(-1)) + 1e-6))
    assert 0.241 < top < 0.242


def test_its_prior_is_nearly_uniform_after_rounding(program):
    """The classes of IGR at 0.5 with delta 0.1 under that prior, by quadrature."""
    loc, scale = (np.full(9, value, "float32") for value in program.PRIOR)
    probs = tfc.distributions.IGR(loc, scale, 0.5, delta=0.1).discrete().probs_parameter().numpy()
    below = stats.norm.cdf((0.5 * np.log(0.1) - loc[0]) / scale[0])
    np.testing.assert_allclose(probs[-1], below**9, atol=1e-4)
    np.testing.assert_allclose(probs[:-1], (1 - below**9) / 9, atol=1e-4)


def model_of(latent, params):
    """Something with a latent, whose encoder gives the same parameters for every image."""

    class Model:
        def encoder(self, images):
            return params

    model = Model()
    model.latent = latent
    return model


@pytest.mark.parametrize("several", [False, True])
def test_figure_4_counts_rounding(program, several):
    """The sum of a softmax is constant: in float64 its gradient is nothing but rounding."""
    logits = tf.random.stateless_normal([20, 3, 10], seed=[0, 1])
    params = [logits, tf.zeros_like(logits)] if several else logits
    model = model_of(tfc.ConcreteSample(0.25), params)
    exact = program.sum_gradient(model, None, tf.float64)
    assert np.abs(exact).max() < 1e-14
    assert np.abs(program.sum_gradient(model, None)).max() < 1e-5
    assert 0.0 < program.vanished_sums(model, None) < 1.0
    cold = model_of(tfc.ConcreteSample(1e-3), params)
    assert program.vanished_sums(cold, None) > program.vanished_sums(model, None)


@pytest.mark.parametrize("sampled", [False, True])
def test_penalties_of_every_image(program, sampled):
    """Eq. 15 for each image; a sampled KL is right on average and never better than the mean."""
    inputs = keras.Input([4])
    encoder = keras.Model(inputs, [keras.layers.Dense(n)(inputs) for n in (3, 2, 2)])
    latents = [keras.Input([3]), keras.Input([2])]
    hidden = keras.layers.Concatenate()(latents)
    decoder = keras.Model(latents, keras.layers.Dense(4)(hidden))
    options = {"discrete_capacity": 0.3, "continuous_capacity": 0.7, "gamma": 5.0, "seed": 0}
    model = program.PerImageJointVAE(
        encoder, decoder, tfc.layers.StraightThrough(seed=0), sampled=sampled, **options
    )
    model.compile("adam")
    number = 20_000
    x = tf.cast(np.random.default_rng(0).random([1, 4]) < 0.5, tf.float32)
    x = tf.repeat(x, number, 0)
    terms = model.training_terms(x, x)
    loss = model.weigh_terms(dict(terms), None)["loss"]
    expected = terms["reconstruction"] + 5.0 * (
        np.abs(terms["kl"] - 0.3) + np.abs(terms["continuous_kl"] - 0.7)
    )
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    *_, loc, log_scale = encoder(x[:1])
    loc, log_scale = loc.numpy()[0], log_scale.numpy()[0]
    exact = np.sum(0.5 * (loc**2 + np.exp(2 * log_scale) - 1) - log_scale)
    values = terms["continuous_kl"].numpy()
    error = values.std() / np.sqrt(number)
    assert abs(values.mean() - exact) < 5 * error + 1e-5
    assert (values.std() > 0.01) == sampled


def test_digits_cut_at_a_half(example, tmp_path):
    """Cut once, they are the same in every epoch."""
    igr = example("reproduction.igr")
    found = igr._experiment("mnist", None, True, 2, "dense3", "threshold", "fixed_scale", 0)
    assert set(np.unique(found.train)) == {0.0, 1.0}
    (images, _), _ = example("datasets").load_images("mnist", smoke=True)
    np.testing.assert_array_equal(found.train, images[: len(found.train)] >= 0.5)
    batch = next(iter(example("datasets").image_batches(found.train, True, 0)))
    assert set(np.unique(batch)) == {0.0, 1.0}
    encoder = found.model("igr", 0.5, igr.PRIORS["program"]).encoder
    units = [layer.units for layer in encoder.layers if hasattr(layer, "units")]
    assert units[:3] == [784, 512, 256]


def test_one_gumbel(program):
    """The law of the relaxed unit: log odds of state - logit/t are Gumbel(0)/t."""
    layer = program.OneGumbelUnits("concrete", 2, 0.5).latent(seed=3)
    logits = tf.fill([20_000], 0.7)
    state = 0.5 * (layer(logits, training=True).numpy().astype("float64") + 1)
    inside = (state > 1e-6) & (state < 1 - 1e-6)
    noise = 0.5 * (np.log(state[inside]) - np.log1p(-state[inside])) - 0.7
    low, high = (stats.gumbel_r.cdf(0.5 * np.log(p / (1 - p)) - 0.7) for p in (1e-6, 1 - 1e-6))
    uniform = (stats.gumbel_r.cdf(noise) - low) / (high - low)
    assert stats.kstest(uniform, "uniform").pvalue > 1e-4


def test_logarithms_for_the_decoder(program, example):
    """The layer, and a model whose decoder stands behind it."""
    points = np.float32([[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]])
    expected = [[np.log(0.25), np.log(0.75), -69.0], [0.0, -69.0, -69.0]]
    np.testing.assert_allclose(program.LogCodes()(points), expected, rtol=1e-6)
    igr = example("reproduction.igr")
    options = {"dataset": "mnist", "latent": "concrete", "temperature": 0.67}
    cell = example("reproduction.cells").Cell
    context = example("reproduction.running").Context(smoke=True)
    _, plain = igr.start(cell("igr_vae", tuple(options.items()), 1, 0), context)
    options["decoder_reads"] = "log z"
    _, model = igr.start(cell("igr_vae", tuple(options.items()), 1, 0), context)
    codes = np.random.default_rng(0).dirichlet(np.ones(10), [2, 30]).astype("float32")
    np.testing.assert_allclose(
        model.decoder(codes), plain.decoder(np.log(codes)), rtol=1e-4, atol=1e-5
    )
