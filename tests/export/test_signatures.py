"""Names, shapes and codes of `serving_default`, for every way to write a Keras model."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.export.small import (
    CLASSES,
    FEATURES,
    VARIABLES,
    codes_of,
    functional,
    images,
    load,
    logits,
)


def shapes(tensors):
    return {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}


def test_functional(tmp_path):
    model = functional()
    path = tfc.export.save_discrete(model, tmp_path / "model")
    report = tfc.export.inspect(path).signatures["serving_default"]
    assert shapes(report.inputs) == {"image": ("float32", (None, FEATURES))}
    assert shapes(report.outputs) == {
        "out": ("float32", (None, 5)),
        "z_codes": ("int32", (None, VARIABLES)),
    }
    x = images(7)
    answer = load(path)(image=x)
    np.testing.assert_array_equal(answer["z_codes"], codes_of(model, x)[0])
    np.testing.assert_array_equal(answer["out"], model(x).numpy())


def test_lists_of_inputs_and_outputs_have_their_names(tmp_path):
    image = keras.Input([FEATURES], name="image")
    mask = keras.Input([CLASSES], dtype="bool", name="allowed")
    x = keras.layers.Dense(CLASSES)(image)
    z = tfc.ConcreteSample(name="choice")(x, class_mask=mask)
    model = keras.Model([image, mask], [z, keras.layers.Dense(2, name="value")(z)])
    path = tfc.export.save_discrete(model, tmp_path / "model")
    allowed = np.array([[False, True, False, True]] * 6)
    answer = load(path)(image=images(6), allowed=allowed)
    assert sorted(answer) == ["choice", "choice_codes", "value"]
    assert set(answer["choice_codes"]) <= {1, 3}
    np.testing.assert_array_equal(answer["value"], model([images(6), allowed])[1].numpy())


def test_dicts_are_named_by_their_keys(tmp_path):
    inputs = {name: keras.Input([4], name=name) for name in ("b", "a")}
    both = keras.layers.Concatenate()([inputs["b"], inputs["a"]])
    outputs = {"code": tfc.ConcreteSample(name="z")(both), "plain": both}
    path = tfc.export.save_discrete(keras.Model(inputs, outputs), tmp_path / "model")
    a, b = np.ones([2, 4], np.float32), np.zeros([2, 4], np.float32)
    answer = load(path)(a=a, b=b)
    assert sorted(answer) == ["code", "plain", "z_codes"]
    np.testing.assert_array_equal(answer["plain"], np.concatenate([b, a], 1))


def test_two_outputs_of_one_layer_get_different_names(tmp_path):
    inputs = keras.Input([4], name="x")
    twice = keras.layers.Dense(4, name="d")
    first = twice(inputs)
    z = tfc.ConcreteSample(name="z")(first)
    model = keras.Model(inputs, [first, twice(z)])
    path = tfc.export.save_discrete(model, tmp_path / "model")
    assert sorted(load(path)(x=np.ones([2, 4], np.float32))) == ["d", "d_1", "z_codes"]


@pytest.mark.parametrize("with_input", [True, False])
def test_sequential(tmp_path, with_input):
    layers = [keras.layers.Dense(CLASSES), tfc.GapStraightThrough(name="z")]
    if with_input:
        layers.insert(0, keras.Input([FEATURES], name="image"))
    model = keras.Sequential(layers)
    model(images(5))
    name = "image" if with_input else "x"
    path = tfc.export.save_discrete(model, tmp_path / "model")
    answer = load(path)(**{name: images(3)})
    np.testing.assert_array_equal(answer["z"], model(images(3)).numpy())
    np.testing.assert_array_equal(answer["z_codes"], answer["z"].argmax(-1))


def test_nested_models_and_several_calls_number_the_codes_in_call_order(tmp_path):
    inner = keras.Sequential([keras.Input([4]), tfc.ConcreteSample(name="z")])
    x = keras.Input([4], name="x")
    first = inner(x)
    second = inner(keras.layers.Lambda(lambda v: v[:, ::-1])(x))
    third = tfc.layers.StraightThrough(name="other")(x)
    model = keras.Model(x, keras.layers.Add(name="sum")([first, second, third]))
    path = tfc.export.save_discrete(model, tmp_path / "model")
    answer = load(path)(x=np.array([[0, 1, 2, 9]], np.float32))
    assert {name: value.tolist() for name, value in answer.items() if "codes" in name} == {
        "z_codes": [3],
        "z_codes_1": [0],
        "other_codes": [3],
    }


class Subclassed(keras.Model):
    """Calls its layers in a function, a loop and a branch."""

    def __init__(self, jit_compile=False):
        super().__init__()
        self.dense = keras.layers.Dense(FEATURES)
        self.z = tfc.ConcreteSample(name="z")
        self.deep = tfc.ConcreteSample(name="deep")
        self.inside = tf.function(lambda x: self.z(x), jit_compile=jit_compile)

    def call(self, x, training=None):
        x = self.dense(x)
        z = self.inside(x) + self.z(-x, training=training)
        _, z = tf.while_loop(
            lambda i, z: i < 2, lambda i, z: (i + 1, z + self.deep(self.dense(z * x))), [0, z]
        )
        z = tf.cond(tf.reduce_sum(z) > 0, lambda: self.deep(z), lambda: z)
        # What no output needs is left out, random or not.
        self.add_loss(tf.reduce_sum(tf.random.uniform([2])))
        self.z.seed_generator.next()
        return {"y": z, "same": x}


@pytest.mark.parametrize("jit_compile", [False, True])
def test_subclassed(tmp_path, jit_compile):
    model = Subclassed(jit_compile)
    x = images(5)
    model(x)
    path = tfc.export.save_discrete(model, tmp_path / "model")
    answer = load(path)(x=x)
    assert sorted(answer) == ["same", "y", "z_codes", "z_codes_1"]
    np.testing.assert_array_equal(answer["y"], model(x)["y"].numpy())
    dense = model.dense(x).numpy()
    np.testing.assert_array_equal(answer["z_codes"], dense.argmax(-1))
    np.testing.assert_array_equal(answer["z_codes_1"], dense.argmin(-1))
    report = tfc.export.inspect(path)
    assert report.servable and not report.signatures["serving_default"].random_ops


def test_a_compiled_function_with_control_flow_runs_without_xla(tmp_path):
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.z = tfc.ConcreteSample(name="z")

        @tf.function(jit_compile=True)
        def repeat(self, x):
            for _ in tf.range(2):
                x += self.z(x)
            return x

        def call(self, inputs):
            return self.repeat(inputs)

    model = Model()
    x = images(3)
    model(x)
    path = tfc.export.save_discrete(model, tmp_path / "model")
    assert tfc.export.inspect(path).servable
    np.testing.assert_array_equal(load(path)(inputs=x)["output_0"], model(x).numpy())


def test_structures_of_a_subclassed_model_are_named_by_argument_and_key(tmp_path):
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.z = tfc.ConcreteSample(name="z")

        def call(self, inputs):
            return self.z(inputs["a"] + inputs["b"]), inputs["a"]

    model = Model()
    x = images(3)
    model({"b": x, "a": x})
    path = tfc.export.save_discrete(model, tmp_path / "model")
    assert sorted(load(path)(a=x, b=x)) == ["output_0", "output_1", "z_codes"]


def test_the_arguments_of_a_subclassed_model_are_inputs(tmp_path):
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(CLASSES)
            self.z = tfc.ConcreteSample(name="z")

        def call(self, features, shift, words):
            z = self.z(self.dense(features) + keras.ops.cast(shift["by"], "float32"))
            return z, tf.strings.length(words)

    model, x = Model(), images(3)
    shift = {"by": tf.constant(np.arange(3 * CLASSES).reshape([3, CLASSES]), tf.int64)}
    words = tf.constant(["a", "bcd", ""])
    z, _ = model(x, shift, words=words)
    path = tfc.export.save_discrete(model, tmp_path / "model")
    inputs = tfc.export.inspect(path).signatures["serving_default"].inputs
    assert {name: (spec.dtype, spec.shape) for name, spec in inputs.items()} == {
        "features": ("float32", (None, FEATURES)),
        "shift_by": ("int64", (None, CLASSES)),
        "words": ("string", (None,)),
    }
    answer = load(path)(features=x, shift_by=shift["by"], words=words)
    np.testing.assert_array_equal(answer["z_codes"], np.argmax(z, axis=-1))
    np.testing.assert_array_equal(answer["output_1"], [1, 3, 0])


def test_the_layers_own_inference_mode_does_not_matter_and_stays(tmp_path):
    layer = tfc.ConcreteSample(name="z", inference="sample")
    model = functional(layer)
    state = layer.seed_generator.state.numpy()
    path = tfc.export.save_discrete(model, tmp_path / "model")
    assert layer.inference == "sample"
    np.testing.assert_array_equal(layer.seed_generator.state.numpy(), state)
    first, second = (load(path)(image=images(20))["z_codes"] for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", ["my-image", "a.b"])
def test_names_that_are_no_identifiers(tmp_path, name):
    path = tfc.export.save_discrete(functional(name=name), tmp_path / "model")
    assert list(tfc.export.inspect(path).signatures["serving_default"].inputs) == [name]


def test_a_fixed_batch_size_is_no_limit(tmp_path):
    inputs = keras.Input(batch_shape=[32, CLASSES], name="x")
    model = keras.Model(inputs, tfc.ConcreteSample(name="z")(inputs))
    path = tfc.export.save_discrete(model, tmp_path / "model")
    assert load(path)(x=np.ones([3, CLASSES], np.float32))["z"].shape == (3, CLASSES)


def test_strings_and_lookup_tables(tmp_path):
    words = keras.Input([2], dtype="string", name="words")
    index = keras.layers.StringLookup(vocabulary=["a", "b"])(words)
    z = tfc.ConcreteSample(name="z")(keras.layers.Embedding(3, CLASSES)(index))
    model = keras.Model(words, z)
    path = tfc.export.save_discrete(model, tmp_path / "model")
    x = np.array([["a", "b"], ["c", "a"]])
    np.testing.assert_array_equal(load(path)(words=x)["z"], model(tf.constant(x)).numpy())


def test_distribution_sample_gives_codes_and_no_random_op(tmp_path):
    def posterior(inputs):
        return tfc.distributions.Concrete(0.5, logits=inputs)

    def prior():
        return tfc.distributions.Concrete(0.5, logits=tf.zeros([CLASSES]))

    inputs = keras.Input([CLASSES], name="x")
    z = tfc.layers.DistributionSample(posterior, prior, name="z")(inputs)
    path = tfc.export.save_discrete(keras.Model(inputs, z), tmp_path / "model")
    x = np.array([[0, 3, 1, 2]], np.float32)
    assert load(path)(x=x)["z_codes"].tolist() == [1]


LAYERS = sorted(
    name
    for name in tfc.layers.__all__
    if isinstance(getattr(tfc.layers, name), type)
    and issubclass(getattr(tfc.layers, name), tfc.layers.SamplingLayer)
    and name != "SamplingLayer"
)


@pytest.mark.parametrize("name", LAYERS)
def test_every_sampling_layer(tmp_path, name):
    inputs = keras.Input([FEATURES], name="image")
    parameters = [logits(inputs), logits(inputs)] if name == "IGRSample" else logits(inputs)
    required = {"k": 2} if name == "SubsetSample" else {}
    model = keras.Model(inputs, getattr(tfc.layers, name)(name="z", **required)(parameters))
    path = tfc.export.save_discrete(model, tmp_path / "model")
    x = images(9)
    answer = load(path)(image=x)
    np.testing.assert_array_equal(answer["z"], model(x).numpy())
    np.testing.assert_array_equal(answer["z_codes"], codes_of(model, x)[0])
    assert answer["z_codes"].dtype == np.int32
