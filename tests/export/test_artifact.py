"""The artifact in `savedmodels/`: it loads, and gives the codes recorded beside it."""

import pathlib
import re

import numpy as np
import pytest

import tfconcrete as tfc
from tfconcrete.export.c_loader import run_separately

FOLDER = pathlib.Path(__file__).parents[2] / "savedmodels"
MODEL = FOLDER / "mnist_vae" / "2"


@pytest.fixture(scope="module")
def recorded():
    with np.load(FOLDER / "mnist_vae" / "recorded_codes.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


def test_the_recorded_codes_and_what_they_decode_to(recorded):
    images, codes = recorded["image"], recorded["codes"]
    answers = run_separately(
        MODEL,
        {
            "default": ("serving_default", {"image": images}),
            "codes": ("encode", {"image": images}),
            "digits": ("decode", {"codes": codes}),
            "new": ("generate", {"seeds": np.zeros([3, 2], np.int32)}),
            "wrong": ("decode", {"codes": np.stack([codes[0] * 0 + 8, codes[0] * 0 - 1])}),
        },
    )
    np.testing.assert_array_equal(answers["codes"]["codes"], codes)
    np.testing.assert_array_equal(answers["default"]["z_codes"], codes)
    decoded = answers["digits"]["images"]
    np.testing.assert_allclose(answers["default"]["reconstruction"], decoded, atol=1e-6)
    # It was trained: a decoded digit is nearer to its own image than to the others'.
    squares = np.square(decoded[:, None] - images[None]).sum((2, 3))
    assert np.mean(squares.argmin(1) == np.arange(len(images))) >= 0.75
    assert np.ptp(answers["new"]["images"], axis=0).max() < 1e-6  # one seed, one digit
    no_code, no_class = answers["wrong"]["images"]
    assert np.isnan(no_code).all() and np.isfinite(no_class).all()


def test_a_server_would_take_it():
    report = tfc.export.inspect(FOLDER / "mnist_vae")
    assert report.servable, str(report)
    assert set(report.signatures) == {"serving_default", "encode", "decode", "generate"}
    assert report.size <= 3_000_000
    # Which int8 LiteRT gets wrong: a sign of an older exporter.
    assert not any("OneHot" in signature.ops for signature in report.signatures.values())


def test_the_configuration_names_it():
    pytest.importorskip("tensorflow_serving")
    from google.protobuf import text_format
    from tensorflow_serving.config import model_server_config_pb2

    text = (FOLDER / "models.config").read_text()
    config = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    (model,) = config.model_config_list.config
    assert (model.name, model.base_path) == ("mnist_vae", "/models/mnist_vae")


def test_files_that_docker_and_readme_name_are_there():
    compose = (FOLDER / "docker-compose.yml").read_text()
    named = re.findall(r"=/models/(\S+)", compose)
    assert len(named) == 3 and all((FOLDER / name).is_file() for name in named)
    readme = (FOLDER / "README.md").read_text()
    for path in re.findall(r"(?:keras_examples|savedmodels|tests)/[\w/]+\.\w+", readme):
        if path != "savedmodels/export_and_serve.png":  # renamed by the next command
            assert (FOLDER.parent / path).is_file(), path


def test_no_path_of_the_machine_that_made_it():
    content = b"".join(file.read_bytes() for file in MODEL.rglob("*") if file.is_file())
    assert b"/home/" not in content and b".py" not in content
