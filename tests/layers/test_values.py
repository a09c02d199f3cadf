"""Each layer gives the values and gradients of the function it is named after."""

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import tfconcrete as tfc
from tfconcrete._seeds import as_seed

L = tfc.layers
E = tfc.estimators
R = tfc.relaxations
LOGITS = tf.random.stateless_normal([64, 5], [3, 4])

# A layer, and the function with the arguments that the layer stands for.
PAIRS = [
    (L.ConcreteSample(0.7, seed=9), lambda x, s: R.concrete(x, 0.7, seed=s)),
    (
        L.ConcreteSample(0.7, hard=True, seed=9),
        lambda x, s: E.straight_through_gumbel_softmax(x, 0.7, seed=s),
    ),
    (L.ExpConcreteSample(0.7, seed=9), lambda x, s: R.exp_concrete(x, 0.7, seed=s)),
    (L.BinConcreteSample(0.7, seed=9), lambda x, s: R.bin_concrete(x, 0.7, seed=s)),
    (
        L.BinConcreteSample(0.7, hard=True, levels=(-1, 1), seed=9),
        lambda x, s: 2.0 * E.bin_concrete_straight_through(x, 0.7, seed=s) - 1.0,
    ),
    (L.StraightThrough(0.7, seed=9), lambda x, s: E.straight_through(x, 0.7, seed=s)),
    (L.GumbelRao(0.7, num_samples=7, seed=9), lambda x, s: E.gumbel_rao(x, 0.7, 7, seed=s)),
    (
        L.GapStraightThrough(0.7, gap=1.2, seed=9),
        lambda x, s: E.gapped_straight_through(x, 0.7, gap=1.2, seed=s),
    ),
    (
        L.GapStraightThrough(0.7, gap="pi", hard=False, seed=9),
        lambda x, s: E.gapped_straight_through(x, 0.7, gap="pi", hard=False, seed=s),
    ),
    (L.ReinMax(1.3, seed=9), lambda x, s: E.reinmax(x, 1.3, seed=s)),
    (L.SubsetSample(2, seed=9), lambda x, s: E.straight_through_k_subset(x, 2, seed=s)),
    (
        L.SubsetSample(2, 0.7, estimator="gumbel", seed=9),
        lambda x, s: E.straight_through_gumbel_top_k(x, 2, 0.7, seed=s),
    ),
    (
        L.SubsetSample(2, 0.7, hard=False, seed=9),
        lambda x, s: R.relaxed_k_subset(x, 2, 0.7, seed=s),
    ),
    (
        L.SubsetSample(2, 0.7, estimator="gumbel", hard=False, seed=9),
        lambda x, s: R.relaxed_top_k(x, 2, 0.7, seed=s),
    ),
]


@pytest.mark.parametrize(
    ("layer", "function"), PAIRS, ids=[f"{i}-{type(p[0]).__name__}" for i, p in enumerate(PAIRS)]
)
def test_layer_is_its_function(layer, function):
    weights = tf.random.stateless_normal([64, 5], [5, 6])
    layer.seed_generator.state.assign([9, 0])
    seed = as_seed(tf.constant([9, 0]))
    results = []
    for call in (lambda x: layer(x, training=True), lambda x: function(x, seed)):
        with tf.GradientTape() as tape:
            tape.watch(LOGITS)
            sample = call(LOGITS)
            loss = tf.reduce_sum(sample * weights)
        results.append((sample, tape.gradient(loss, LOGITS)))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


def test_exact_draws_follow_the_softmax(axis_layer):
    case = axis_layer
    logits = np.array([0.3, -1.0, 1.2, 0.0], np.float32)
    num = 20_000
    layer = case.make(inference="sample", seed=3)
    inputs = case.inputs(tf.tile(logits[None], [num, 1]))
    frequencies = case.simplex(layer(inputs)).mean(0)
    if case.is_igr:
        if case.name != "igr":
            return
        # Against the layer's own quadrature: noise of scale exp(-1).
        expected = case.make(inference="probs")(case.inputs(logits[None]))[0].numpy()
    else:
        expected = scipy.special.softmax(logits)
    error = np.sqrt(expected * (1 - expected) / num)
    np.testing.assert_array_less(np.abs(frequencies - expected), 4.5 * error + 1e-9)


@pytest.mark.parametrize("levels", [(0, 1), (-1, 1), (0.1, -0.3), (5, 7)])
@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_levels(levels, policy):
    layer = L.BinConcreteSample(
        0.3, hard=True, levels=levels, inference="sample", seed=0, dtype=policy
    )
    low, high = (np.asarray(level, layer.compute_dtype) for level in levels)
    logits = tf.random.stateless_normal([100, 3], [1, 2])
    mask = np.array([True, False, True])
    for training in (True, False):
        sample = layer(logits, class_mask=mask, training=training).numpy()
        assert not np.any(sample[:, 1])
        assert set(np.unique(sample[:, ::2])) == {float(low), float(high)}
        codes = layer.variable.codes_of(tf.constant(sample)).numpy()
        np.testing.assert_array_equal(codes[:, ::2], sample[:, ::2] == high)
        dropped = 0 if 0 in levels else -1
        assert np.all(codes[:, 1] == dropped)
    layer.inference = "argmax"
    expected = np.where(logits > 0, high, low)[:, ::2]
    np.testing.assert_array_equal(layer(logits).numpy()[:, ::2], expected)
    layer.inference = "probs"
    np.testing.assert_allclose(
        layer(logits).numpy(), scipy.special.expit(logits.numpy()), rtol=2e-3
    )


def test_levels_scale_the_gradient():
    logits = tf.random.stateless_normal([10], [1, 2])
    gradients = []
    for levels in ((0, 1), (-1, 1)):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            sample = L.BinConcreteSample(0.7, levels=levels, seed=1)(logits, training=True)
        gradients.append(tape.gradient(sample, logits))
    np.testing.assert_allclose(gradients[1], 2.0 * gradients[0], rtol=1e-5)


def test_log_one_hot():
    for policy in ("float32", "float64", "mixed_float16", "mixed_bfloat16"):
        layer = tfc.ExpConcreteSample(dtype=policy)
        output = layer(tf.constant([[1.0, 3.0, 2.0]]))
        assert np.all(np.isfinite(tf.cast(output, tf.float64)))
        np.testing.assert_array_equal(tf.cast(tf.exp(output), tf.float64), [[0.0, 1.0, 0.0]])
    layer = tfc.ExpConcreteSample(inference="probs")
    expected = scipy.special.log_softmax(LOGITS.numpy(), -1)
    np.testing.assert_allclose(layer(LOGITS), expected, rtol=1e-5, atol=1e-6)


def test_two_temperatures_need_no_second_layer():
    """A density at another temperature is a function of the sample, not of the layer."""
    layer = tfc.ExpConcreteSample(temperature=2 / 3, seed=0)
    y = layer(LOGITS, training=True)
    for temperature in (2 / 3, 1 / 2):
        density = R.exp_concrete_log_prob(y, temperature, tf.zeros_like(LOGITS))
        assert density.shape == [64] and np.all(np.isfinite(density))


def test_hypercube():
    layer = L.HypercubeCode(8)
    one_hot = tf.one_hot([[0, 1, 6], [7, 2, 5]], 8)
    bits = [[int(b) * 2 - 1 for k in row for b in f"{k:03b}"] for row in ([0, 1, 6], [7, 2, 5])]
    for training in (False, True):
        np.testing.assert_array_equal(layer(one_hot, training=training), bits)
    inputs = keras.Input([3, 8])
    model = keras.Model(inputs, layer(inputs))
    assert model.output_shape == (None, 9)
    again = keras.Model.from_config(model.get_config())
    np.testing.assert_array_equal(again(one_hot), bits)
    assert layer.compute_output_shape((None, None, 8)) == (None, None)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "float64"])
def test_centering(policy):
    """Appendix D.4, transcribed: subtract, then update; no gradient; frozen at inference."""
    layer = L.Centering(decay=0.8, dtype=policy)
    rng = np.random.default_rng(0)
    mean = np.zeros([2, 3])
    run = tf.function(lambda x: layer(x, training=True), jit_compile=True)
    for _ in range(4):
        x = rng.normal(size=[16, 2, 3]).astype(layer.compute_dtype)
        outputs = run(tf.constant(x))
        np.testing.assert_allclose(outputs, x - mean, atol=3e-3)
        mean = 0.8 * mean + 0.2 * x.astype(np.float64).mean(0)
    np.testing.assert_allclose(layer.mean.numpy(), mean, rtol=1e-4)
    frozen = layer.mean.numpy()
    layer(x)
    np.testing.assert_array_equal(layer.mean.numpy(), frozen)
    assert not layer.trainable_weights
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        outputs = layer(x, training=True)
    np.testing.assert_array_equal(tape.gradient(outputs, x), np.ones(x.shape))


def test_centering_shares_unknown_axes(tmp_path):
    inputs = keras.Input([None, 3])
    model = keras.Model(inputs, L.Centering(name="c")(inputs))
    model(np.ones([2, 5, 3]), training=True)
    assert model.get_layer("c").mean.shape == (1, 3)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again(np.ones([1, 4, 3])), np.full([1, 4, 3], 0.9), rtol=1e-6)


@pytest.mark.parametrize("compiled", [False, True])
def test_centering_keeps_its_mean_where_no_example_is_left(compiled):
    """As in a replica whose part of an uneven batch is empty."""
    layer = L.Centering(decay=0.8)
    run = tf.function(lambda x: layer(x, training=True), jit_compile=compiled)
    run(tf.ones([2, 3]))
    assert run(tf.zeros([0, 3])).shape == (0, 3)
    np.testing.assert_allclose(layer.mean.numpy(), np.full([3], 0.2), rtol=1e-6)
