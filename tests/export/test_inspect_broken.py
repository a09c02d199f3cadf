"""`inspect` on what is broken: it neither hangs nor raises, and its verdict says what is wrong."""

import contextlib
import os
import random
import shutil
import signal

import keras
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2

import tfconcrete as tfc
from tests.export.small import functional, images, vae

WARMUP = "assets.extra/tf_serving_warmup_requests"
FILES = [
    "saved_model.pb",
    "variables/variables.index",
    "variables/variables.data-00000-of-00001",
    WARMUP,
]


@contextlib.contextmanager
def no_longer_than(seconds):
    """Ends the process where something waits for ever, even inside TensorFlow."""
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def with_vocabulary():
    """A model with a file of its own: the words of a lookup table."""
    words = keras.Input([3], dtype="string", name="words")
    ids = keras.layers.StringLookup(vocabulary=["a", "b", "c"])(words)
    logits = keras.layers.Embedding(4, 5)(ids)
    return keras.Model(words, tfc.ConcreteSample(name="z")(logits))


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """Folders of several SavedModels."""
    pytest.importorskip("tensorflow_serving")
    root = tmp_path_factory.mktemp("exports")
    paths = {"vae": tfc.export.save_discrete(vae(), root / "vae", warmup=images(2))}
    paths["words"] = tfc.export.save_discrete(with_vocabulary(), root / "words")
    paths["keras"] = root / "keras" / "1"
    functional().export(str(paths["keras"]), verbose=False)
    paths["text"] = root / "text" / "1"
    shutil.copytree(paths["keras"], paths["text"])
    binary = paths["text"] / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(binary.read_bytes())
    (paths["text"] / "saved_model.pbtxt").write_text(text_format.MessageToString(saved))
    binary.unlink()
    return paths


@pytest.fixture
def copy(exports, tmp_path):
    """A copy of the VAE's SavedModel, to break."""
    shutil.copytree(exports["vae"], tmp_path / "1")
    return tmp_path / "1"


def edit(folder, change):
    file = folder / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    change(saved.meta_graphs[0])
    file.write_bytes(saved.SerializeToString())
    return tfc.export.inspect(folder)


def test_all_of_them_are_servable(exports):
    for path in exports.values():
        assert tfc.export.inspect(path).servable


@pytest.mark.parametrize("file", FILES)
def test_a_pipe_in_place_of_a_file(copy, file):
    (copy / file).unlink()
    os.mkfifo(copy / file)
    with no_longer_than(120):
        report = tfc.export.inspect(copy)
    assert not report.servable


@pytest.mark.parametrize("file", FILES)
def test_a_folder_in_place_of_a_file(copy, file):
    (copy / file).unlink()
    (copy / file).mkdir()
    assert not tfc.export.inspect(copy).servable


def test_an_unknown_dtype(copy):
    def change(meta_graph):
        meta_graph.signature_def["encode"].inputs["image"].dtype = 77

    report = edit(copy, change)
    assert "'encode' has no known dtype for its input 'image'" in report.verdict
    assert "unknown type 77" in str(report)


def test_a_text_that_is_binary(tmp_path):
    (tmp_path / "saved_model.pbtxt").write_bytes(b"\xff\xfe\0\x01")
    assert "saved_model.pbtxt cannot be read" in tfc.export.inspect(tmp_path).verdict


def test_a_folder_named_by_a_digit_that_is_no_number(copy, tmp_path):
    odd = tmp_path / os.fsdecode("²".encode())
    copy.rename(odd)
    report = tfc.export.inspect(odd)
    assert report.servable and f"named '{odd.name}'" in report.notes[-1]
    with pytest.raises(ValueError, match="exported models"):
        tfc.export.write_serving_config(tmp_path)
    assert "no saved_model.pb" in tfc.export.inspect(tmp_path).verdict
    shutil.copytree(odd, tmp_path / "3")
    assert tfc.export.inspect(tmp_path).path == str(tmp_path / "3")


def test_a_folder_whose_name_is_no_text(copy, tmp_path):
    odd = tmp_path / os.fsdecode(b"\xff")
    copy.rename(odd)
    assert sorted(tfc.export.inspect(odd).signatures)[0] == "decode"


@pytest.mark.parametrize(
    "tensor",
    [
        "nowhere:0",
        "StatefulPartitionedCall:99",
        "",
        "saver_filename:1",
        "saver_filename:" + "9" * 5_000,
    ],
)
@pytest.mark.parametrize("kind", ["inputs", "outputs"])
def test_tensors_that_the_graph_lacks(copy, kind, tensor):
    def change(meta_graph):
        next(iter(getattr(meta_graph.signature_def["decode"], kind).values())).name = tensor

    assert f"names the tensor '{tensor}'" in edit(copy, change).verdict


def test_two_nodes_of_one_name(copy):
    def change(meta_graph):
        meta_graph.graph_def.node.add().CopyFrom(meta_graph.graph_def.node[0])

    assert "two nodes of the same name" in edit(copy, change).verdict
    with pytest.raises(RuntimeError, match="not unique|duplicate|already exists"):
        tfc.export.c_loader.CSavedModel(copy, xla=True)


@pytest.mark.parametrize("path", ["x" * 5_000, "a\0b", "missing"])
def test_a_path_that_is_no_folder(path):
    with pytest.raises(ValueError, match="Expected the folder of a SavedModel"):
        tfc.export.inspect(path)


@pytest.mark.parametrize("name", ["../outside.txt", "/etc/hostname", "a/../../outside.txt"])
def test_assets_that_leave_the_folder(copy, name):
    def change(meta_graph):
        meta_graph.asset_file_def.add(filename=name).tensor_info.name = "x:0"

    (copy / "outside.txt").write_text("")
    report = edit(copy, change)
    assert not report.servable and f"'{name}' leaves the folder assets/" in report.verdict


@pytest.mark.parametrize("name", ["a\0b", "x" * 5_000])
def test_assets_with_names_that_are_none(copy, name):
    def change(meta_graph):
        meta_graph.asset_file_def.add(filename=name).tensor_info.name = "x:0"

    assert "is missing" in edit(copy, change).verdict


def rewrite_warmup(folder, *records):
    with tf.io.TFRecordWriter(str(folder / WARMUP)) as writer:
        for record in records:
            writer.write(record if isinstance(record, bytes) else record.SerializeToString())
    return tfc.export.inspect(folder).verdict


def record(signature="encode", **inputs):
    from tensorflow_serving.apis import prediction_log_pb2

    log = prediction_log_pb2.PredictionLog()
    log.predict_log.request.model_spec.signature_name = signature
    for name, value in inputs.items():
        log.predict_log.request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    return log


def test_the_verdict_covers_warmup_records(copy):
    x = images(2)
    assert "would serve" in rewrite_warmup(copy, record(image=x))
    assert "is no PredictionLog" in rewrite_warmup(copy, b"\x07\x07")
    assert "holds no request" in rewrite_warmup(copy, b"")
    assert "the signature 'encoder'" in rewrite_warmup(copy, record("encoder", image=x))
    assert "has the inputs ['picture'], not ['image']" in rewrite_warmup(copy, record(picture=x))
    assert "float32 (2, 11) as 'image'" in rewrite_warmup(copy, record(image=x[:, 1:]))
    assert "sends float64" in rewrite_warmup(copy, record(image=x.astype(float)))
    assert "no rows in 'image'" in rewrite_warmup(copy, record(image=x[:0]))


def broken(content, randomness):
    """The bytes, cut off somewhere or with some of them flipped."""
    if randomness.random() < 0.5:
        return content[: randomness.randrange(len(content) + 1)]
    content = bytearray(content)
    for _ in range(randomness.choice([1, 1, 1, 3, 30])):
        content[randomness.randrange(len(content))] ^= 1 << randomness.randrange(8)
    return bytes(content)


def break_often(exports, folder, times):
    """Shares of reports that say refuse, by what was broken; each must end and print."""
    randomness = random.Random(0)
    refused = {"cut": [], "flipped": []}
    for name, source in exports.items():
        shutil.copytree(source, folder / name / "1")
    files = [
        file
        for name in exports
        for file in (folder / name / "1").rglob("*")
        if file.is_file() and file.stat().st_size and file.name != "fingerprint.pb"
    ]
    for _ in range(times):
        file = randomness.choice(files)
        whole = file.read_bytes()
        content = broken(whole, randomness)
        file.write_bytes(content)
        report = tfc.export.inspect(next(p for p in file.parents if p.name == "1"))
        assert str(report).endswith(report.verdict)
        if content != whole and file.name not in ("vocabulary.txt",):
            refused["flipped" if len(content) == len(whole) else "cut"].append(not report.servable)
        file.write_bytes(whole)
    return {kind: sum(found) / len(found) for kind, found in refused.items()}


def test_broken_bytes(exports, tmp_path):
    with no_longer_than(300):
        break_often(exports, tmp_path, 60)


@pytest.mark.slow
def test_a_thousand_times_broken_bytes(exports, tmp_path):
    with no_longer_than(1_800):
        refused = break_often(exports, tmp_path, 1_000)
    # A flip may hit the name of a node that nobody uses, or a comment; most cuts are fatal.
    assert refused["cut"] > 0.9 and refused["flipped"] > 0.3, refused
