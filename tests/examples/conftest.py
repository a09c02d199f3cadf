"""The examples as modules of their package, run in this process."""

import importlib

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest


@pytest.fixture
def example(monkeypatch):
    """From the name of an example (or of a module they share) to its module."""
    monkeypatch.delenv("TFDS_DATA_DIR", raising=False)
    yield lambda name: importlib.import_module(f"keras_examples.{name}")
    plt.close("all")
