"""The files a server is started with, parsed back by its own protos where there are any."""

import pathlib
import re

import pytest
from google.protobuf import text_format

import tfconcrete as tfc

pytest.importorskip("tensorflow_serving")
from tensorflow_serving.config import model_server_config_pb2


def make_models(folder, *names):
    for name in names:
        (folder / name / "1").mkdir(parents=True)
    (folder / "nothing").mkdir()
    return folder


def parsed(files):
    text = pathlib.Path(files["models.config"]).read_text()
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


def test_odd_characters_survive(tmp_path):
    place = tmp_path / 'with "quotes" and \\'
    files = tfc.export.write_serving_config(tmp_path, {"m": place})
    assert parsed(files)[0].base_path == str(place)


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
        "max_enqueued_batches": "100",
        "num_batch_threads": "2",
        "enable_large_batch_splitting": "true",
        "max_execution_batch_size": "32",
    }
    assert pathlib.Path(files["monitoring.config"]).read_text().split() == [
        "prometheus_config", "{", "enable:", "true",
        "path:", '"/monitoring/prometheus/metrics"', "}",
    ]  # fmt: skip


@pytest.mark.parametrize("arguments", [
    {"max_batch_size": 0}, {"keep_versions": 0}, {"num_batch_threads": 1.5},
    {"models": []}, {"models": {"a b": "x"}}, {"monitoring": "yes"}, {"models": ["x/a", "y/a"]},
])  # fmt: skip
def test_wrong_arguments_write_nothing(tmp_path, arguments):
    make_models(tmp_path, "a")
    with pytest.raises((ValueError, TypeError), match=next(iter(arguments))):
        tfc.export.write_serving_config(tmp_path, **arguments)
    assert not (tmp_path / "models.config").exists()


def test_a_folder_without_models(tmp_path):
    with pytest.raises(ValueError, match="exported models"):
        tfc.export.write_serving_config(tmp_path)
