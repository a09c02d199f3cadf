"""Versions: the next free one, never replaced, whole or not there at all."""

import os
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.export.small import functional, images, load
from tfconcrete.export import versions


@pytest.fixture(scope="module")
def model():
    return functional()


def names(folder):
    return sorted(entry.name for entry in pathlib.Path(folder).iterdir())


def test_next_free_integer_and_the_type_of_the_path(model, tmp_path):
    assert tfc.export.save_discrete(model, str(tmp_path / "m")) == str(tmp_path / "m" / "1")
    (tmp_path / "m" / "007").mkdir()
    (tmp_path / "m" / "notes").mkdir()
    (tmp_path / "m" / str(2**63)).mkdir()  # more than a server's numbers hold
    assert tfc.export.save_discrete(model, tmp_path / "m") == tmp_path / "m" / "8"
    assert tfc.export.save_discrete(model, tmp_path / "m", version=3).name == "3"
    assert names(tmp_path / "m") == ["007", "1", "3", "8", str(2**63), "notes"]


def test_a_relative_path(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert tfc.export.save_discrete(model, "m") == os.path.join("m", "1")


@pytest.mark.parametrize("taken", ["2", "02"])
def test_an_existing_version_is_never_overwritten(model, tmp_path, taken):
    (tmp_path / taken).mkdir()
    (tmp_path / taken / "file").write_text("mine")
    with pytest.raises(ValueError, match="does not hold yet. Received: version=2"):
        tfc.export.save_discrete(model, tmp_path, version=2)
    assert names(tmp_path) == [taken] and names(tmp_path / taken) == ["file"]


@pytest.mark.parametrize("version", [0, -1, 2**63])
def test_versions_that_are_none(model, tmp_path, version):
    with pytest.raises(ValueError, match="`version`"):
        tfc.export.save_discrete(model, tmp_path / "m", version)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("version", ["1", 1.0, True])
def test_versions_of_the_wrong_type(model, tmp_path, version):
    with pytest.raises(TypeError, match="`version`"):
        tfc.export.save_discrete(model, tmp_path / "m", version)


@pytest.mark.slow
def test_a_race_for_the_same_version_has_no_loser(model, tmp_path, monkeypatch):
    """Another process finishes between the choice of the version and the rename."""
    rename = os.rename

    def later(source, target):
        if not pathlib.Path(target).exists():
            pathlib.Path(target).mkdir()
            (pathlib.Path(target) / "file").write_text("theirs")
            monkeypatch.setattr(os, "rename", rename)
        return rename(source, target)

    monkeypatch.setattr(os, "rename", later)
    assert tfc.export.save_discrete(model, tmp_path).name == "2"
    assert names(tmp_path) == ["1", "2"] and names(tmp_path / "1") == ["file"]


def test_an_error_in_the_middle_leaves_nothing(model, tmp_path, monkeypatch):
    seen = []

    def fail(module, folder, **kwargs):
        pathlib.Path(folder, "saved_model.pb").write_text("half")
        seen.extend(names(tmp_path / "new" / "model"))
        raise RuntimeError("disk on fire")

    monkeypatch.setattr(tf.saved_model, "save", fail)
    with pytest.raises(RuntimeError, match="disk on fire"):
        tfc.export.save_discrete(model, tmp_path / "new" / "model")
    assert len(seen) == 1 and not seen[0].isdigit()
    assert names(tmp_path) == []


def test_the_rest_of_a_killed_export_is_removed_by_the_next(model, tmp_path):
    host = versions.socket.gethostname()
    stale = tmp_path / f".incomplete-{host}-{2**22 + 1}-abcd"
    alive = tmp_path / f".incomplete-{host}-{os.getppid()}-abcd"
    foreign = tmp_path / ".incomplete-elsewhere-1-abcd"
    for folder in (stale, alive, foreign):
        folder.mkdir()
    tfc.export.save_discrete(model, tmp_path)
    assert names(tmp_path) == sorted([alive.name, foreign.name, "1"])


@pytest.mark.parametrize("where", ["file", "file/below"])
def test_a_path_that_cannot_be_written(model, tmp_path, where):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="`path`. Expected a folder that can be written"):
        tfc.export.save_discrete(model, tmp_path / where)
    with pytest.raises(OSError, match="file"):
        tfc.export.save_discrete(model, tmp_path / where)
    assert names(tmp_path) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(model, tmp_path):
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(ValueError, match="Permission denied"):
            tfc.export.save_discrete(model, tmp_path / "m")
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        tf.errors.ResourceExhaustedError(
            None, None, "variables/part-00000; No space left on device"
        ),
    ],
    ids=["python", "tensorflow"],
)
def test_a_full_disk_is_named(model, tmp_path, monkeypatch, error):
    def fail(path):
        raise error

    monkeypatch.setattr(versions, "_flush", fail)
    with pytest.raises(ValueError, match="`path`.*No space left on device"):
        tfc.export.save_discrete(model, tmp_path / "m")
    with pytest.raises(OSError, match="No space left on device"):
        tfc.export.save_discrete(model, tmp_path / "m")
    assert names(tmp_path) == []


def test_other_errors_of_tensorflow_stay_what_they_are(model, tmp_path, monkeypatch):
    def fail(path):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    monkeypatch.setattr(versions, "_flush", fail)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="OOM"):
        tfc.export.save_discrete(model, tmp_path / "m")


@pytest.mark.parametrize("size", [10, 1_000])
def test_a_file_that_the_system_does_not_let_grow(model, tmp_path, size):
    """A limit on the size of files fails the writers as a full disk does."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        with pytest.raises(ValueError, match="folder that can be written.*File too large"):
            tfc.export.save_discrete(model, tmp_path / "m")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("", ValueError),
        ("gs://a/b", ValueError),
        ("x" * 5_000, ValueError),
        (3, TypeError),
        (None, TypeError),
    ],
)
def test_paths_that_are_none(model, path, error):
    with pytest.raises(error, match="`path`"):
        tfc.export.save_discrete(model, path)


def unbuilt():
    return keras.Sequential([keras.layers.Dense(4), tfc.ConcreteSample()])


class Unbuilt(keras.Model):
    def __init__(self):
        super().__init__()
        self.z = tfc.ConcreteSample()

    def call(self, inputs):
        return self.z(inputs)


@pytest.mark.parametrize("make", [unbuilt, Unbuilt])
def test_an_unbuilt_model(tmp_path, make):
    with pytest.raises(ValueError, match="has not been built"):
        tfc.export.save_discrete(make(), tmp_path / "m")
    assert names(tmp_path) == []


def test_a_model_without_sampling_layer(tmp_path):
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(4)])
    with pytest.raises(ValueError, match="Expected a model with a sampling layer"):
        tfc.export.save_discrete(model, tmp_path / "m")
    assert names(tmp_path) == []


def test_what_is_no_model(tmp_path):
    with pytest.raises(TypeError, match="`model`. Expected a `keras.Model`"):
        tfc.export.save_discrete(tfc.ConcreteSample(), tmp_path / "m")


def test_an_output_with_the_name_of_codes(tmp_path):
    inputs = keras.Input([4])
    z = tfc.ConcreteSample(name="z")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2, name="z_codes")(z))
    with pytest.raises(ValueError, match="'z_codes'"):
        tfc.export.save_discrete(model, tmp_path / "m")
    assert names(tmp_path) == []


def test_versions_do_not_touch_each_other(tmp_path):
    model = functional()
    first = tfc.export.save_discrete(model, tmp_path)
    before = load(first)(image=images(4))["out"]
    model.trainable_weights[-1].assign_add(np.ones([5]))
    second = tfc.export.save_discrete(model, tmp_path)
    np.testing.assert_array_equal(load(first)(image=images(4))["out"], before)
    np.testing.assert_allclose(load(second)(image=images(4))["out"], before + 1, atol=1e-6)
