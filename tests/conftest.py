"""Shared by all tests: what every docstring example may use, and quiet start-up."""

import gc
import os

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")


def pytest_collection_finish(session):
    """Modules and tests are no garbage: a tenth of the time went to looking at them again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.fixture
def only_new_garbage():
    """Where garbage is collected on purpose: not through all that other tests left."""
    gc.freeze()
    yield
