"""What clients may rely on: dtypes, names that last, and word of changes."""

import re
import subprocess
import sys
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.export.small import functional, load, vae
from tfconcrete.export.c_loader import run_separately
from tfconcrete.export.names import unique


def signature(path, name="serving_default"):
    """dtypes by name: of the inputs, and of the outputs."""
    found = tfc.export.inspect(path).signatures[name]
    return tuple(
        {key: tensor.dtype for key, tensor in tensors.items()}
        for tensors in (found.inputs, found.outputs)
    )


@keras.saving.register_keras_serializable("test_names")
class Text(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.lookup = keras.layers.StringLookup(vocabulary=["a", "b", "c"])
        self.embedding = keras.layers.Embedding(4, 5)
        self.z = tfc.ConcreteSample(name="z")

    def call(self, words):
        return self.z(self.embedding(self.lookup(words)))


class Table(keras.Model):
    """ids, a mask over the classes, and floats; and whether the floats count."""

    def __init__(self):
        super().__init__()
        self.embedding = keras.layers.Embedding(9, 5)
        self.z = tfc.ConcreteSample(name="z")

    def call(self, inputs, scale=None, training=None):
        logits = self.embedding(inputs["ids"]) + inputs["shift"][:, None]
        if scale is not None:
            logits *= keras.ops.cast(scale, "float32")[:, None, None]
        return self.z(logits, class_mask=inputs["keep"])


def test_strings_of_a_subclassed_model(tmp_path):
    model = Text()
    words = np.array([["a", "c"], ["b", "nothing"]])
    right = model(tf.constant(words)).numpy()
    path = tfc.export.save_discrete(model, tmp_path / "m")
    assert signature(path)[0] == {"words": "string"}
    answer = run_separately(path, {"a": ("serving_default", {"words": words})})["a"]
    np.testing.assert_array_equal(answer["z_codes"], right.argmax(-1))


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_ints_and_booleans_of_a_subclassed_model(tmp_path, dtype):
    model = Table()
    inputs = {
        "ids": np.array([[1, 2], [3, 4]], dtype),
        "keep": np.array([[[True, False, True, True, False]] * 2] * 2),
        "shift": np.zeros([2, 5], "float32"),
    }
    right = model(inputs).numpy()
    path = tfc.export.save_discrete(model, tmp_path / "m")
    assert signature(path)[0] == {"ids": dtype, "keep": "bool", "shift": "float32"}
    np.testing.assert_array_equal(load(path)(**inputs)["output_0"], right)


def test_dtypes_are_those_of_fit(tmp_path):
    class Classifier(keras.Model):
        def __init__(self):
            super().__init__()
            self.embedding = keras.layers.Embedding(9, 6)
            self.z = tfc.GapStraightThrough(name="z")
            self.out = keras.layers.Dense(2)

        def call(self, ids, training=None):
            z = self.z(self.embedding(ids), training=training)
            return self.out(keras.ops.mean(z, axis=1))

    model = Classifier()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss)
    x, y = np.ones([8, 3], np.int64), np.zeros([8], np.int64)
    model.fit(x, y, verbose=0)
    path = tfc.export.save_discrete(model, tmp_path / "m")
    assert signature(path)[0] == {"ids": "int64"}


def test_a_part_called_alone_before_the_whole(tmp_path):
    model = Text()
    model.z(tf.zeros([1, 5]))
    outer = Outer(model)
    outer(tf.constant([["a"]]))
    path = tfc.export.save_discrete(outer, tmp_path / "m")
    assert signature(path)[0] == {"inputs": "string"}


@keras.saving.register_keras_serializable("test_names")
class Gate(keras.Model):
    """Ids that pick a row, a flag that lets it through, floats: one of them at a time."""

    def __init__(self, kind, **kwargs):
        super().__init__(**kwargs)
        self.kind = kind
        if kind == "int32":
            self.embedding = keras.layers.Embedding(9, 4)
        self.z = tfc.ConcreteSample(name="z")

    def call(self, x):
        if self.kind == "int32":
            return self.z(self.embedding(x)[:, 0])
        if self.kind == "bool":
            return self.z(tf.where(x, 1.0, tf.constant([[0.0, 1.0]])))
        return self.z(x * 2.0)

    def get_config(self):
        return {**super().get_config(), "kind": self.kind}


@pytest.mark.parametrize("kind", ["string", "int32", "bool", "float32"])
def test_a_file_holds_no_dtypes(tmp_path, kind):
    """Floats are right without them; where they are not, the model must be called first."""
    x = {"string": np.array([["a"]]), "int32": [[3, 1]], "bool": [[True, False]]}
    batch = tf.constant(x.get(kind, [[0.5, 0.25]]))
    model = Text() if kind == "string" else Gate(kind)
    right = model(batch)
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    if kind != "float32":
        with pytest.raises(ValueError, match="dtypes of its inputs are unknown"):
            tfc.export.save_discrete(restored, tmp_path / "m")
        restored(batch)
    path = tfc.export.save_discrete(restored, tmp_path / "m")
    ((name, dtype),) = signature(path)[0].items()
    assert path.name == "1" and dtype == kind
    answer = load(path)(**{name: batch})
    np.testing.assert_array_equal(answer["output_0"], right)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "a", "a"], ["a", "a_1", "a_2"]),
        (["a", "a", "a_1"], ["a", "a_2", "a_1"]),
        (["a_1", "a", "a", "a_1"], ["a_1", "a", "a_2", "a_1_1"]),
    ],
)
def test_no_name_is_given_twice(names, expected):
    assert unique(names) == expected


class Outer(keras.Model):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def call(self, inputs):
        return self.inner(inputs)


def unnamed():
    """A functional model to which nobody gave a name."""
    a, b = keras.Input([4]), keras.Input([4])
    z = tfc.ConcreteSample()(keras.layers.Dense(4)(a) + b)
    other = tfc.ConcreteSample()(keras.layers.Dense(3)(b))
    return keras.Model([a, b], [z, keras.layers.Dense(2)(other)])


UNNAMED = (
    {"x_0", "x_1"},
    {"concrete_sample", "concrete_sample_codes", "concrete_sample_1_codes", "dense_2"},
)


def test_names_that_nobody_gave_stay(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        paths = [tfc.export.save_discrete(unnamed(), tmp_path / "m") for _ in range(2)]
    for path in paths:
        assert tuple(map(set, signature(path))) == UNNAMED


@pytest.mark.slow
def test_names_stay_in_another_process(tmp_path):
    code = (
        "import keras, tfconcrete as tfc; from tests.export.test_names import unnamed;"
        f"keras.layers.Dense(1); tfc.export.save_discrete(unnamed(), {str(tmp_path / 'm')!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert tuple(map(set, signature(tmp_path / "m"))) == UNNAMED


def test_names_stay_in_a_restored_model(tmp_path):
    model = unnamed()
    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    path = tfc.export.save_discrete(restored, tmp_path / "m")
    assert tuple(map(set, signature(path))) == UNNAMED


def test_one_input_and_a_sequential_model(tmp_path):
    def sequential():
        return keras.Sequential(
            [keras.Input([4]), keras.layers.Dense(6), tfc.ConcreteSample(), keras.layers.Dense(3)]
        )

    for _ in range(2):
        inputs, outputs = signature(tfc.export.save_discrete(sequential(), tmp_path / "m"))
        assert set(inputs) == {"x"} and set(outputs) == {"dense_1", "concrete_sample_codes"}


def test_names_of_a_vae_without_any(tmp_path):
    for _ in range(2):
        encoder = keras.Sequential([keras.Input([6]), keras.layers.Dense(4)])
        decoder = keras.Sequential([keras.Input([4]), keras.layers.Dense(6)])
        model = tfc.models.DiscreteVAE(encoder, decoder, tfc.ConcreteSample())
        path = tfc.export.save_discrete(model, tmp_path / "m")
        inputs, outputs = signature(path)
        assert set(inputs) == {"x"}
        assert set(outputs) == {"reconstruction", "concrete_sample_codes"}


def test_given_names_are_kept(tmp_path):
    inputs = keras.Input([4], name="image")
    z = tfc.ConcreteSample(name="digit_7")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2, name="scores_2")(z))
    found = signature(tfc.export.save_discrete(model, tmp_path / "m"))
    assert found == ({"image": "float32"}, {"scores_2": "float32", "digit_7_codes": "int32"})


def test_a_changed_signature_is_warned_of(tmp_path):
    tfc.export.save_discrete(functional(), tmp_path / "m")
    with pytest.warns(UserWarning, match="input 'image' of 'serving_default' is gone.*'photo'"):
        path = tfc.export.save_discrete(functional(name="photo"), tmp_path / "m")
    assert path.name == "2"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tfc.export.save_discrete(vae(), tmp_path / "m", new_signature=True)
    with pytest.warns(UserWarning, match="the signature 'decode' is gone"):
        tfc.export.save_discrete(functional(), tmp_path / "m")
    with pytest.raises(TypeError, match="`new_signature`"):
        tfc.export.save_discrete(functional(), tmp_path / "m", new_signature="yes")


def test_another_dtype_or_shape_is_warned_of(tmp_path):
    def model(size, dtype):
        inputs = keras.Input([size], dtype=dtype, name="x")
        logits = keras.layers.Dense(3)(keras.ops.cast(inputs, "float32"))
        return keras.Model(inputs, tfc.ConcreteSample(name="z")(logits))

    tfc.export.save_discrete(model(4, "float32"), tmp_path / "m")
    words = r"input 'x' .* was float32 \['\?', 4\] and is int32 \['\?', 5\]"
    with pytest.warns(UserWarning, match=words):
        tfc.export.save_discrete(model(5, "int32"), tmp_path / "m")


@pytest.mark.parametrize("call", [tf.numpy_function, tf.py_function])
def test_python_is_refused(tmp_path, call):
    class Python(keras.layers.Layer):
        def call(self, x):
            return tf.ensure_shape(call(lambda v: v, [x], tf.float32), x.shape)

    inputs = keras.Input([4], name="x")
    model = keras.Model(inputs, tfc.ConcreteSample(name="z")(Python()(inputs)))
    with pytest.raises(ValueError, match="calls back into Python"):
        tfc.export.save_discrete(model, tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_codes_that_are_none_decode_to_nan(tmp_path):
    """Also through a rectifier, which makes a number of a NaN."""
    decoder = keras.Sequential(
        [
            keras.Input([3, 4]),
            keras.layers.Flatten(),
            keras.layers.Dense(8, "relu"),
            keras.layers.Dense(12),
        ]
    )
    encoder = vae().encoder
    model = tfc.models.DiscreteVAE(encoder, decoder, tfc.ConcreteSample(name="z"))
    path = tfc.export.save_discrete(model, tmp_path / "m")
    codes = np.array([[0, 1, 2], [4, 0, 0], [-2, 0, 0], [-1, 3, 3]], np.int32)
    images = load(path, "decode")(codes=codes)["images"]
    assert np.isnan(images[1:3]).all() and np.isfinite(images[[0, 3]]).all()
    np.testing.assert_allclose(images[[0, 3]], model.decode(codes[[0, 3]]), atol=1e-6)


@pytest.mark.filterwarnings("ignore:When providing `inputs` as a dict")
@pytest.mark.parametrize("name", ["an image", "Gr\u00f6\u00dfe", "a:b", "a\\b", "_x", "-x", ""])
def test_names_that_no_graph_takes_are_refused(tmp_path, name):
    inputs = keras.Input([3])
    model = keras.Model({name: inputs}, tfc.ConcreteSample(name="z")(inputs))
    with pytest.raises(ValueError, match=f"its input {re.escape(repr(name))} has a name"):
        tfc.export.save_discrete(model, tmp_path / "m")
    assert not (tmp_path / "m").exists()


@pytest.mark.filterwarnings("ignore:When providing `inputs` as a dict")
def test_names_that_a_graph_takes(tmp_path):
    names = ["9", "a-b.c", "x>y", ".a", "B_"]
    inputs = {name: keras.Input([3]) for name in names}
    model = keras.Model(inputs, tfc.ConcreteSample(name="z")(sum(inputs.values())))
    path = tfc.export.save_discrete(model, tmp_path / "m")
    request = {name: np.array([[0, 2, 1]], np.float32) for name in names}
    answer = run_separately(path, {"a": ("serving_default", request)})["a"]
    assert answer["z_codes"].tolist() == [1]
