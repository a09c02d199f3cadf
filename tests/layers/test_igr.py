"""IGRSample: what is its own, beside what every sampling layer owes."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc

IGR = tfc.distributions.IGR
LOC = np.random.default_rng(0).normal(size=(6, 2, 4)).astype(np.float32)
LOG_SCALE = np.full([6, 2, 4], -0.2, np.float32)
INPUTS = [tf.constant(LOC), tf.constant(LOG_SCALE)]
TRANSFORMS = ["softmax++", "stick_breaking", "interpolation", "flow", "sticks"]


def layer_for(transform, **kwargs):
    if transform == "flow":
        transform = tfc.bijectors.PlanarFlow.create(2, 4, scale=1.0, seed=0)
    elif transform == "sticks":
        transform = tfc.bijectors.StickBreaking()
    return tfc.IGRSample(transform, **{"temperature": 0.4, "seed": 3, **kwargs})


@pytest.fixture(params=TRANSFORMS)
def transform(request):
    return request.param


def test_training_output_is_the_distribution(transform):
    """Mean of many layer samples against the mean of the distribution's."""
    layer = layer_for(transform)
    many = [tf.repeat(x[:1, :1], 20_000, 0) for x in INPUTS]
    z = layer(many, training=True)[:, 0].numpy()
    law = IGR(LOC[0, 0], np.exp(LOG_SCALE[0, 0]), 0.4, layer.transform)
    other = law.sample(20_000, seed=1).numpy()
    error = np.sqrt((z.var(0) + other.var(0)) / 20_000)
    assert np.all(np.abs(z.mean(0) - other.mean(0)) < 5 * error + 1e-5)
    assert z.shape == (20_000, 5)


def test_inference_modes(transform):
    layer = layer_for(transform)
    point = IGR(LOC, np.exp(LOG_SCALE), 0.4, layer.transform).bijector.forward(LOC)
    np.testing.assert_array_equal(tf.argmax(layer(INPUTS), -1), tf.argmax(point, -1))
    layer.inference = "sample"
    draw = layer(INPUTS).numpy()
    assert set(np.unique(draw)) <= {0.0, 1.0} and np.all(draw.sum(-1) == 1)
    layer.inference = "probs"
    law = IGR(LOC, np.exp(LOG_SCALE), 0.4, layer.transform)
    expected = law.discrete(num_samples=5000, seed=0).probs_parameter()
    tolerance = 1e-5 if transform == "softmax++" else 5 * 0.5 * np.sqrt(1 / 1000 + 1 / 5000)
    np.testing.assert_allclose(layer(INPUTS), expected, atol=tolerance)


def test_class_mask_in_every_mode(transform):
    mask = np.array([True, False, True, True, False])
    bad = tf.where(mask[:4], LOC, np.nan)
    layer = layer_for(transform, kl_weight=1.0)
    with tf.GradientTape() as tape:
        tape.watch(bad)
        z = layer([bad, INPUTS[1]], class_mask=mask, training=True)
        value = tf.reduce_sum(z**2) + layer.losses[0]
    gradient = tape.gradient(value, bad).numpy()
    assert np.all(z.numpy()[..., ~mask] == 0) and np.all(gradient[..., 1] == 0)
    assert np.all(np.isfinite(gradient)) and np.any(gradient != 0)
    np.testing.assert_allclose(tf.reduce_sum(z, -1), 1, atol=1e-5)
    for mode in ("argmax", "sample", "probs"):
        layer.inference = mode
        out = layer([bad, INPUTS[1]], class_mask=mask).numpy()
        assert np.all(out[..., ~mask] == 0)
        np.testing.assert_allclose(out.sum(-1), 1, atol=1e-4)
        assert np.all(layer(INPUTS, class_mask=np.zeros(5, bool)).numpy() == 0)
    assert np.all(layer(INPUTS, class_mask=np.zeros(5, bool), training=True).numpy() == 0)


def test_masked_probs_are_those_of_the_kept():
    mask = np.array([True, False, True, True, True])
    layer = layer_for("softmax++", inference="probs")
    kept = np.flatnonzero(mask[:4])
    law = IGR(LOC[..., kept], np.exp(LOG_SCALE[..., kept]), 0.4)
    found = layer(INPUTS, class_mask=mask).numpy()[..., mask]
    np.testing.assert_allclose(found, law.discrete().probs_parameter(), atol=1e-5)


def test_kl_loss():
    layer = layer_for("softmax++")
    ones, twos = np.ones(4, np.float32), np.full(4, 2.0, np.float32)
    q = IGR(LOC, np.exp(LOG_SCALE), 0.4)
    standard = IGR(0 * ones, ones, 0.4)
    prior = IGR(ones, twos, 0.4)
    np.testing.assert_allclose(layer.kl_loss(INPUTS), q.kl_divergence(standard), rtol=1e-5)
    for given in (prior, (ones, twos), [1.0, 2.0]):
        found = layer.kl_loss(INPUTS, prior=given)
        np.testing.assert_allclose(found, q.kl_divergence(prior), rtol=1e-5)
    half = [tf.cast(x, tf.float16) for x in INPUTS]
    assert layer.kl_loss(half).dtype == tf.float32


def test_functional_model_gets_the_kl_as_a_loss():
    inputs = [keras.Input([2, 4]), keras.Input([2, 4])]
    layer = layer_for("softmax++", kl_weight=0.5, prior=(1.0, 2.0))
    model = keras.Model(inputs, keras.layers.Dense(3)(layer(inputs)))
    model.compile("sgd", "mse", jit_compile=True)
    model(INPUTS)
    expected = 0.5 * np.mean(np.sum(layer.kl_loss(INPUTS), 1))
    np.testing.assert_allclose(model.losses[0], expected, rtol=1e-5)
    history = model.fit(INPUTS, np.zeros([6, 2, 3]), verbose=0).history
    assert history["loss"][0] > expected


def test_trainable_flow_is_trained_and_saved(tmp_path):
    inputs = [keras.Input([2, 4]), keras.Input([2, 4])]
    layer = layer_for("flow")
    model = keras.Model(inputs, layer(inputs))
    assert len(layer.trainable_weights) == 3
    model.compile(keras.optimizers.SGD(1.0), "mse")
    before = [w.numpy() for w in layer.trainable_weights]
    model.fit(INPUTS, np.eye(5)[np.zeros([6, 2], int)], verbose=0)
    for old, new in zip(before, layer.trainable_weights, strict=True):
        assert np.any(old != new.numpy())
    path = tmp_path / "model.keras"
    model.save(path)
    again = keras.saving.load_model(path)
    np.testing.assert_array_equal(again(INPUTS, training=True), model(INPUTS, training=True))


def test_config_round_trip(transform):
    layer = layer_for(transform, delta=0.3, kl_weight=0.1, prior=(np.ones(4), 2.0), axis=-1)
    again = tfc.IGRSample.from_config(layer.get_config())
    np.testing.assert_array_equal(again(INPUTS, training=True), layer(INPUTS, training=True))
    np.testing.assert_array_equal(again.kl_loss(INPUTS), layer.kl_loss(INPUTS))
    assert again.delta == 0.3 and again.kl_weight == 0.1


def test_nested_bijector_config():
    chain = tfc.bijectors.SoftmaxPlusPlus(0.3, delta=0.2)
    flow = tfc.bijectors.PlanarFlow.create(2, 4, seed=1)
    layer = layer_for(tfp.bijectors.Chain([chain, flow]))
    assert len(layer.trainable_weights) == 3
    again = tfc.IGRSample.from_config(layer.get_config())
    np.testing.assert_allclose(again(INPUTS, training=True), layer(INPUTS, training=True))


def test_axis():
    layer, last = layer_for("softmax++", axis=1), layer_for("softmax++")
    moved = [tf.transpose(x, [0, 2, 1]) for x in INPUTS]
    assert layer(moved, training=True).shape == (6, 5, 2)
    np.testing.assert_array_equal(layer(moved), tf.transpose(last(INPUTS), [0, 2, 1]))
    np.testing.assert_allclose(layer.kl_loss(moved), last.kl_loss(INPUTS), rtol=1e-6)
    mask = np.array([True, True, False, True, True])
    out = layer(moved, class_mask=mask[:, None], training=True).numpy()
    assert np.all(out[:, 2] == 0)


def test_truncation_in_training():
    """Static shapes under XLA, exact zeros, gradients for the kept only, metrics."""
    inputs = [keras.Input([30]), keras.Input([30])]
    layer = tfc.IGRSample("stick_breaking", 0.2, precision=0.9, seed=0, name="z")
    model = keras.Model(inputs, layer(inputs))
    loc = tf.zeros([8, 30])
    with tf.GradientTape() as tape:
        tape.watch(loc)
        z = layer([loc, loc], training=True)
        value = tf.reduce_sum(z**2)
    gradient, kept = tape.gradient(value, loc).numpy(), z.numpy()[:, :-1] > 0
    assert np.all(gradient[~kept] == 0) and np.all(gradient[kept] != 0)
    assert 1 < kept.sum(-1).mean() < 15
    model.compile("sgd", "mse", jit_compile=True)
    logs = model.fit([loc, loc], np.zeros([8, 31]), verbose=0).history
    assert 0 < logs["z_truncated_mass"][0] < 0.1
    assert 1 <= logs["z_effective_classes"][0] < 15


def test_delta_moves_the_rounding():
    """With delta != 1 the noise-free argmax compares with temperature * log(delta)."""
    layer = tfc.IGRSample(temperature=1.0, delta=np.exp(1.0))
    assert layer([tf.constant([[0.9, 0.0]]), tf.zeros([1, 2])])[0, 2] == 1
    layer.temperature = 0.5
    assert layer([tf.constant([[0.9, 0.0]]), tf.zeros([1, 2])])[0, 0] == 1


@pytest.mark.parametrize(
    "kwargs, name",
    [
        ({"transform": "softmax"}, "transform"),
        ({"transform": 7}, "transform"),
        ({"delta": -1.0}, "delta"),
        ({"precision": 0.9}, "precision"),
        ({"transform": "stick_breaking", "precision": 2.0}, "precision"),
        ({"transform": "interpolation", "temperature": 1.5}, "temperature"),
        ({"kl_weight": -1.0}, "kl_weight"),
        ({"prior": 3}, "prior"),
        ({"prior": (0.0, -1.0)}, "prior"),
        ({"prior": IGR(np.zeros(3), np.ones(3), 0.1)}, "prior"),
        ({"inference": "mean"}, "inference"),
    ],
    ids=str,
)
def test_bad_arguments(kwargs, name):
    with pytest.raises((ValueError, TypeError), match=f"argument `{name}`"):
        tfc.IGRSample(**kwargs)


def test_bad_inputs():
    layer = tfc.IGRSample("interpolation", 0.5)
    with pytest.raises((ValueError, TypeError), match="loc, log_scale"):
        layer(INPUTS[0])
    with pytest.raises((ValueError, TypeError), match="log_scale"):
        layer([INPUTS[0], tf.zeros([6, 2, 3])])
    with pytest.raises((ValueError, TypeError), match="loc"):
        layer([tf.zeros([2, 3], tf.int32), tf.zeros([2, 3])])
    with pytest.raises(ValueError, match="class_mask"):
        layer(INPUTS, class_mask=np.ones(4, bool))
    with pytest.raises(ValueError, match="temperature"):
        layer.temperature = 2.0


def test_kl_options():
    assert [option.name for option in tfc.IGRSample().variable.kl_options] == ["gaussian"]
