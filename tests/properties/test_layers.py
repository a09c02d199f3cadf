"""Every sampling layer in each of its modes, by the laws of `test_samples.py`."""

import pytest

from tests.properties.layers import LAYERS
from tests.properties.test_samples import examine


@pytest.mark.parametrize("name", LAYERS)
def test_a_few_in_eager(name):
    examine(LAYERS[name], "eager", 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_many_in_eager(name):
    examine(LAYERS[name], "eager", 100)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", "xla"])
@pytest.mark.parametrize("name", LAYERS)
def test_many_compiled(name, mode):
    examine(LAYERS[name], mode, 15)
