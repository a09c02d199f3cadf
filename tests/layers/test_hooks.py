"""The hook of a sampling layer: one for every room, and the promises that hold around it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

LOGITS = tf.constant([[0.5, -1.0, 2.0], [0.0, 3.0, -2.0]])
MASK = np.array([True, True, False])


class Noiseless(tfc.ConcreteSample):
    """softmax(logits / temperature), and a count of its calls."""

    calls = 0

    def relax(self, logits, temperature, class_mask=None, seed=None):
        type(self).calls += 1
        return tf.nn.softmax(logits / tf.cast(temperature, logits.dtype), axis=self.axis)


def dense(inputs, outputs):
    return keras.Sequential(
        [
            keras.Input(inputs),
            keras.layers.Flatten(),
            keras.layers.Dense(int(np.prod(outputs))),
            keras.layers.Reshape(outputs),
        ]
    )


@pytest.mark.parametrize("kl", ["density", "mass", "analytic"])
def test_models_train_by_an_overridden_hook(kl):
    class Hook(Noiseless):
        pass

    layer = Hook(0.7, seed=0)
    model = tfc.models.DiscreteVAE(dense((4,), (2, 3)), dense((2, 3), (4,)), layer, kl=kl)
    x = np.ones([8, 4], "float32")
    first = model.training_terms(tf.constant(x), None)
    assert Hook.calls == 1
    # Without noise, two steps on one batch have the same loss.
    second = model.training_terms(tf.constant(x), None)
    np.testing.assert_array_equal(first["loss"], second["loss"])
    logits = model.encoder(x)
    z = tf.nn.softmax(logits / 0.7)
    expected = -model.likelihood.log_prob(tf.constant(x), model.decoder(z))
    np.testing.assert_allclose(first["reconstruction"], expected, rtol=1e-5)
    model.compile("adam")
    model.fit(x, verbose=0)
    assert Hook.calls > 2


@pytest.mark.parametrize("make", [tfc.ConcreteSample, tfc.layers.BinConcreteSample])
def test_a_hook_put_on_one_layer_is_the_hook_of_models_too(make):
    def halves(logits, temperature, class_mask=None, seed=None):
        return tf.fill(tf.shape(logits), 0.5)

    layer = make(0.7, seed=0)
    layer.relax = halves
    np.testing.assert_array_equal(layer(LOGITS, training=True), np.full([2, 3], 0.5))
    np.testing.assert_allclose(layer.sample(LOGITS).value, np.full([2, 3], 0.5), rtol=1e-6)


def test_functional_models_calibration_and_diagnostics_use_the_hook():
    class Hook(Noiseless):
        pass

    layer = Hook(0.7, name="z")
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(3), layer])
    model.compile("sgd", "mse")
    x, y = np.ones([4, 4], "float32"), np.ones([4, 3], "float32")
    callback = tfc.callbacks.GradientDiagnostics((x, y), num_samples=2)
    history = model.fit(x, y, callbacks=[callback], verbose=0)
    assert Hook.calls >= 2 and history.history["gradient_variance"] == [0.0]
    with pytest.raises(ValueError, match="vertex"):
        # Equal logits without noise are never near a vertex.
        tfc.calibration.calibrate_temperature(layer, inputs=tf.zeros([1, 3]), num_samples=10)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("logit", [9.0, np.inf, np.nan])
@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_masks_hold_whatever_the_hook_does(training, logit, dtype):
    layer = Noiseless(0.5, inference="probs", dtype=dtype)
    logits = np.array(LOGITS)
    logits[:, 2] = logit
    logits = tf.Variable(logits)
    with tf.GradientTape() as tape:
        output = layer(logits, class_mask=MASK, training=training)
        loss = tf.reduce_sum(tf.cast(output, tf.float32) * [[1.0, 2.0, 3.0]])
    gradient = tf.convert_to_tensor(tape.gradient(loss, logits)).numpy()
    np.testing.assert_array_equal(output[:, 2], 0.0)
    np.testing.assert_allclose(tf.reduce_sum(tf.cast(output, tf.float32), -1), 1.0, atol=2e-3)
    np.testing.assert_array_equal(gradient[:, 2], 0.0)
    assert np.all(np.isfinite(gradient))
    nothing = layer(logits, class_mask=np.zeros(3, bool), training=training)
    np.testing.assert_array_equal(nothing, 0.0)


def test_a_missing_hook_names_itself():
    class Empty(tfc.layers.SamplingLayer):
        pass

    with pytest.raises(NotImplementedError, match=r"`Empty` must define\s+`relax\(self, logits"):
        Empty(1.0)(LOGITS, training=True)


def test_a_hook_of_another_shape_is_named():
    class Summed(tfc.layers.SamplingLayer):
        def relax(self, logits, temperature, class_mask=None, seed=None):
            return tf.reduce_sum(logits, self.axis)

    with pytest.raises(ValueError, match=r"`Summed.relax` must return .*\(2, 3\).*\(2,\)"):
        Summed(1.0)(LOGITS, training=True)


@pytest.mark.parametrize("kind", [tf.Variable, keras.Variable, np.asarray])
def test_logits_of_any_kind_train(kind):
    output = tfc.GapStraightThrough(seed=0)(kind(LOGITS), training=True)
    np.testing.assert_array_equal(np.sum(output, -1), 1.0)


@pytest.mark.parametrize("mask", [[True, True, True], [True, False, True]])
def test_policies_need_no_second_object(masked_layer, mask):
    """log_prob and entropy of every layer, in the space of its outputs."""
    layer = masked_layer.make(inference="sample", seed=3)
    inputs = masked_layer.inputs(LOGITS)
    mask = np.array(mask)
    sample = layer(inputs, class_mask=mask)
    log_prob = layer.log_prob(sample, inputs, class_mask=mask)
    entropy = layer.entropy(inputs, class_mask=mask)
    assert log_prob.shape == entropy.shape == ([2, 3] if masked_layer.is_binary else [2])
    layer.inference = "probs"
    probs = masked_layer.simplex(layer(inputs, class_mask=mask))
    if masked_layer.is_binary:
        value, probs = np.asarray(sample), np.where(mask, probs, 1e-30)
        expected = np.log(np.where(value > 0.5, probs, 1 - probs))
        entropies = -(probs * np.log(probs) + (1 - probs) * np.log(1 - probs))
    else:
        chosen = masked_layer.simplex(sample).astype(bool)
        expected = np.log(probs[chosen])
        entropies = -np.sum(probs * np.log(np.maximum(probs, 1e-30)), -1)
    exact = layer.variable.has_exact_probs
    np.testing.assert_allclose(log_prob, expected, **({"rtol": 1e-3} if exact else {"atol": 0.5}))
    np.testing.assert_allclose(
        entropy, entropies, **({"rtol": 1e-3, "atol": 1e-9} if exact else {"atol": 0.1})
    )


@pytest.mark.parametrize(
    "make", [tfc.ConcreteSample, lambda **kwargs: tfc.layers.SubsetSample(1, **kwargs)]
)
def test_samples_may_lead_a_class_axis_counted_from_the_front(make):
    logits = tf.random.stateless_normal([3, 4, 2], [0, 1])
    keep = tf.constant([True, False, True, True])[:, tf.newaxis]
    front, end = make(axis=1), make(axis=-2)
    samples = tf.stack([tf.roll(front(logits), shift, axis=1) for shift in range(5)])
    found = front.log_prob(samples, logits, class_mask=keep)
    np.testing.assert_array_equal(found, end.log_prob(samples, logits, class_mask=keep))
    for number in range(5):
        alone = front.log_prob(samples[number], logits, class_mask=keep)
        np.testing.assert_allclose(found[number], alone, rtol=1e-6)
