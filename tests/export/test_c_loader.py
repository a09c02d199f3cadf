"""The C++ loader, in a process that imports neither TensorFlow nor Keras nor tfconcrete."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.export.small import codes_of, vae
from tfconcrete.export import c_loader

BATCHES = (1, 7, 1000)


def run_in_c(path, requests, folder):
    """Answers by request, from a fresh process that runs the loader's file alone.

    Args:
        path: The SavedModel.
        requests: `(signature, inputs)` by name.
        folder: Where to put the arrays.
    """
    arrays = {
        f"{name}/{signature}/{key}": value
        for name, (signature, inputs) in requests.items()
        for key, value in inputs.items()
    }
    np.savez(folder / "requests.npz", **arrays)
    # The file refuses to end well if one of the three packages was imported.
    files = [str(path), str(folder / "requests.npz"), str(folder / "answers.npz")]
    command = [sys.executable, "-E", c_loader.__file__, *files]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    answers = {}
    with np.load(folder / "answers.npz") as loaded:
        for key in loaded.files:
            name, output = key.split("/", 1)
            answers.setdefault(name, {})[output] = loaded[key]
    return answers


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
    answers = run_in_c(path, requests, tmp_path)
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
    answers = run_in_c(path, {
        "default": ("serving_default", {"image": x}),
        "codes": ("encode", {"image": x}),
        "images": ("decode", {"codes": codes}),
        "samples": ("generate", {"seeds": seeds}),
        "last": ("generate", {"seeds": seeds[4:]}),
    }, tmp_path)  # fmt: skip
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
        run_in_c(tmp_path / "1", request, tmp_path)


def test_wrong_requests_are_named(tmp_path):
    path = tfc.export.save_discrete(vae(), tmp_path / "model")
    with pytest.raises(RuntimeError, match="No signature 'encoder'"):
        run_in_c(path, {"a": ("encoder", {"x": np.ones(1)})}, tmp_path)


def test_dtypes_are_those_of_the_header():
    for number, dtype in c_loader._DTYPES.items():
        assert tf.as_dtype(dtype).as_datatype_enum == number
