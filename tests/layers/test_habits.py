"""What a Keras user does without thinking."""

import io
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc


def test_summary_shows_the_temperature():
    model = keras.Sequential([keras.Input([3]), tfc.ConcreteSample(name="z")])
    lines = io.StringIO()
    model.summary(print_fn=lambda line: lines.write(line + "\n"))
    assert "Trainable params: 0" in lines.getvalue()
    assert "Non-trainable params: 1 (4.00 B)" in lines.getvalue()
    model.get_layer("z").temperature.assign(0.1)
    assert model.get_layer("z").temperature.numpy() == np.float32(0.1)


def test_sequential(compiled_layer):
    if compiled_layer.is_igr or compiled_layer.name == "distribution_one_hot":
        pytest.skip("takes two inputs, or has no gradient")
    model = keras.Sequential([keras.layers.Dense(4), compiled_layer.make(seed=0)])
    model.compile("sgd", "mse")
    x, y = np.ones([8, 3], "float32"), np.ones([8, 4], "float32")
    history = model.fit(x, y, sample_weight=np.linspace(0, 1, 8), verbose=0)
    assert np.isfinite(history.history["loss"][0])
    assert model.output_shape == (8, 4) or model.output_shape == (None, 4)


def test_clone_and_json(any_layer):
    inputs = any_layer.symbolic(4)
    model = keras.Model(inputs, any_layer.make(seed=3, name="z")(inputs))
    values = any_layer.inputs(tf.random.stateless_normal([5, 4], [0, 1]))
    expected = model(values, training=True)
    for copy in (keras.models.clone_model(model), keras.models.model_from_json(model.to_json())):
        np.testing.assert_array_equal(copy(values, training=True), expected)


def test_output_shapes(any_layer):
    inputs = any_layer.symbolic(4)
    layer = any_layer.make(dtype="mixed_bfloat16")
    outputs = layer(inputs)
    assert outputs.shape == (None, 4) and outputs.dtype == "bfloat16"
    if any_layer.has_mask:
        shape = [(None, 3)] * 2 if any_layer.is_igr else (None, 4)
        assert layer.compute_output_shape(shape) == (None, 4)
        name = "params_shape" if any_layer.is_igr else "logits_shape"
        assert layer.compute_output_shape(**{name: shape}, class_mask_shape=(4,)) == (None, 4)


def test_time_distributed():
    inputs = keras.Input([5, 4])
    layer = keras.layers.TimeDistributed(tfc.GapStraightThrough(seed=0))
    model = keras.Model(inputs, layer(inputs))
    logits = tf.zeros([3, 5, 4])
    sample = model(logits, training=True).numpy()
    np.testing.assert_array_equal(sample.sum(-1), 1.0)
    assert len(np.unique(sample, axis=1)[0]) > 1, "every step draws its own noise"
    np.testing.assert_array_equal(model(logits).numpy().argmax(-1), 0)


def test_sequence_masks_pass_through():
    """An Embedding with mask_zero before, an LSTM after: padding must not matter."""
    inputs = keras.Input([None], dtype="int32")
    embedded = keras.layers.Embedding(10, 4, mask_zero=True)(inputs)
    codes = tfc.ConcreteSample(seed=0)(embedded, class_mask=np.array([True, True, True, False]))
    outputs = keras.layers.LSTM(3)(codes)
    model = keras.Model(inputs, outputs)
    short = model(np.array([[4, 5, 6]]))
    padded = model(np.array([[4, 5, 6, 0, 0]]))
    np.testing.assert_allclose(short, padded, rtol=1e-6)
    x = np.array([[4, 5, 0], [1, 0, 0]])
    embedded = model.layers[1](x)
    passed = model.layers[2](embedded, training=True)
    np.testing.assert_array_equal(keras.src.backend.get_keras_mask(passed), x != 0)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("axis", [1, -2])
@pytest.mark.parametrize("make", [tfc.ConcreteSample, tfc.IGRSample])
def test_a_choice_over_time_leaves_out_the_padding(make, axis, training):
    tokens = keras.Input([4], dtype="int32")
    words = keras.layers.Embedding(5, 3, mask_zero=True)(tokens)
    layer = make(axis=axis, seed=0)
    is_igr = make is tfc.IGRSample
    model = keras.Model(tokens, layer([words, words] if is_igr else words))
    choice = model(np.array([[1, 2, 0, 0], [3, 0, 0, 0]]), training=training).numpy()
    assert choice.shape == (2, 5 if is_igr else 4, 3)
    padding = np.array([[False, False, True, True], [False, True, True, True]])
    assert np.all(choice[:, :4][padding] == 0.0)
    np.testing.assert_allclose(choice.sum(1), 1.0, rtol=1e-5)


def test_the_kl_of_a_choice_over_time_counts_no_padding():
    tokens = keras.Input([4], dtype="int32")
    words = keras.layers.Embedding(5, 3, mask_zero=True)(tokens)
    model = keras.Model(tokens, tfc.IGRSample(axis=1, kl_weight=1.0)([words, words]))
    x = np.array([[1, 2, 0, 0]])
    model(x)
    loc = model.layers[1].embeddings.numpy()[x[0, :2]]
    expected = np.sum(0.5 * (np.exp(2 * loc) + loc**2 - 1) - loc)
    np.testing.assert_allclose(sum(model.losses), expected, rtol=1e-4)


def test_fit_on_datasets_with_nested_models():
    encoder = keras.Sequential([keras.Input([6]), keras.layers.Dense(4), tfc.ConcreteSample()])
    inputs = keras.Input([6])
    model = keras.Model(inputs, keras.layers.Dense(1)(encoder(inputs)))
    model.compile("adam", "mse")
    x = np.random.default_rng(0).normal(size=[32, 6]).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(8)
    model.fit(data, epochs=1, validation_data=data, shuffle=False, verbose=0)
    assert [layer.name for layer in tfc.layers.sampling_layers(model)] == [encoder.layers[-1].name]


def test_subclassed_models():
    class Bottleneck(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(4)
            self.z = tfc.GapStraightThrough()
            self.out = keras.layers.Dense(2)

        def call(self, x, training=None):
            return self.out(self.z(self.dense(x)))

    model = Bottleneck()
    model.compile("adam", "mse")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "Gradients do not exist for variables"
        model.fit(np.ones([8, 3]), np.ones([8, 2]), verbose=0)
    assert tfc.layers.sampling_layers(model) == [model.z]


@pytest.mark.slow
def test_a_discrete_bottleneck_learns():
    """Gradients reach the encoder: eight corners of a cube through eight classes."""
    keras.utils.set_random_seed(0)
    corners = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, 8).T.astype("float32")
    x = np.repeat(corners, 32, 0)
    inputs = keras.Input([3])
    z = tfc.GapStraightThrough(temperature=1.0)(keras.layers.Dense(8)(inputs))
    model = keras.Model(inputs, keras.layers.Dense(3)(z))
    model.compile(keras.optimizers.Adam(0.05), "mse")
    before = model.evaluate(x, x, verbose=0)
    model.fit(x, x, batch_size=64, epochs=30, verbose=0)
    assert model.evaluate(x, x, verbose=0) < 0.5 * before
