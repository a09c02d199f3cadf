"""A mode holds everywhere at the next call, or says why it cannot."""

import gc
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

# Whoever changes a mode collects garbage first.
pytestmark = pytest.mark.usefixtures("only_new_garbage")
X = np.array([[0.0, 1.0, 2.0], [3.0, 1.0, 0.0]], np.float32)


def make(jit_compile=False, **kwargs):
    layer = tfc.ConcreteSample(seed=0, name="z", **kwargs)
    inputs = keras.Input([3])
    model = keras.Model(inputs, layer(inputs))
    model.compile(loss="mse", jit_compile=jit_compile)
    return layer, model


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_new_mode_holds_in_compiled_functions(jit_compile):
    layer, model = make(jit_compile)
    probs = tf.nn.softmax(X).numpy()
    one_hot = np.eye(3)[[2, 0]]
    zeros = np.zeros([2, 3])
    np.testing.assert_array_equal(model.predict(X, verbose=0), one_hot)
    first = model.evaluate(X, zeros, verbose=0)
    layer.inference = "probs"
    np.testing.assert_allclose(model.predict(X, verbose=0), probs, rtol=1e-5)
    np.testing.assert_allclose(model.evaluate(X, zeros, verbose=0), np.mean(probs**2), rtol=1e-5)
    with tfc.layers.inference_mode(model, "argmax"):
        np.testing.assert_array_equal(model.predict(X, verbose=0), one_hot)
        np.testing.assert_allclose(model.evaluate(X, zeros, verbose=0), first)
    np.testing.assert_allclose(model.predict(X, verbose=0), probs, rtol=1e-5)
    np.testing.assert_allclose(model.predict(X[:1], verbose=0), probs[:1], rtol=1e-5)


def test_one_predict_has_one_mode():
    """A last batch of another size is traced later, and must not see another mode."""
    layer, model = make()
    model.predict(X, batch_size=2, verbose=0)
    layer.inference = "probs"
    found = model.predict(np.concatenate([X, X[:1]]), batch_size=2, verbose=0)
    np.testing.assert_allclose(found, tf.nn.softmax(np.concatenate([X, X[:1]])), rtol=1e-5)


def test_a_function_of_the_user_is_not_left_behind():
    layer, model = make()
    function = tf.function(lambda x: model(x))
    function(X)
    with pytest.raises(ValueError, match="tf.function"):
        layer.inference = "probs"
    with pytest.raises(ValueError, match="tf.function"), tfc.layers.inference_mode(model, "probs"):
        pass
    np.testing.assert_array_equal(function(X), np.eye(3)[[2, 0]])
    del function
    gc.collect()
    layer.inference = "probs"
    np.testing.assert_allclose(model(X), tf.nn.softmax(X), rtol=1e-5)


@pytest.mark.parametrize("mode", ["argmax", "sample", "probs"])
@pytest.mark.parametrize("keep", ["function", "concrete function", "nothing"])
def test_a_function_that_nobody_holds_stops_no_change(mode, keep):
    """TensorFlow keeps graphs with custom gradients for good; what counts is who can call."""
    layer = tfc.ConcreteSample(seed=0, inference=mode)
    function = tf.function(lambda logits: layer(logits))
    function(tf.zeros([2, 3]))
    held = function.get_concrete_function(tf.TensorSpec([2, 3]))
    if keep != "function":
        del function
    if keep == "nothing":
        del held
    other = "probs" if mode == "argmax" else "argmax"
    if keep == "nothing":
        layer.inference = other
        assert layer.inference == other
    else:
        with pytest.raises(ValueError, match="let go of"):
            layer.inference = other
        assert layer.inference == mode


def test_a_function_traced_inside_a_context_is_named():
    layer, model = make()
    function = tf.function(lambda x: model(x))
    kept = pytest.warns(UserWarning, match="keeps layer 'z' at probs")
    with kept, tfc.layers.inference_mode(model, "probs"):
        function(X)


def test_models_of_the_package_follow_the_context():
    encoder = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
    decoder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model = tfc.models.DiscreteVAE(encoder, decoder, tfc.ConcreteSample(seed=0))
    model.compile("adam")
    x = (X > 0.5).astype("float32")
    before = model.predict(x, verbose=0)
    with tfc.layers.inference_mode(model, "probs"):
        inside = model.predict(x, verbose=0)
    expected = tf.sigmoid(decoder(tf.nn.softmax(encoder(x))))
    np.testing.assert_allclose(inside, expected, rtol=1e-5)
    np.testing.assert_array_equal(model.predict(x, verbose=0), before)


class WithoutTraining(keras.Model):
    """The mistake: a `call` that takes no `training`."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(3)
        self.sample = tfc.GapStraightThrough(name="choice", seed=0)
        self.out = keras.layers.Dense(3)

    def call(self, x):
        return self.out(self.sample(self.dense(x)))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_gradient_through_an_argmax_warns_once(jit_compile):
    model = WithoutTraining()
    model.compile("sgd", "mse", jit_compile=jit_compile)
    with pytest.warns(UserWarning, match="'choice' is in argmax mode"):
        model.fit(X, np.zeros([2, 3]), verbose=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*argmax mode.*")
        model.fit(X, np.zeros([2, 3]), verbose=0)


def test_a_tape_loop_without_training_warns():
    _, model = make()
    weight = tf.Variable(1.0)
    with pytest.warns(UserWarning, match="argmax mode"), tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(X * weight) ** 2)
    assert tape.gradient(loss, weight) is None


@pytest.mark.parametrize("kind", [tf.Variable, keras.Variable])
@pytest.mark.parametrize("in_function", [False, True])
def test_a_variable_as_logits_without_training_warns(kind, in_function):
    layer, logits = tfc.ConcreteSample(seed=0), kind(X)

    def run():
        with tf.GradientTape():
            return tf.reduce_sum(layer(logits) ** 2)

    with pytest.warns(UserWarning, match="argmax mode"):
        (tf.function(run) if in_function else run)()


def test_inference_under_a_tape_does_not_warn():
    _, model = make()
    decoder, weight = tf.Variable(tf.ones([3, 1])), tf.Variable(1.0)
    with warnings.catch_warnings(), tf.GradientTape() as tape:
        warnings.simplefilter("error")
        loss = tf.reduce_sum(model(X) @ decoder)
        loss += tf.reduce_sum(model(X * weight, training=False) @ decoder)
        assert tape.gradient(loss, decoder) is not None


class Defaulting(WithoutTraining):
    """A tape loop that calls this as `model(x)` has not said that it does not train."""

    def call(self, x, training=False):
        return self.out(self.sample(self.dense(x), training=training))


def test_a_default_of_training_is_no_word_of_the_user():
    model = Defaulting()
    model(X)
    with warnings.catch_warnings(), tf.GradientTape():
        warnings.simplefilter("error")
        model(X, training=False)
        model(X, training=True)
    with pytest.warns(UserWarning, match="'choice' is in argmax mode"), tf.GradientTape():
        model(X)


def test_a_model_of_the_package_under_a_tape_warns():
    encoder = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
    decoder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model = tfc.models.DiscreteVAE(encoder, decoder, tfc.ConcreteSample(name="z"))
    with pytest.warns(UserWarning, match="'z' is in argmax mode"), tf.GradientTape():
        model(X)


def test_a_frozen_model_does_not_warn_unless_it_stands_behind_weights():
    _, model = make()
    frozen = keras.Sequential([keras.Input([3]), keras.layers.Dense(3), model])
    frozen.trainable = False
    weight = tf.Variable(1.0)
    with warnings.catch_warnings(), tf.GradientTape():
        warnings.simplefilter("error")
        frozen(X)
    with pytest.warns(UserWarning, match="argmax mode"), tf.GradientTape():
        frozen(X * weight)
