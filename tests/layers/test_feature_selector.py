"""`FeatureSelector` and the distinct choices behind it."""

import itertools

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

import tfconcrete as tfc

R = tfc.relaxations
FeatureSelector = tfc.layers.FeatureSelector


def greedy(scores):
    """Each row's largest class that is left, by a loop."""
    found = []
    for row in scores:
        found.append(max(set(range(len(row))) - set(found), key=lambda i: (row[i], -i)))
    return found


@pytest.mark.parametrize("compiled", [False, True])
def test_distinct_argmax(compiled):
    scores = np.random.default_rng(0).integers(0, 4, [5, 7]).astype(np.float32)
    run = tf.function(R.distinct_argmax, jit_compile=True) if compiled else R.distinct_argmax
    rows = run(tf.constant(scores)).numpy()
    np.testing.assert_array_equal(rows.argmax(-1), greedy(scores))
    np.testing.assert_array_equal(rows.sum(-1), 1.0)
    assert rows.sum(0).max() == 1.0


def test_draws_follow_the_law_of_choices_in_turn():
    logits = np.array([[0.5, -0.5, 1.0, 0.0], [1.0, 0.0, -1.0, 0.3]], np.float32)
    draw = tf.function(lambda seed: R.distinct_concrete(logits, 0.5, hard=True, seed=seed))
    num = 2_000
    pairs = [tuple(draw(tf.constant([7, i])).numpy().argmax(-1)) for i in range(num)]
    expected = {}
    for first, second in itertools.permutations(range(4), 2):
        rest = np.delete(np.exp(logits[1]), first).sum()
        expected[first, second] = (
            scipy.special.softmax(logits[0])[first] * np.exp(logits[1][second]) / rest
        )
    counts = [pairs.count(pair) for pair in expected]
    assert sum(counts) == num
    probs = np.array(list(expected.values()), np.float64)
    assert scipy.stats.chisquare(counts, num * probs / probs.sum()).pvalue > 1e-5


def test_rows_are_masked_concrete_samples():
    """With what earlier rows drew as a mask, and the same gradient."""
    logits = tf.random.stateless_normal([3, 6], [0, 1])
    upstream = tf.random.stateless_normal([3, 6], [0, 2])
    results = []
    drawn = R.distinct_concrete(logits, 0.4, hard=True, seed=3).numpy()
    taken = np.cumsum(drawn, 0) - drawn
    for function in (
        lambda x: R.distinct_concrete(x, 0.4, seed=3),
        lambda x: R.distinct_concrete(x, 0.4, hard=True, seed=3),
        lambda x: R.concrete(x, 0.4, class_mask=taken == 0.0, seed=3),
    ):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            value = function(logits)
        results.append((value, tape.gradient(value, logits, upstream)))
    np.testing.assert_allclose(results[0][0], results[2][0], atol=1e-6)
    np.testing.assert_array_equal(results[1][0], drawn)
    for _, gradient in results[:2]:
        np.testing.assert_allclose(gradient, results[2][1], atol=1e-5)
    assert len(set(np.argmax(results[0][0], -1))) == 3


def test_modes():
    x = tf.random.stateless_normal([4, 3, 9], [0, 1])
    layer = FeatureSelector(5, temperature=0.2, hard=False, seed=0)
    assert layer(x).shape == [4, 3, 5]
    selected = layer.selected
    assert selected.dtype == np.int32 and len(set(selected)) == 5
    np.testing.assert_array_equal(selected, greedy(layer.logits.numpy()))
    np.testing.assert_array_equal(layer(x), x.numpy()[..., selected])
    relaxed = layer(x, training=True)
    assert relaxed.shape == [4, 3, 5] and not np.any(relaxed == layer(x, training=True))
    layer.inference = "sample"
    sample = layer(x).numpy()
    # One choice for all examples, made of the features themselves.
    places = [np.argmin(np.abs(x - sample[..., j : j + 1]).max((0, 1))) for j in range(5)]
    np.testing.assert_allclose(sample, x.numpy()[..., places], rtol=1e-6)
    assert len(set(places)) == 5
    unread = x.numpy()
    unread[..., 0] = np.nan
    draws = np.stack([layer(unread) for _ in range(20)])
    assert np.all(np.isnan(draws).any((1, 2)).sum(-1) <= 1), "a feature spoils its own output alone"
    layer.inference = "probs"
    probs = scipy.special.softmax(layer.logits.numpy(), -1)
    np.testing.assert_allclose(layer(x), x.numpy() @ probs.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_float16", "float32", "float64"])
def test_dtypes_gradients_and_xla(policy):
    layer = FeatureSelector(3, dtype=policy, seed=0)
    x = tf.random.stateless_normal([8, 6], [0, 1])

    @tf.function(jit_compile=True)
    def run(x):
        with tf.GradientTape() as tape:
            output = layer(x, training=True)
            loss = tf.reduce_sum(tf.cast(output, tf.float32) ** 2)
        return output, tape.gradient(loss, layer.trainable_variables), layer(x)

    layer.build([8, 6])
    output, [gradient], discrete = run(x)
    assert output.dtype == discrete.dtype == layer.compute_dtype
    assert gradient.shape == [3, 6] and np.any(gradient != 0) and np.all(np.isfinite(gradient))
    unselected = tf.tensor_scatter_nd_update(
        x, [[0, next(iter(set(range(6)) - set(layer.selected)))]], [float("nan")]
    )
    assert np.all(np.isfinite(tf.cast(layer(unselected), tf.float32)))


@pytest.mark.slow
def test_finds_the_features_that_matter():
    rng = np.random.default_rng(0)
    x = rng.normal(size=[2_000, 12]).astype(np.float32)
    y = np.stack([x[:, 2] + x[:, 7], x[:, 7] - 2 * x[:, 9]], -1)
    keras.utils.set_random_seed(1)
    schedule = tfc.schedules.ExponentialAnnealing(5.0, 0.1, 0.01)
    selector = FeatureSelector(3, temperature=schedule, seed=0)
    model = keras.Sequential([keras.Input([12]), selector, keras.layers.Dense(2)])
    model.compile(keras.optimizers.Adam(0.03), "mse", jit_compile=True)
    model.fit(x, y, batch_size=100, epochs=30, verbose=0)
    assert sorted(selector.selected) == [2, 7, 9]
    assert model.evaluate(x, y, verbose=0) < 0.05
    assert float(selector.temperature.numpy()) == pytest.approx(0.1)


def test_keras_files_and_serving(tmp_path):
    schedule = tfc.schedules.ExponentialAnnealing(5.0, 0.1, 0.01)
    inputs = keras.Input([9], name="x")
    selector = FeatureSelector(4, schedule, hard=False, seed=2, name="selector")
    model = keras.Model(inputs, keras.layers.Dense(2, name="out")(selector(inputs)))
    x = np.random.default_rng(0).normal(size=[5, 9]).astype(np.float32)
    model(x, training=True)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    restored = again.get_layer("selector")
    np.testing.assert_array_equal(restored.selected, selector.selected)
    np.testing.assert_array_equal(again(x), model(x))
    np.testing.assert_array_equal(again(x, training=True), model(x, training=True))
    path = tfc.export.save_discrete(model, tmp_path / "served")
    answer = tf.saved_model.load(str(path)).signatures["serving_default"](x=tf.constant(x))
    np.testing.assert_allclose(answer["out"], model(x), rtol=1e-5, atol=1e-6)
    codes = answer["selector_codes"]
    np.testing.assert_array_equal(codes, np.tile(selector.selected, [5, 1]))


def test_errors():
    x = tf.zeros([2, 4])
    with pytest.raises(ValueError, match="from 1 to 3, of 4 classes"):
        FeatureSelector(4)(x)
    with pytest.raises(ValueError, match="argument `k`"):
        FeatureSelector(0)
    with pytest.raises(ValueError, match="has not seen features"):
        _ = FeatureSelector(2).selected
    with pytest.raises(TypeError, match="floating-point"):
        FeatureSelector(2)(tf.zeros([2, 4], tf.int32))
    with pytest.raises(ValueError, match=r"shape \[k, num_classes\]"):
        R.distinct_argmax(tf.zeros([4, 3]))


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_a_nan_among_the_logits_is_a_nan_output(mode):
    """Of that selector alone; its index is -1, and no feature stands in for it."""
    selector = FeatureSelector(3, hard=False, seed=0)
    x = tf.constant(np.random.default_rng(0).normal(size=[4, 6]), tf.float32)
    selector(x)
    logits = np.random.default_rng(1).normal(size=[3, 6]).astype(np.float32)
    logits[1, 4] = np.nan
    selector.logits.assign(logits)
    expected = greedy(logits[[0, 2]])
    np.testing.assert_array_equal(selector.selected, [expected[0], -1, expected[1]])
    wrap = {
        "eager": lambda f: f,
        "graph": tf.function,
        "xla": lambda f: tf.function(f, jit_compile=True),
    }[mode]
    output = wrap(lambda x: selector(x))(x).numpy()
    np.testing.assert_array_equal(np.isnan(output), [[False, True, False]] * 4)
    np.testing.assert_array_equal(output[:, [0, 2]], x.numpy()[:, expected])
    relaxed = wrap(lambda x: selector(x, training=True))(x).numpy()
    np.testing.assert_array_equal(np.isnan(relaxed), [[False, True, False]] * 4)
    for inference in ("sample", "probs"):
        other = FeatureSelector(3, inference=inference, seed=0)
        other(x)
        other.logits.assign(logits)
        found = wrap(lambda x, other=other: other(x))(x).numpy()
        np.testing.assert_array_equal(np.isnan(found), [[False, True, False]] * 4)


def test_selected_features_without_gradient_warn():
    selector = FeatureSelector(2, seed=0, name="features")
    x = tf.ones([3, 5])
    selector(x)
    with pytest.warns(UserWarning, match="'features' is in argmax mode"), tf.GradientTape() as tape:
        output = selector(x)
    assert tape.gradient(output, selector.logits) is None


@pytest.mark.parametrize("source", ["plain", "scheduled"])
@pytest.mark.parametrize("target", ["plain", "scheduled"])
def test_weights_move_with_and_without_a_schedule(source, target, tmp_path):
    def make(kind):
        schedule = tfc.schedules.ExponentialAnnealing(1.0, 0.1, 0.1)
        temperature = 0.3 if kind == "plain" else schedule
        inputs = keras.Input([5])
        return keras.Model(inputs, FeatureSelector(2, temperature, name="f")(inputs))

    one, other = make(source), make(target)
    one.get_layer("f").logits.assign(np.arange(10.0).reshape(2, 5))
    one.save_weights(tmp_path / "w.weights.h5")
    other.load_weights(tmp_path / "w.weights.h5")
    layer = other.get_layer("f")
    np.testing.assert_array_equal(layer.logits, np.arange(10.0).reshape(2, 5))
    np.testing.assert_allclose(
        layer.temperature.numpy(), one.get_layer("f").temperature.numpy(), rtol=1e-6
    )


@pytest.mark.parametrize("make", [lambda x: [x, x], lambda x: {"a": x}])
def test_several_tensors_are_named(make):
    with pytest.raises(TypeError, match="`inputs`. Expected one dense float tensor"):
        FeatureSelector(2)(make(tf.zeros([2, 5])))
