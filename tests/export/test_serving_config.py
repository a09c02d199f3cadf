"""The files a server is started with, parsed back by its own protos where there are any."""

import os
import pathlib
import re
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

import tfconcrete as tfc
from tests.export.batching import batched, parameters
from tests.export.small import functional, images

pytest.importorskip("tensorflow_serving")
from tensorflow_serving.config import model_server_config_pb2


def make_models(folder, *names):
    for name in names:
        (folder / name / "1").mkdir(parents=True)
    (folder / "nothing").mkdir()
    return folder


def parsed(files):
    text = pathlib.Path(files["models.config"]).read_text(encoding="utf-8")
    config = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    return config.model_config_list.config


def test_models_config_is_what_a_server_reads(tmp_path):
    files = tfc.export.write_serving_config(make_models(tmp_path, "a", "b"), keep_versions=2)
    models = parsed(files)
    assert [model.name for model in models] == ["a", "b"]
    assert models[0].base_path == str(tmp_path / "a")
    assert models[0].model_platform == "tensorflow"
    assert models[0].model_version_policy.latest.num_versions == 2


def test_one_model_in_its_own_folder(tmp_path):
    make_models(tmp_path, "a")
    files = tfc.export.write_serving_config(str(tmp_path / "a"))
    assert sorted(files) == ["batching_parameters.txt", "models.config", "monitoring.config"]
    (model,) = parsed(files)
    assert (model.name, model.base_path) == ("a", str(tmp_path / "a"))


def test_names_and_places_of_ones_own(tmp_path):
    make_models(tmp_path, "a")
    models = {"digits": tmp_path / "a"}
    files = tfc.export.write_serving_config(tmp_path / "new", models, base_path="/models")
    (model,) = parsed(files)
    assert (model.name, model.base_path) == ("digits", "/models/a")


@pytest.mark.parametrize(
    "name",
    [
        'with "quotes" and \\',
        "two\nlines\t",
        "m\u00fcll \u2713",
        "'\x01'",
    ],
)
def test_odd_characters_survive(tmp_path, name):
    path = tmp_path / os.fsdecode(name.encode())  # also where the locale is no UTF-8
    files = tfc.export.write_serving_config(tmp_path, {"m": path})
    assert parsed(files)[0].base_path == f"{tmp_path}/{name}"


def test_a_path_that_is_no_text(tmp_path):
    with pytest.raises(ValueError, match="Expected paths in UTF-8"):
        tfc.export.write_serving_config(tmp_path, {"m": tmp_path / os.fsdecode(b"\xff")})


def test_batching_and_monitoring(tmp_path):
    """Their protos are not in the package: names and values as in TF Serving's guide."""
    make_models(tmp_path, "a")
    files = tfc.export.write_serving_config(
        tmp_path, max_batch_size=32, batch_timeout_micros=0, num_batch_threads=2
    )
    lines = pathlib.Path(files["batching_parameters.txt"]).read_text().splitlines()
    assert dict(re.fullmatch(r"(\w+) { value: (\w+) }", line).groups() for line in lines) == {
        "max_batch_size": "32",
        "batch_timeout_micros": "0",
        "max_enqueued_batches": "1000",
        "num_batch_threads": "2",
        "enable_large_batch_splitting": "true",
        "max_execution_batch_size": "32",
    }
    assert pathlib.Path(files["monitoring.config"]).read_text().split() == [
        "prometheus_config",
        "{",
        "enable:",
        "true",
        "path:",
        '"/monitoring/prometheus/metrics"',
        "}",
    ]


def double(x):
    """Twice the input, and how many rows ran together."""
    rows = tf.shape(x)[0]
    return 2 * x, tf.fill([rows], rows)


ROWS = tf.TensorSpec([None, 2], tf.float32)


@pytest.mark.parametrize("rows", [1, 127, 128, 129, 1_000, 10_000])
def test_requests_of_every_size_are_answered(tmp_path, rows):
    """By the scheduler that TF Serving batches with, which is in TensorFlow's wheel."""
    written = parameters(tfc.export.write_serving_config(make_models(tmp_path, "a")))
    x = np.random.default_rng(0).random([rows, 2], np.float32)
    answer, together = batched(double, [ROWS], **written)(x)
    np.testing.assert_array_equal(answer, 2 * x)
    assert together.numpy().max() == min(rows, 128)


def test_only_requests_above_the_limit_are_refused(tmp_path):
    make_models(tmp_path, "a")
    files = tfc.export.write_serving_config(
        tmp_path, max_batch_size=40, max_execution_batch_size=16
    )
    run = batched(double, [ROWS], **parameters(files))
    assert run(np.ones([40, 2], np.float32))[1].numpy().max() == 16
    with pytest.raises(tf.errors.InvalidArgumentError, match="larger than maximum input batch"):
        run(np.ones([41, 2], np.float32))


def test_eight_of_the_largest_requests_at_once(tmp_path):
    written = parameters(tfc.export.write_serving_config(make_models(tmp_path, "a")))
    run = batched(double, [ROWS], **written)
    x = np.ones([10_000, 2], np.float32)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(run(x)[0])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8 and all(np.array_equal(answer, 2 * x) for answer in answers)


def sentences():
    """A model whose requests differ in length."""
    words = keras.Input([None, 3], name="words")
    z = tfc.ConcreteSample(name="z")(keras.layers.Dense(4)(words))
    return keras.Model(words, z)


def test_lengths_that_differ_are_not_batched(tmp_path, caplog):
    tfc.export.save_discrete(sentences(), tmp_path / "text")
    before = tfc.export.write_serving_config(tmp_path, pad_variable_length_inputs=True)
    text = pathlib.Path(before["batching_parameters.txt"]).read_text()
    assert text.endswith("pad_variable_length_inputs: true\n")
    with caplog.at_level("WARNING", logger="absl"):
        files = tfc.export.write_serving_config(tmp_path)
    assert sorted(files) == ["models.config", "monitoring.config"]
    assert not (tmp_path / "batching_parameters.txt").exists()
    assert "serving_default/words" in caplog.text


def test_a_limit_below_a_warmup_record_is_refused(tmp_path):
    tfc.export.save_discrete(functional(), tmp_path / "m", warmup=images(100))
    tfc.export.write_serving_config(tmp_path, max_batch_size=100)
    with pytest.raises(ValueError, match="`max_batch_size`. Expected at least 100"):
        tfc.export.write_serving_config(tmp_path, max_batch_size=99)


def test_an_error_leaves_the_old_files(tmp_path, monkeypatch):
    make_models(tmp_path, "a")
    files = tfc.export.write_serving_config(tmp_path)
    before = {name: pathlib.Path(path).read_text() for name, path in files.items()}

    def fail(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ValueError, match="`path`.*No space left on device"):
        tfc.export.write_serving_config(tmp_path, keep_versions=7)
    assert {name: pathlib.Path(path).read_text() for name, path in files.items()} == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", *sorted(files), "nothing"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_batch_size": 0},
        {"keep_versions": 0},
        {"num_batch_threads": 1.5},
        {"models": []},
        {"models": {}},
        {"models": {"a": 3}},
        {"models": {"..": "x"}},
        {"base_path": 3},
        {"models": {"a b": "x"}},
        {"models": {"m\u00fc": "x"}},
        {"models": ["x/a b"]},
        {"max_execution_batch_size": 10_001},
        {"max_enqueued_batches": 78},
        {"pad_variable_length_inputs": 1},
        {"monitoring": "yes"},
        {"models": ["x/a", "y/a"]},
    ],
)
def test_wrong_arguments_write_nothing(tmp_path, arguments):
    make_models(tmp_path, "a")
    with pytest.raises((ValueError, TypeError), match=next(iter(arguments))):
        tfc.export.write_serving_config(tmp_path, **arguments)
    assert not (tmp_path / "models.config").exists()


def test_a_folder_without_models(tmp_path):
    with pytest.raises(ValueError, match="exported models"):
        tfc.export.write_serving_config(tmp_path)
