"""`inspect`: any SavedModel, and each thing that TF Serving would refuse."""

import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import tfconcrete as tfc
from tests.export.small import functional, vae
from tfconcrete.export.graph import is_assignment, is_random


def save(function, folder, *specs, **attributes):
    """A SavedModel of one function."""
    module = tf.Module()
    for name, value in attributes.items():
        setattr(module, name, value)
    specs = specs or (tf.TensorSpec([None], tf.float32, name="x"),)
    signature = tf.function(function, input_signature=specs).get_concrete_function()
    tf.saved_model.save(module, str(folder), signatures=signature)
    return folder


def edited(source, folder, change):
    """A copy of a SavedModel whose proto went through `change`."""
    shutil.copytree(source, folder)
    file = folder / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    change(saved)
    file.write_bytes(saved.SerializeToString())
    return folder


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return tfc.export.save_discrete(vae(), tmp_path_factory.mktemp("good") / "vae")


def test_a_good_one_reads_well(good):
    report = tfc.export.inspect(good)
    assert report.servable and report.problems == []
    assert set(report.ops) == {"serving_default", "encode", "decode", "generate"}
    assert report.ops["decode"]["MatMul"] == 1
    assert [name for name, ops in report.ops.items() if any(map(is_random, ops))] == []
    assert not [op for ops in report.ops.values() for op in ops if is_assignment(op)]
    text = str(report)
    assert repr(report) == text and text.endswith("TF Serving would serve this.")
    assert "in  seeds: int32 [batch, 2]" in text
    assert report.size == sum(f.stat().st_size for f in good.rglob("*") if f.is_file())


def test_the_folder_of_the_model_stands_for_its_latest_version(tmp_path):
    model = functional()
    for version in (2, 10):
        tfc.export.save_discrete(model, tmp_path, version)
    assert tfc.export.inspect(str(tmp_path)).path == str(tmp_path / "10")


def test_a_keras_export(tmp_path):
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(2)])
    model.export(str(tmp_path / "1"), verbose=False)
    report = tfc.export.inspect(tmp_path / "1")
    assert report.servable and "serving_default" in report.signatures


def test_a_folder_that_is_no_version_is_noted(tmp_path):
    report = tfc.export.inspect(save(lambda x: {"y": x}, tmp_path / "latest"))
    assert report.servable and "named 'latest'" in report.notes[0]


def test_python_is_refused(tmp_path):
    path = save(lambda x: {"y": tf.py_function(lambda v: v, [x], tf.float32)}, tmp_path / "1")
    report = tfc.export.inspect(path)
    assert not report.servable
    assert "calls back into Python (EagerPyFunc)" in report.verdict


def test_compilation_is_refused(tmp_path):
    compiled = tf.function(lambda x: {"y": x + 1}, jit_compile=True)
    report = tfc.export.inspect(save(lambda x: compiled(x), tmp_path / "1"))
    assert not report.servable and "_XlaMustCompile" in report.verdict
    assert "--xla_cpu_compilation_enabled" in str(report)


def test_custom_ops_are_refused(good, tmp_path):
    def change(saved):
        for function in saved.meta_graphs[0].graph_def.library.function:
            for node in function.node_def:
                if node.op == "Sigmoid":
                    node.op = "FastSigmoid"

    report = tfc.export.inspect(edited(good, tmp_path / "1", change))
    assert not report.servable and "custom ops (FastSigmoid)" in report.verdict


def test_missing_tag_and_signatures_are_refused(good, tmp_path):
    def other_tag(saved):
        saved.meta_graphs[0].meta_info_def.tags[:] = ["train"]

    def no_signature(saved):
        saved.meta_graphs[0].signature_def.clear()

    assert "tagged 'serve'" in tfc.export.inspect(edited(good, tmp_path / "1", other_tag)).verdict
    assert "no signature" in tfc.export.inspect(edited(good, tmp_path / "2", no_signature)).verdict


@pytest.mark.parametrize(
    ("file", "word"),
    [
        ("saved_model.pb", "saved_model.pb"),
        ("variables/variables.index", "variables.index"),
        ("variables/variables.data-00000-of-00001", "variables cannot be read"),
    ],
)
def test_missing_files_are_refused(good, tmp_path, file, word):
    shutil.copytree(good, tmp_path / "1")
    (tmp_path / "1" / file).unlink()
    report = tfc.export.inspect(tmp_path / "1")
    assert not report.servable and word in report.verdict


@pytest.mark.parametrize("file", ["saved_model.pb", "variables/variables.data-00000-of-00001"])
def test_cut_off_files_are_refused(good, tmp_path, file):
    shutil.copytree(good, tmp_path / "1")
    content = (good / file).read_bytes()
    (tmp_path / "1" / file).write_bytes(content[: len(content) // 2 + 1])
    assert not tfc.export.inspect(tmp_path / "1").servable


def test_missing_assets_are_refused(tmp_path):
    (tmp_path / "words.txt").write_text("a\nb\n")
    asset = tf.saved_model.Asset(str(tmp_path / "words.txt"))
    path = save(lambda x: {"y": x}, tmp_path / "1", asset=asset)
    (path / "assets" / "words.txt").unlink()
    assert "assets/words.txt is missing" in tfc.export.inspect(path).verdict


def test_too_many_warmup_records_are_refused(good, tmp_path):
    shutil.copytree(good, tmp_path / "1")
    (tmp_path / "1" / "assets.extra").mkdir()
    file = tmp_path / "1" / "assets.extra" / "tf_serving_warmup_requests"
    with tf.io.TFRecordWriter(str(file)) as writer:
        for _ in range(1001):
            writer.write(b"")
    assert "1001 records" in tfc.export.inspect(tmp_path / "1").verdict
    file.write_bytes(b"these bytes are no record of any kind")
    assert "cannot be read" in tfc.export.inspect(tmp_path / "1").verdict


def test_what_a_user_may_want_to_know_is_noted(tmp_path):
    counter = tf.Variable(0.0)

    def odd(x, seed):
        counter.assign_add(1.0)
        noise = tf.random.stateless_uniform([3], seed)
        best = keras.ops.argmax(x, axis=-1)
        return {"y": x + tf.reduce_sum(noise), "best": tf.reshape(best, [1])}

    specs = [tf.TensorSpec([None], tf.float32, name="x"), tf.TensorSpec([2], tf.int32, name="seed")]
    report = tfc.export.inspect(save(odd, tmp_path / "1", *specs, counter=counter))
    assert report.servable
    notes = "\n".join(report.notes)
    assert "cannot be batched" in notes and "input 'seed'" in notes
    assert "StatelessRandomUniform" in notes and "AssignAddVariableOp" in notes
    assert "Bitcast" in notes


def test_what_is_no_folder(tmp_path):
    with pytest.raises(ValueError, match="the folder of a SavedModel"):
        tfc.export.inspect(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "no saved_model.pb" in tfc.export.inspect(tmp_path / "empty").verdict


def test_weights_are_counted(good):
    weights = sum(np.prod(s) for s in [(12, 12), (12,), (12, 12), (12,)]) * 4
    assert tfc.export.inspect(good).weights_size == weights
