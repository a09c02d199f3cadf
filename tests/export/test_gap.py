"""`max_gap`: a model that lives from its relaxation is not exported."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.export.small import images, vae


def blurred():
    """A model whose target is the centre of the simplex: no vertex comes near it."""
    inputs = keras.Input([4], name="x")
    model = keras.Model(inputs, tfc.ConcreteSample(temperature=50.0, seed=0)(inputs))
    model.compile(loss="mse")
    return model, np.zeros([64, 4], np.float32), np.full([64, 4], 0.25, np.float32)


@pytest.mark.parametrize("as_dataset", [True, False])
def test_refuses_with_both_numbers(tmp_path, as_dataset):
    model, x, y = blurred()
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16) if as_dataset else (x, y)
    with pytest.raises(ValueError, match="max_gap=0.1") as error:
        tfc.export.save_discrete(model, tmp_path / "m", validation_data=data, max_gap=0.1)
    discrete, relaxed, gap = (
        float(number) for number in re.findall(r"\d+\.\d+(?:e-\d+)?", str(error.value))[:3]
    )
    # A vertex is (0.75^2 + 3 * 0.25^2) / 4 from the centre; at temperature 50 the relaxed
    # sample is nearly there.
    assert discrete == pytest.approx(0.1875)
    assert relaxed < 1e-3
    assert gap == pytest.approx(discrete - relaxed, abs=1e-5)
    assert not (tmp_path / "m").exists()


def test_writes_where_the_gap_is_small_enough(tmp_path):
    model, x, y = blurred()
    state = [v.numpy() for v in model.variables]
    path = tfc.export.save_discrete(model, tmp_path / "m", validation_data=(x, y), max_gap=0.2)
    assert path.is_dir()
    for value, before in zip(model.variables, state, strict=True):
        np.testing.assert_array_equal(value.numpy(), before)


def test_a_nan_is_no_small_gap(tmp_path):
    model, x, y = blurred()
    with pytest.raises(ValueError, match="nan"):
        tfc.export.save_discrete(
            model, tmp_path / "m", validation_data=(x, y * np.nan), max_gap=1e9
        )


def test_a_vae_compares_its_own_bounds(tmp_path):
    model = vae(tfc.ConcreteSample(temperature=20.0, name="z", seed=0), kl="mass")
    model.encoder.layers[0].kernel.assign(10 * model.encoder.layers[0].kernel)
    model.decoder.layers[-1].kernel.assign(10 * model.decoder.layers[-1].kernel)
    model.compile("adam")
    x = images(64).round()
    logs = model.evaluate(x, verbose=0, return_dict=True)
    assert logs["discretization_gap"] > 2
    arguments = {"validation_data": x, "max_gap": logs["discretization_gap"] / 2}
    with pytest.raises(ValueError, match="the served argmax"):
        tfc.export.save_discrete(model, tmp_path / "m", **arguments)
    arguments["max_gap"] = 1e3
    assert tfc.export.save_discrete(model, tmp_path / "m", **arguments).is_dir()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"max_gap": 0.1}, ValueError),
        ({"max_gap": -1.0, "validation_data": (1, 2)}, ValueError),
        ({"max_gap": "small", "validation_data": (1, 2)}, TypeError),
    ],
)
def test_wrong_arguments(tmp_path, arguments, error):
    with pytest.raises(error, match="max_gap"):
        tfc.export.save_discrete(blurred()[0], tmp_path / "m", **arguments)
    assert not (tmp_path / "m").exists()


def test_a_model_without_loss(tmp_path):
    inputs = keras.Input([4])
    model = keras.Model(inputs, tfc.ConcreteSample()(inputs))
    with pytest.raises(ValueError, match="not compiled"):
        tfc.export.save_discrete(
            model, tmp_path / "m", validation_data=(images(2), images(2)), max_gap=1.0
        )
