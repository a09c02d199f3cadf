"""The examples as modules: imported from their folder, run in this process."""

import importlib
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "keras_examples"


@pytest.fixture
def example(monkeypatch):
    """From the name of an example (or of a module they share) to its module."""
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    monkeypatch.delenv("TFDS_DATA_DIR", raising=False)
    yield importlib.import_module
    plt.close("all")
