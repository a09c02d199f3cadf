"""`to_onnx` and `to_litert`: what is converted, what is not, and what the report says."""

import pathlib
import sys
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.export.small import FEATURES, functional, images, vae
from tests.export.test_portability import CLASSES, LAYERS, ROWS, VARIABLES, model_with_all_layers
from tfconcrete.export.conversion import ConversionError, OutputReport, compare_floats
from tfconcrete.export.margins import Margins

pytest.importorskip("tf2onnx")
pytest.importorskip("onnxruntime")
CONVERTERS = {"onnx": tfc.export.to_onnx, "litert": tfc.export.to_litert}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A VAE, its export with warm-up requests."""
    model = vae()
    folder = tmp_path_factory.mktemp("exported") / "vae"
    return model, tfc.export.save_discrete(model, folder, warmup=images(30, seed=1))


@pytest.fixture(scope="module", params=CONVERTERS)
def converted(request, exported):
    """The report of a converter that was given nothing but the path."""
    return request.param, CONVERTERS[request.param](exported[1])


def test_every_signature_but_generate_is_converted_and_checked(exported, converted):
    kind, report = converted
    assert set(report.signatures) == {"serving_default", "encode", "decode"}
    assert "draws random numbers" in report.skipped["generate"]
    assert report.codes_equal
    assert report["encode"].outputs["codes"] == OutputReport(
        90, 0, None, report["encode"].outputs["codes"].median_margin
    )
    assert report["decode"].outputs["images"].error < 1e-5
    suffix = {"onnx": ".onnx", "litert": ".tflite"}[kind]
    for name, signature in report.signatures.items():
        path = pathlib.Path(signature.path)
        assert path.is_file() and path.name == f"{name}{suffix}"
        assert path.parent == exported[1].with_name(f"1.{kind}")


def test_a_server_passes_the_files_by(exported, converted):
    folder = exported[1].parent
    assert tfc.export.inspect(folder).path == str(folder / "1")


def test_the_report_reads_well(converted):
    text = str(converted[1])
    assert "codes: all 90 equal" in text
    assert "generate: not converted: it draws random numbers" in text


def test_examples_of_ones_own_and_some_signatures(exported, tmp_path):
    path = exported[1]
    report = tfc.export.to_onnx(
        path.parent, path=tmp_path / "out", signatures=["encode"], examples=images(5)
    )
    assert list(report.signatures) == ["encode"] and report.skipped == {}
    assert report["encode"].outputs["codes"].count == 15
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["encode.onnx"]


def test_without_examples_nothing_is_checked(tmp_path):
    path = tfc.export.save_discrete(functional(), tmp_path / "m")
    report = tfc.export.to_litert(path)
    assert report["serving_default"].outputs is None and "not checked" in str(report)


@pytest.mark.parametrize(
    "arguments",
    [
        {"signatures": "encode"},
        {"signatures": ["encoder"]},
        {"examples": np.zeros([2, FEATURES + 1])},
    ],
)
def test_wrong_arguments(exported, arguments):
    for convert in CONVERTERS.values():
        with pytest.raises((TypeError, ValueError), match=f"`{next(iter(arguments))}`"):
            convert(exported[1], **arguments)


def test_wrong_kinds_of_numbers(exported, tmp_path):
    with pytest.raises(ValueError, match="`quantize`"):
        tfc.export.to_litert(exported[1], "int4")
    with pytest.raises(ValueError, match="`representative_data`"):
        tfc.export.to_litert(exported[1], "int8")
    with pytest.raises(ValueError, match="`opset`"):
        tfc.export.to_onnx(exported[1], opset=0)
    with pytest.raises(ValueError, match="`opset`.*99"):
        tfc.export.to_onnx(exported[1], opset=99)
    for convert in CONVERTERS.values():
        with pytest.raises(ValueError, match="`version_path`.*SavedModel"):
            convert(tmp_path / "nowhere")


def test_what_cannot_go_is_said(exported):
    for convert in CONVERTERS.values():
        with pytest.raises(ConversionError, match="signature 'generate': it draws random"):
            convert(exported[1], signatures=["generate"])


def test_ops_that_a_runtime_lacks_are_named(tmp_path):
    class Bits(keras.layers.Layer):
        def call(self, x):
            return tf.cast(tf.raw_ops.PopulationCount(x=tf.cast(x, tf.int32)), tf.float32)

    inputs = keras.Input([4], name="x")
    model = keras.Model(inputs, tfc.ConcreteSample(name="z")(Bits()(inputs)))
    path = tfc.export.save_discrete(model, tmp_path / "m")
    report = tfc.export.to_onnx(path)
    assert "PopulationCount" in report.skipped["serving_default"]
    assert [file.name for file in path.parent.iterdir()] == ["1"]


def test_dtypes_that_onnx_runtime_lacks_are_named(tmp_path):
    inputs = keras.Input([4], name="x")
    logits = keras.layers.Dense(3, dtype="mixed_bfloat16")(inputs)
    model = keras.Model(inputs, tfc.ConcreteSample(name="z")(logits))
    path = tfc.export.save_discrete(model, tmp_path / "m")
    report = tfc.export.to_onnx(path)
    assert "ONNX Runtime says" in report.skipped["serving_default"]


@pytest.mark.parametrize(
    ("found", "error", "correlation"),
    [
        ([0.0, 1.0, 2.0, np.nan, np.inf], 0.0, 1.0),
        ([0.0, 3.0, 2.0, np.nan, np.inf], 2.0, 6 / 84**0.5),
        ([0.0, 1.0, 2.0, 7.0, np.inf], np.nan, 1.0),
        ([0.0, 1.0, 2.0, np.nan, 7.0], np.inf, 1.0),
    ],
)
def test_floats_that_are_not_finite(found, error, correlation):
    """The same ones on both sides count as equal; the others keep their correlation."""
    report = compare_floats(np.array([0.0, 1.0, 2.0, np.nan, np.inf]), np.array(found))
    np.testing.assert_equal(report.error, error)
    np.testing.assert_allclose(report.correlation, correlation, rtol=1e-12)


def test_the_extra_is_named(exported, monkeypatch):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(ImportError, match=r"tfconcrete\[onnx\]"):
        tfc.export.to_onnx(exported[1])


def test_margins_say_how_close_a_code_was():
    """Scores by hand: which differ, by how much, and what is no class."""
    scores = np.array([[0.0, 1.0, 0.75], [3.0, -1.0, 2.0]], np.float32)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], name="x")])
    def choose(x):
        return {"codes": tf.argmax(x, -1, output_type=tf.int32), "x": x}

    margins = Margins(choose.get_concrete_function(), {"x": scores})
    assert margins.known("codes") and not margins.known("x")
    np.testing.assert_allclose(margins.of("codes"), [0.25, 1.0])
    others = margins.between("codes", np.array([1, 0]), np.array([2, -1]))
    np.testing.assert_allclose(others, [0.25, np.inf])


def wide_vae(layer="concrete"):
    """784-800-(20 x 8)-800-784 around a sampling layer."""
    keras.utils.set_random_seed(0)
    image = keras.Input([784], name="image")
    hidden = keras.layers.Dense(800, "relu")(image)

    def head(classes):
        return keras.layers.Reshape([20, classes])(keras.layers.Dense(20 * classes)(hidden))

    parameters = [head(7), head(7)] if "igr" in layer else head(8)
    decoder = keras.Sequential(
        [
            keras.Input([20, 8]),
            keras.layers.Flatten(),
            keras.layers.Dense(800, "relu"),
            keras.layers.Dense(784),
        ]
    )
    latent = LAYERS[layer](name="z")
    return tfc.models.DiscreteVAE(keras.Model(image, parameters), decoder, latent)


def answers(signature, **inputs):
    """What the interpreter in TensorFlow says for a converted signature."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interpreter = tf.lite.Interpreter(signature.path)
    return interpreter.get_signature_runner("serving_default")(**inputs)


def dead(units):
    """Units that are never active."""
    return keras.layers.Dense(units, "relu", bias_initializer=keras.initializers.Constant(-1e3))


@pytest.fixture(scope="module")
def in_int8(tmp_path_factory):
    """Choices, masks and sticks behind an int8 product: the report, and the answers."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input([20], name="x")
    hidden = keras.layers.Dense(100, "relu")(inputs)
    hidden = keras.layers.Concatenate()([hidden, dead(4)(inputs)])

    def head(classes=5):
        return keras.layers.Reshape([4, classes])(keras.layers.Dense(4 * classes)(hidden))

    def masked(layer, parameters):
        mask = keras.ops.greater(head(), 0.0)
        return LAYERS[layer](name=layer)(parameters, class_mask=mask)

    # A precision below a half may cut the longest stick.
    cut = tfc.IGRSample("stick_breaking", precision=0.3, name="cut")
    outputs = {
        "plain": tfc.ConcreteSample(name="plain")(head(7)),
        "single": tfc.ConcreteSample(name="single")(keras.layers.Dense(7)(hidden)),
        "concrete": masked("concrete", head()),
        "binary": masked("binary", head()),
        "igr": masked("igr", [head(4), head(4)]),
        "exp_concrete": masked("exp_concrete", head()),
        "igr_stick_breaking": masked("igr_stick_breaking", [head(4), head(4)]),
        "igr_truncated": masked("igr_truncated", [head(4), head(4)]),
        "cut": cut([head(4), head(4)]),
    }
    model = keras.Model(inputs, outputs)
    path = tfc.export.save_discrete(model, tmp_path_factory.mktemp("int8") / "m")
    x = np.random.default_rng(0).normal(size=[500, 20]).astype(np.float32)
    report = tfc.export.to_litert(path, "int8", x)["serving_default"]
    return report.outputs, answers(report, x=x)


def test_masks_and_sticks_in_int8(in_int8):
    """Numbers that stand for "never" leave the scores beside them their digits.

    And the quantizer its process, which it ended at the exponential for a stick left out.
    """
    outputs, _ = in_int8
    shares = {name: output.share for name, output in outputs.items() if "codes" in name}
    assert 2 * len(shares) == len(outputs)
    # Hidden units of 20 products of 8 bits: the masks themselves differ at near ties.
    assert 0.0 < max(shares.values()) < 0.05, shares


def test_what_is_chosen_in_int8_is_whole(in_int8):
    """Whatever the codes: rounding one-hots to a common scale must not lose a class."""
    _, found = in_int8
    for name in ("plain", "single"):
        np.testing.assert_array_equal(found[name], np.eye(7)[found[f"{name}_codes"]])
    for name in ("igr_stick_breaking", "igr_truncated", "cut"):
        right = np.arange(5) == found[f"{name}_codes"][..., None]
        np.testing.assert_array_equal(found[name], right)
    right = np.arange(5) == found["exp_concrete_codes"][..., None]
    np.testing.assert_array_equal(np.exp(found["exp_concrete"]), right)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [4, 7, 10])
def test_one_hots_in_int8_are_one_hot(tmp_path, classes):
    """As above, with choices behind the inputs themselves."""
    keras.utils.set_random_seed(classes)
    inputs = keras.Input([20], name="x")
    logits = keras.layers.Reshape([4, classes])(keras.layers.Dense(4 * classes)(inputs))
    model = keras.Model(inputs, tfc.ConcreteSample(name="z")(logits))
    path = tfc.export.save_discrete(model, tmp_path / "m")
    x = np.random.default_rng(0).normal(size=[200, 20]).astype(np.float32)
    answer = answers(tfc.export.to_litert(path, "int8", x)["serving_default"], x=x)
    np.testing.assert_array_equal(answer["z"], np.eye(classes)[answer["z_codes"]])


def test_a_quantizer_that_ends_its_process(tmp_path, monkeypatch):
    """It takes nothing else with it, and the reason names the output."""
    path = tfc.export.save_discrete(functional(), tmp_path / "m")
    dying = "import os, sys\nprint('error: it is too much', file=sys.stderr, flush=True)\n"
    (tmp_path / "sitecustomize.py").write_text(f"{dying}os.kill(os.getpid(), 9)\n")
    monkeypatch.syspath_prepend(tmp_path)  # which the process has its own from
    x = np.zeros([4, FEATURES], np.float32)
    reason = tfc.export.to_litert(path, "int8", x).skipped["serving_default"]
    assert "(signal 9)" in reason and "['z_codes']" in reason and "it is too much" in reason
    with pytest.raises(ConversionError, match="signal 9"):
        tfc.export.to_litert(path, "int8", x, signatures=["serving_default"])


@pytest.mark.slow
def test_decoding_a_single_variable_in_int8(tmp_path):
    """Not only in proportion: the zeros of its one-hots are zeros."""
    keras.utils.set_random_seed(0)
    encoder = keras.Sequential([keras.Input([FEATURES], name="image"), keras.layers.Dense(5)])
    decoder = keras.Sequential([keras.Input([5]), keras.layers.Dense(FEATURES)])
    latent = tfc.ConcreteSample(name="z")
    model = tfc.models.DiscreteVAE(encoder, decoder, latent, likelihood="gaussian")
    path = tfc.export.save_discrete(model, tmp_path / "vae")
    report = tfc.export.to_litert(path, "int8", images(200), signatures=["decode"])
    largest = max(np.abs(weight).max() for weight in decoder.get_weights())
    assert report["decode"].outputs["images"].error < 3 * largest / 127


@pytest.mark.slow
def test_why_int8_does_not_go(tmp_path):
    """In the converter's words, not in a line of its graph."""
    text = keras.Input([3], dtype="string", name="text")
    numbers = keras.layers.StringLookup(vocabulary=list("abc"))(text)
    logits = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(9, 40)(numbers))
    model = keras.Model(text, tfc.ConcreteSample(name="z")(logits))
    path = tfc.export.save_discrete(model, tmp_path / "m")
    report = tfc.export.to_litert(path, "int8", np.array([list("abc")] * 4))
    assert "op is neither a custom op nor a flex op" in report.skipped["serving_default"]


@pytest.mark.slow
def test_what_is_never_active_in_int8(tmp_path):
    """Ranges of nothing, infinite ones, and inputs far beyond the others."""
    inputs = keras.Input([6], name="x")
    never, hidden = dead(8)(inputs), keras.layers.Dense(8)(inputs)
    log_zero = keras.ops.sigmoid(keras.ops.log(never))
    hidden = keras.layers.Concatenate()([never, log_zero, hidden])
    model = keras.Model(inputs, tfc.ConcreteSample(name="z")(keras.layers.Dense(3)(hidden)))
    path = tfc.export.save_discrete(model, tmp_path / "m")
    x = np.random.default_rng(0).normal(size=[100, 6]).astype(np.float32)
    x[0, 0] = 1e30
    report = tfc.export.to_litert(path, "int8", x, path=tmp_path / "far")
    assert report["serving_default"].outputs["z_codes"].share < 0.02


@pytest.mark.slow
def test_codes_of_every_layer_in_int8(tmp_path):
    """Fewer than 2% differ, behind products of 784 and 800 numbers of 8 bits."""
    model = model_with_all_layers()
    outputs, hidden = dict(model.output), model.layers[1].output

    def head(classes=CLASSES):
        flat = keras.layers.Dense(VARIABLES * classes)(hidden)
        return keras.layers.Reshape([VARIABLES, classes])(flat)

    for layer in ("igr_stick_breaking", "igr_truncated"):
        name, kept = f"masked_{layer}", keras.ops.greater(head(), 0.0)
        parameters = [head(CLASSES - 1), head(CLASSES - 1)]
        outputs[name] = LAYERS[layer](name=name)(parameters, class_mask=kept)
    model = keras.Model(model.input, outputs)
    path = tfc.export.save_discrete(model, tmp_path / "m")
    x = np.random.default_rng(0).random([ROWS, 784], np.float32)
    report = tfc.export.to_litert(path, "int8", x)["serving_default"]
    codes = {name: output for name, output in report.outputs.items() if "codes" in name}
    assert set(codes) == {f"{name}_codes" for name in outputs}
    shares = {name: output.share for name, output in codes.items()}
    assert max(shares.values()) < 0.02, shares
    # A byte for each weight but those that make the logits of a choice.
    hidden = model.layers[1].count_params()
    size = pathlib.Path(report.path).stat().st_size
    assert size < 1.2 * (hidden + 4 * (model.count_params() - hidden))


# `features` chooses among its inputs, and the others decode as `concrete` does.
LATENTS = [
    name for name in LAYERS if "axis" not in name and name not in ("features", "distribution")
]


@pytest.mark.slow
@pytest.mark.parametrize("layer", LATENTS)
def test_codes_and_images_of_every_latent_in_int8(tmp_path, layer):
    path = tfc.export.save_discrete(wide_vae(layer), tmp_path / "vae")
    x = np.random.default_rng(0).random([ROWS, 784], np.float32)
    report = tfc.export.to_litert(path, "int8", x, signatures=["encode", "decode"])
    codes, decoded = report["encode"].outputs["codes"], report["decode"].outputs["images"]
    assert codes.count >= 20 * ROWS and codes.share < 0.02, str(report)
    assert decoded.correlation > 0.99, str(report)
    if codes.differing and codes.largest_tie is not None:
        assert codes.largest_tie < codes.median_margin


@pytest.mark.slow
@pytest.mark.parametrize("quantize", [None, "float16"])
def test_codes_and_images_of_fewer_bits(tmp_path, quantize):
    path = tfc.export.save_discrete(wide_vae(), tmp_path / "vae")
    x = np.random.default_rng(0).random([ROWS, 784], np.float32)
    report = tfc.export.to_litert(path, quantize, examples=x)
    codes, decoded = report["encode"].outputs["codes"], report["decode"].outputs["images"]
    assert codes.count == 20 * ROWS and codes.share < {None: 1e-3, "float16": 0.01}[quantize]
    assert decoded.correlation > 0.99, str(report)
