"""Other runtimes that read the artifact: OpenVINO, and TFLite with built-in ops only."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.export.small import codes_of, vae

VARIANTS = {
    "concrete": lambda: tfc.ConcreteSample(name="z"),
    "exp_concrete": lambda: tfc.ExpConcreteSample(name="z"),
    "binary": lambda: tfc.layers.BinConcreteSample(name="z"),
    "gapped": lambda: tfc.GapStraightThrough(name="z"),
    "other_axis": lambda: tfc.ConcreteSample(name="z", axis=1),
    "igr": lambda: tfc.layers.IGRSample(name="z"),
}


@pytest.fixture(scope="module", params=VARIANTS)
def exported(request, tmp_path_factory):
    """Path, input and codes of a model with each kind of layer."""
    inputs = keras.Input([20], name="image")
    heads = [
        keras.layers.Reshape([6, 5])(keras.layers.Dense(30)(inputs))
        for _ in range(2 if request.param == "igr" else 1)
    ]
    z = VARIANTS[request.param]()(heads if len(heads) > 1 else heads[0])
    outputs = keras.layers.Dense(3, name="out")(keras.layers.Flatten()(z))
    model = keras.Model(inputs, outputs)
    path = tfc.export.save_discrete(model, tmp_path_factory.mktemp(request.param) / "model")
    x = np.random.default_rng(0).standard_normal([50, 20]).astype(np.float32)
    return path, x, codes_of(model, x)[0]


def openvino_codes(path, x, name):
    openvino = pytest.importorskip("openvino")
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(str(path)), "CPU")
    answer = compiled({"image": x})
    return next(answer[port] for port in compiled.outputs if name in port.get_names())


def tflite_codes(path, x, name):
    converter = tf.lite.TFLiteConverter.from_saved_model(
        str(path), signature_keys=["serving_default"]
    )
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    interpreter = tf.lite.Interpreter(model_content=converter.convert())
    return interpreter.get_signature_runner("serving_default")(image=x)[name]


RUNTIMES = {"openvino": openvino_codes, "tflite": tflite_codes}


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_same_codes(exported, runtime):
    path, x, codes = exported
    np.testing.assert_array_equal(RUNTIMES[runtime](path, x, "z_codes"), codes)


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_default_signature_of_a_vae(tmp_path, runtime):
    model = vae()
    path = tfc.export.save_discrete(model, tmp_path / "model")
    x = np.random.default_rng(0).random([50, 12], np.float32)
    np.testing.assert_array_equal(RUNTIMES[runtime](path, x, "z_codes"), model.encode(x))
