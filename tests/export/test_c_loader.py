"""The C++ loader, in a process that imports neither TensorFlow nor Keras nor tfconcrete."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.export.small import codes_of, vae
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


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_the_same_codes_bit_for_bit(tmp_path, policy):
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
        np.testing.assert_array_equal(codes, expected)
        np.testing.assert_array_equal(answers[str(batch)]["z"].argmax(-1), expected)
        assert answers[str(batch)]["z"].dtype == np.float32


def test_every_signature_of_a_vae(tmp_path):
    model = vae()
    path = tfc.export.save_discrete(model, tmp_path / "model")
    x = np.random.default_rng(0).random([5, 12], np.float32)
    seeds = np.arange(10, dtype=np.int32).reshape(5, 2)
    codes = model.encode(x)
    answers = run_separately(path, {
        "default": ("serving_default", {"image": x}),
        "codes": ("encode", {"image": x}),
        "images": ("decode", {"codes": codes}),
        "samples": ("generate", {"seeds": seeds}),
        "last": ("generate", {"seeds": seeds[4:]}),
    })  # fmt: skip
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


def test_wrong_requests_are_named(tmp_path):
    path = tfc.export.save_discrete(vae(), tmp_path / "model")
    with pytest.raises(RuntimeError, match="No signature 'encoder'"):
        run_separately(path, {"a": ("encoder", {"x": np.ones(1)})})


def test_dtypes_are_those_of_the_header():
    for number, dtype in c_loader._DTYPES.items():
        assert tf.as_dtype(dtype).as_datatype_enum == number
