"""The C++ loader, in a process that imports neither TensorFlow nor Keras nor tfconcrete."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.export.small import assert_same_but_for_ties, codes_of, vae
from tfconcrete.export import c_loader
from tfconcrete.export.c_loader import run_separately
from tfconcrete.export.graph import strip_xla

BATCHES = (1, 7, 1000)


def encoder():
    """An encoder of the papers' size, where half precision meets many near ties."""
    inputs = keras.Input([784], name="image")
    x = keras.layers.Dense(256, activation="relu")(inputs)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Reshape([30, 10])(keras.layers.Dense(300)(x))
    return keras.Model(inputs, tfc.ConcreteSample(name="z")(x))


# Where the processor has half precision, a session fuses a product with what follows and
# rounds once where Keras rounds twice: then logits may differ by a few of these.
ROUNDING = {"float32": 0.0, "mixed_float16": 2.0**-11, "mixed_bfloat16": 2.0**-8}


@pytest.mark.parametrize("policy", ROUNDING)
def test_the_same_codes_but_for_ties_of_half_precision(tmp_path, policy):
    keras.utils.set_random_seed(0)
    previous = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model = encoder()
    finally:
        keras.config.set_dtype_policy(previous)
    path = tfc.export.save_discrete(model, tmp_path / "model")
    rng = np.random.default_rng(0)
    inputs = {batch: rng.random([batch, 784], np.float32) for batch in BATCHES}
    requests = {str(b): ("serving_default", {"image": x}) for b, x in inputs.items()}
    answers = run_separately(path, requests)
    for batch, x in inputs.items():
        expected = codes_of(model, x)[0]
        codes = answers[str(batch)]["z_codes"]
        assert codes.shape == (batch, 30) and codes.dtype == np.int32
        logits = keras.Model(model.input, model.get_layer("z").input)(x).numpy()
        assert_same_but_for_ties(codes, expected, logits, 4 * ROUNDING[policy])
        np.testing.assert_array_equal(answers[str(batch)]["z"].argmax(-1), codes)
        assert answers[str(batch)]["z"].dtype == np.float32


def test_logits_that_are_no_numbers(tmp_path):
    """What a graph optimizer or a kernel makes of NaN is seen in the served graph alone."""
    inputs = keras.Input([2, 4], name="logits")
    outputs = (
        tfc.ConcreteSample(name="z")(inputs),
        tfc.ConcreteSample(name="masked")(
            inputs, class_mask=tf.constant([True, True, True, False])
        ),
    )
    path = tfc.export.save_discrete(keras.Model(inputs, outputs), tmp_path / "model")
    nan, inf = np.nan, np.inf
    logits = np.array(
        [
            [[0, 1, nan, 2], [0, 1, 2, nan]],
            [[-inf, inf, 3, -inf], [-inf, -inf, -inf, -inf]],
            [[nan, nan, nan, nan], [inf, inf, 0, inf]],
        ],
        np.float32,
    )
    request = {"odd": ("serving_default", {"logits": logits})}
    answer = run_separately(path, request)["odd"]
    np.testing.assert_array_equal(answer["z_codes"], [[-1, -1], [1, 0], [-1, 0]])
    np.testing.assert_array_equal(answer["masked_codes"], [[-1, 2], [1, 0], [-1, 0]])
    for name, kept in (("z", 4), ("masked", 3)):
        codes, states = answer[f"{name}_codes"], answer[name][..., :kept]
        assert np.isnan(states[codes == -1]).all()
        np.testing.assert_array_equal(states[codes >= 0], np.eye(kept)[codes[codes >= 0]])
    assert not answer["masked"][..., 3].any()


@pytest.mark.parametrize("latent", [None, tfc.layers.SubsetSample(2, name="z")])
def test_every_signature_of_a_vae(tmp_path, latent):
    model = vae(latent)
    path = tfc.export.save_discrete(model, tmp_path / "model")
    x = np.random.default_rng(0).random([5, 12], np.float32)
    seeds = np.arange(10, dtype=np.int32).reshape(5, 2)
    codes = model.encode(x)
    answers = run_separately(
        path,
        {
            "default": ("serving_default", {"image": x}),
            "codes": ("encode", {"image": x}),
            "images": ("decode", {"codes": codes}),
            "samples": ("generate", {"seeds": seeds}),
            "last": ("generate", {"seeds": seeds[4:]}),
        },
    )
    np.testing.assert_array_equal(answers["codes"]["codes"], codes)
    np.testing.assert_array_equal(answers["default"]["z_codes"], codes)
    np.testing.assert_allclose(answers["images"]["images"], model.decode(codes), atol=1e-6)
    np.testing.assert_allclose(
        answers["samples"]["images"], model._generate_function(seeds), atol=1e-6
    )
    np.testing.assert_allclose(
        answers["last"]["images"], answers["samples"]["images"][4:], atol=1e-6
    )


def test_xla_is_off_as_in_a_server(tmp_path):
    """What `inspect` calls a refusal is one here."""
    module = tf.Module()
    compiled = tf.function(lambda x: {"y": tf.exp(x) + 1}, jit_compile=True)
    outer = tf.function(compiled, input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    tf.saved_model.save(module, str(tmp_path / "1"), signatures=outer.get_concrete_function())
    assert "_XlaMustCompile" in tfc.export.inspect(tmp_path / "1").verdict
    request = {"a": ("serving_default", {"x": np.ones([2], np.float32)})}
    with pytest.raises(RuntimeError, match="XLA"):
        run_separately(tmp_path / "1", request)
    strip_xla(tmp_path / "1")
    assert tfc.export.inspect(tmp_path / "1").servable
    answer = run_separately(tmp_path / "1", request)["a"]["y"]
    np.testing.assert_allclose(answer, np.full([2], np.e + 1), rtol=1e-6)


STRINGS = [
    b"",
    b"plain",
    b"nul at the end\0\0",
    b"\0",
    "m\u00fc\u2713".encode(),
    b"x" * 5_000,
    b".",
]


@pytest.fixture(scope="module")
def strings(tmp_path_factory):
    """A SavedModel that takes and gives strings."""

    def call(words, number):
        return {
            "same": words,
            "joined": tf.strings.join([words, tf.strings.as_string(number)], "-"),
            "length": tf.strings.length(words),
        }

    path = tmp_path_factory.mktemp("strings") / "1"
    specs = [
        tf.TensorSpec([None, None], tf.string, name="words"),
        tf.TensorSpec([], tf.int64, name="number"),
    ]
    function = tf.function(call, input_signature=specs).get_concrete_function()
    tf.saved_model.save(tf.Module(), str(path), signatures=function)
    return path


def test_strings_go_in_and_come_out(strings):
    words = np.array([STRINGS, STRINGS[::-1]], object)
    request = {"words": words, "number": 2**40}
    answer = run_separately(strings, {"a": ("serving_default", request)})["a"]
    np.testing.assert_array_equal(answer["same"], words)
    assert answer["joined"][0, 2] == b"nul at the end\0\0-1099511627776"
    np.testing.assert_array_equal(answer["length"], [[len(w) for w in row] for row in words])
    assert answer["length"].dtype == np.int32


def test_strings_in_this_process(strings):
    # XLA stays as it is: the switch would be one for all tests that follow.
    model = c_loader.CSavedModel(strings, xla=True)
    for words in (["a", "b\u00fc"], np.array([b"a", "b\u00fc".encode()]), np.zeros([0], "S1")):
        answer = model.run("serving_default", {"words": [words], "number": 1})
        assert list(answer["same"][0]) == [
            w.encode() if isinstance(w, str) else bytes(w) for w in words
        ]
    with pytest.raises(TypeError, match="'words' takes strings"):
        model.run("serving_default", {"words": [[1.0]], "number": 1})
    with pytest.raises(TypeError, match="'number' takes int64, not float64"):
        model.run("serving_default", {"words": [["a"]], "number": 1.5})
    model.close()


def test_numbers_are_never_truncated(tmp_path):
    path = tfc.export.save_discrete(vae(), tmp_path / "model")
    model = c_loader.CSavedModel(path, xla=True)
    for codes in (np.full([1, 3], 2**40), np.full([1, 3], 0.5)):
        with pytest.raises(TypeError, match="'codes' takes int32"):
            model.run("decode", {"codes": codes})
    model.close()


def test_wrong_requests_are_named(tmp_path):
    path = tfc.export.save_discrete(vae(), tmp_path / "model")
    with pytest.raises(RuntimeError, match="No signature 'encoder'"):
        run_separately(path, {"a": ("encoder", {"x": np.ones(1)})})


def test_dtypes_are_those_of_the_header():
    for number, dtype in c_loader._DTYPES.items():
        assert tf.as_dtype(dtype).as_datatype_enum == number


def test_nuls_at_the_end_of_listed_strings(strings):
    """NumPy's own arrays of bytes drop them."""
    request = {"words": [[b"a\0", b"\0\0"]], "number": 1}
    answer = run_separately(strings, {"a": ("serving_default", request)})["a"]
    assert answer["length"].tolist() == [[2, 2]]
    model = c_loader.CSavedModel(strings, xla=True)
    assert model.run("serving_default", request)["length"].tolist() == [[2, 2]]
    model.close()
