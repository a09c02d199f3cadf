"""Files that version 0.1.0 wrote load, and give the outputs that they gave then."""

import pathlib

import keras
import numpy as np
import pytest

import tfconcrete as tfc

FILES = pathlib.Path(__file__).parent / "version_0_1_0"
OUTPUTS = np.load(FILES / "outputs.npz")
LAYERS = [
    "concrete",
    "concrete_schedule",
    "concrete_hard",
    "exp_concrete",
    "bin_concrete",
    "straight_through",
    "gumbel_rao",
    "gapped",
    "reinmax",
    "igr",
    "igr_stick_breaking",
    "igr_flow",
]
MODELS = [
    "discrete_vae",
    "stack",
    "igr_vae",
    "joint_vae",
    "score_function_vae",
    "structured_predictor",
]

# Keras' own layers are written with arguments that an older Keras does not know.
needs_as_new_a_keras = pytest.mark.skipif(
    tuple(map(int, keras.__version__.split(".")[:2])) < (3, 15),
    reason="the files were written by Keras 3.15, which this one cannot read",
)


@needs_as_new_a_keras
@pytest.mark.parametrize("name", LAYERS)
def test_functional_models(name):
    model = keras.models.load_model(FILES / f"{name}.keras", safe_mode=True)
    x = OUTPUTS["x"]
    np.testing.assert_allclose(model(x), OUTPUTS[f"{name}_predict"], rtol=1e-5, atol=1e-6)
    # The noise goes on where the file was written.
    found = np.asarray(model(x, training=True))
    np.testing.assert_allclose(found, OUTPUTS[f"{name}_train"], rtol=1e-4, atol=1e-5)
    assert int(model.optimizer.iterations) == 2


@needs_as_new_a_keras
@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    model = keras.models.load_model(FILES / f"{name}.keras", safe_mode=True)
    x = OUTPUTS["xb"]
    found = model.predict(x, verbose=0)
    np.testing.assert_allclose(found, OUTPUTS[f"{name}_predict"], rtol=1e-5, atol=1e-6)
    if hasattr(model, "encode"):
        codes = model.encode(x)
        codes = codes[0] if isinstance(codes, list) else codes
        np.testing.assert_array_equal(codes, OUTPUTS[f"{name}_codes"])
    assert int(model.optimizer.iterations) == int(OUTPUTS[f"{name}_iterations"])
    data = (x, x) if name == "structured_predictor" else (x,)
    assert np.isfinite(model.fit(*data, verbose=0).history["loss"]).all()


@pytest.mark.parametrize("name", ["concrete", "concrete_schedule"])
def test_weights(name):
    inputs = keras.Input([6], name="x")
    temperature = 0.5
    if name == "concrete_schedule":
        temperature = tfc.schedules.ExponentialAnnealing(1.0, 0.5, 0.1)
    logits = keras.layers.Dense(4, name="logits")(inputs)
    model = keras.Model(inputs, tfc.ConcreteSample(temperature, name="z", seed=3)(logits))
    model.load_weights(FILES / f"{name}.weights.h5")
    np.testing.assert_allclose(model(OUTPUTS["x"]), OUTPUTS[f"{name}_predict"], rtol=1e-5)
