"""The recipes of CONTRIBUTING.md, carried out with public names, exported and served."""

import pathlib
import re

import keras
import numpy as np
import pytest
import scipy.stats

import tfconcrete as tfc
from tfconcrete.export.c_loader import run_separately

ROOT = pathlib.Path(__file__).parents[1]
BLOCKS = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE | re.DOTALL
)


@pytest.fixture(scope="module")
def names():
    names = {"__name__": "recipes"}
    for block in BLOCKS:
        exec(compile(block, "CONTRIBUTING.md", "exec"), names)
    return names


def served(model, path, signature, inputs):
    version = tfc.export.save_discrete(model, path)
    assert not tfc.export.inspect(version).problems
    return run_separately(version, {"only": (signature, inputs)})["only"]


def restored(model, path):
    model.save(path)
    return keras.models.load_model(path, safe_mode=True)


def test_a_straight_through_layer(names, tmp_path):
    model, x = names["classifier"], names["x"][:5]
    codes = model.get_layer("code").variable.codes(
        keras.Model(model.input, model.get_layer("code").input)(x)
    )
    answer = served(model, tmp_path / "m", "serving_default", {"features": x})
    np.testing.assert_array_equal(answer["code_codes"], codes)
    np.testing.assert_allclose(answer["label"], model(x), rtol=1e-4, atol=1e-5)
    again = restored(model, tmp_path / "model.keras")
    np.testing.assert_allclose(again(x), model(x), rtol=1e-5)
    layer, logits = names["SlopeAnnealed"](0.5, seed=0), np.zeros([200, 3], "float32")
    sample = layer(logits, class_mask=[True, False, True], training=True).numpy()
    np.testing.assert_array_equal(sample.sum(-1), 1.0)
    assert not sample[:, 1].any()


def test_a_likelihood(names, tmp_path):
    model, x = names["counter"], names["counts"][:5]
    log_rate = np.linspace(-1, 1, 20, dtype="float32")[np.newaxis].repeat(5, 0)
    found = names["Poisson"]().log_prob(x, log_rate)
    expected = scipy.stats.poisson.logpmf(x, np.exp(log_rate)).sum(-1)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    with pytest.raises(ValueError, match="Counts are not negative"):
        model.fit(-x - 1.0, verbose=0)
    answer = served(model, tmp_path / "m", "encode", {"x": x})
    np.testing.assert_array_equal(answer["codes"], model.encode(x))
    again = restored(model, tmp_path / "model.keras")
    np.testing.assert_array_equal(again.encode(x), model.encode(x))


def test_a_model(names, tmp_path):
    model, x = names["channel"], (names["x"][:5] > 0).astype("float32")
    assert {"loss", "discretization_gap"} <= set(model.evaluate(x, verbose=0, return_dict=True))
    answer = served(model, tmp_path / "m", "send", {"x": x})
    logits = model.encoder(x)
    np.testing.assert_array_equal(answer["message"], np.argmax(logits, -1))
    again = restored(model, tmp_path / "model.keras")
    np.testing.assert_allclose(again(x), model(x), rtol=1e-5)
