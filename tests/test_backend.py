"""Under another Keras backend the import says which setting to change."""

import os
import subprocess
import sys

import pytest

import tfconcrete as tfc


def test_a_backend_that_keras_cannot_import():
    # In a process of its own: Keras reads the setting once.
    run = subprocess.run(
        [sys.executable, "-c", "import tfconcrete"],
        env={**os.environ, "KERAS_BACKEND": "nothing"},
        capture_output=True,
        text=True,
        check=False,
    )
    last = run.stderr.strip().splitlines()[-1]
    assert run.returncode == 1
    assert last.startswith("ImportError: tfconcrete runs on Keras 3 with the TensorFlow backend")
    assert "KERAS_BACKEND=tensorflow" in last
    assert '"nothing"' in last


def test_a_backend_that_keras_can_import(monkeypatch):
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    with pytest.raises(ImportError, match='backend "jax".*KERAS_BACKEND=tensorflow'):
        tfc._backend.check_backend()


@pytest.mark.parametrize("name", ["keras", "tensorflow"])
def test_what_is_not_installed_is_no_matter_of_the_setting(monkeypatch, name):
    error = ModuleNotFoundError(f"No module named '{name}'", name=name)

    def missing(*args, **kwargs):
        raise error

    monkeypatch.setattr("builtins.__import__", missing)
    with pytest.raises(ModuleNotFoundError) as raised:
        tfc._backend.check_backend()
    assert raised.value is error
