"""The artifact in other runtimes: every layer, the same codes.

One model with a wide hidden layer carries all layers: matrix products of up to 256 columns
are bit-equal between TensorFlow and ONNX Runtime, and only wider ones round differently.
OpenVINO computes in bfloat16 on CPUs that have it (`avx512_bf16`, AMX) unless it is asked
for float32: near ties would then fall the other way, on those machines alone.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc
from tests.grids import grid
from tfconcrete.export.c_loader import run_separately
from tfconcrete.export.margins import Margins

L = tfc.layers


def one_hot_categorical(logits):
    return tfp.distributions.OneHotCategorical(logits=logits, dtype=tf.float32)


VARIABLES, CLASSES, ROWS, WIDTH = 6, 5, 1_000, 800
LAYERS = {
    "concrete": lambda **k: tfc.ConcreteSample(**k),
    "exp_concrete": lambda **k: tfc.ExpConcreteSample(**k),
    "binary": lambda **k: L.BinConcreteSample(**k),
    "straight_through": lambda **k: L.StraightThrough(**k),
    "gumbel_rao": lambda **k: L.GumbelRao(**k),
    "gapped": lambda **k: tfc.GapStraightThrough(**k),
    "reinmax": lambda **k: L.ReinMax(**k),
    "other_axis": lambda **k: tfc.ConcreteSample(axis=1, **k),
    "igr": lambda **k: tfc.IGRSample(**k),
    "igr_stick_breaking": lambda **k: tfc.IGRSample("stick_breaking", **k),
    "igr_interpolation": lambda **k: tfc.IGRSample("interpolation", **k),
    "igr_truncated": lambda **k: tfc.IGRSample("stick_breaking", precision=0.95, **k),
    "subset": lambda **k: L.SubsetSample(3, **k),
    "subset_other_axis": lambda **k: L.SubsetSample(2, axis=1, **k),
    "distribution": lambda **k: L.DistributionSample(one_hot_categorical, **k),
    "features": lambda **k: L.FeatureSelector(2, **k),
}
# Of the largest score: float32 sums of 800 products in another order.
ROUNDING = 1e-5


def model_with_all_layers():
    """`image` `[784]` through 800 units to a variable of each kind."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input([784], name="image")
    hidden = keras.layers.Dense(WIDTH, "relu")(inputs)

    def head(classes=CLASSES):
        flat = keras.layers.Dense(VARIABLES * classes)(hidden)
        return keras.layers.Reshape([VARIABLES, classes])(flat)

    outputs = {}
    for name, make in LAYERS.items():
        parameters = [head(CLASSES - 1), head(CLASSES - 1)] if "igr" in name else head()
        outputs[name] = make(name=name)(parameters)
    kept = keras.ops.greater(head(), 0.0)
    outputs["masked"] = tfc.ConcreteSample(name="masked")(head(), class_mask=kept)
    return keras.Model(inputs, outputs)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Path, inputs, right codes by output, and how close they were to others."""
    model = model_with_all_layers()
    path = tfc.export.save_discrete(model, tmp_path_factory.mktemp("all") / "model")
    x = np.random.default_rng(0).random([ROWS, 784], np.float32)
    with tfc.layers.record_codes() as records:
        model(x, training=False)
    codes = {f"{record.name}_codes": record.codes.numpy() for record in records}
    loaded = tf.saved_model.load(str(path))
    return path, x, codes, Margins(loaded.signatures["serving_default"], {"image": x})


def c_loader_answer(path, x, folder):
    return run_separately(path, {"a": ("serving_default", {"image": x})})["a"]


def require_argmax(openvino):
    """Skips where plain OpenVINO has none: `ONEDNN_MAX_CPU_ISA=SSE41` on a newer processor."""
    x = openvino.opset13.parameter([-1, 2], np.float32)
    top = openvino.opset13.topk(x, 1, -1, "max", "value", "i32")
    try:
        openvino.Core().compile_model(openvino.Model([top.output(1)], [x], "argmax"), "CPU")
    except RuntimeError as error:
        pytest.skip(f"plain OpenVINO has no argmax here: {str(error).strip().splitlines()[-1]}")


def openvino_answer(path, x, folder):
    openvino = pytest.importorskip("openvino")
    require_argmax(openvino)
    core = openvino.Core()
    settings = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(str(path)), "CPU", settings)
    answer = compiled({"image": x})
    return {name: answer[port] for port in compiled.outputs for name in port.get_names()}


def onnx_answer(path, x, folder):
    onnxruntime = pytest.importorskip("onnxruntime")
    report = tfc.export.to_onnx(path, path=folder, examples=x)
    session = onnxruntime.InferenceSession(report["serving_default"].path)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"image": x}), strict=True))


def litert_answer(path, x, folder):
    report = tfc.export.to_litert(path, path=folder, examples=x)
    interpreter = tf.lite.Interpreter(report["serving_default"].path)
    return interpreter.get_signature_runner("serving_default")(image=x)


RUNTIMES = {
    "c_loader": c_loader_answer,
    "openvino": openvino_answer,
    "onnx": onnx_answer,
    "litert": litert_answer,
}


# The quick tests convert in `test_conversion.py`.
@pytest.fixture(
    scope="module", params=grid(RUNTIMES, quick=lambda name: name not in ("onnx", "litert"))
)
def answer(request, exported, tmp_path_factory):
    path, x, _, _ = exported
    return RUNTIMES[request.param](path, x, tmp_path_factory.mktemp(request.param))


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
@pytest.mark.parametrize("layer", [*LAYERS, "masked"])
def test_the_same_codes(exported, answer, layer):
    _, _, codes, margins = exported
    name = f"{layer}_codes"
    right, found = codes[name], np.asarray(answer[name])
    assert found.shape == right.shape and found.dtype == np.int32
    differ = found != right
    assert differ.mean() <= 1e-3
    if differ.any():
        ties = margins.between(name, right, found)[differ]
        assert np.all(ties <= ROUNDING * margins.of(name).max()), ties


def test_margins_are_known_for_every_layer(exported):
    _, _, codes, margins = exported
    known = {name for name in codes if margins.known(name)}
    # Behind a mask or a transposition; `features` chooses by its own weights.
    assert known >= set(codes) - {"masked_codes", "subset_other_axis_codes", "features_codes"}
    for name in known:
        assert np.all(margins.of(name) >= 0) and margins.of(name).shape == codes[name].shape
