"""What an artifact holds: weights once, and nothing that a server should not have."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.export.small import functional, images, load, vae


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model trained with XLA and an optimizer that has state, and its export."""
    model = functional(
        tfc.ConcreteSample(tfc.schedules.ExponentialAnnealing(1.0, 0.5, 0.1), name="z", seed=0)
    )
    model.compile("adam", "mse", jit_compile=True)
    model.fit(images(16), np.ones([16, 5], np.float32), verbose=0)
    path = tfc.export.save_discrete(model, tmp_path_factory.mktemp("trained") / "model")
    return model, path


def test_weights_are_stored_once_and_nothing_else(trained):
    model, path = trained
    reader = tf.train.load_checkpoint(str(path / "variables" / "variables"))
    stored = [
        reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if not name.startswith("_")
    ]
    expected = [w.numpy() for w in model.trainable_weights]
    assert sorted(w.shape for w in stored) == sorted(w.shape for w in expected)
    assert sum(w.sum() for w in stored) == pytest.approx(sum(w.sum() for w in expected))


def test_the_variables_file_is_hardly_larger_than_the_weights(tmp_path):
    inputs = keras.Input([784], name="image")
    x = keras.layers.Reshape([20, 10])(keras.layers.Dense(200)(inputs))
    model = keras.Model(inputs, tfc.ConcreteSample(name="z")(x))
    path = tfc.export.save_discrete(model, tmp_path / "model")
    weights = sum(w.numpy().nbytes for w in model.trainable_weights)
    report = tfc.export.inspect(path)
    assert report.weights_size == weights
    assert weights <= report.variables_size <= 1.02 * weights


def test_no_random_op_no_assignment_no_xla_no_bit_tricks(trained):
    ops = tfc.export.inspect(trained[1]).ops["serving_default"]
    assert not [op for op in ops if "Random" in op or "Multinomial" in op]
    assert not [op for op in ops if "Assign" in op]
    assert not {"Bitcast", "BitwiseAnd", "PyFunc", "EagerPyFunc"} & set(ops)
    assert b"_XlaMustCompile" not in (trained[1] / "saved_model.pb").read_bytes()


def test_training_goes_on_after_an_export(trained):
    model, _ = trained
    before = model.optimizer.iterations.numpy()
    model.fit(images(16), np.ones([16, 5], np.float32), verbose=0)
    assert model.optimizer.iterations.numpy() == before + 1


@pytest.mark.parametrize("policy", ["float16", "float64", "mixed_float16", "mixed_bfloat16"])
def test_float32_at_the_boundary(tmp_path, policy):
    previous = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        models = {"plain": functional(), "vae": vae()}
    finally:
        keras.config.set_dtype_policy(previous)
    for name, model in models.items():
        path = tfc.export.save_discrete(model, tmp_path / name)
        for signature in tfc.export.inspect(path).signatures.values():
            tensors = {**signature.inputs, **signature.outputs}
            for key, tensor in tensors.items():
                whole = "codes" in key or key == "seeds"
                assert tensor.dtype == ("int32" if whole else "float32"), key
    x = images(4)
    answer = load(path)(image=x)["reconstruction"]
    np.testing.assert_allclose(answer, models["vae"](x), rtol=0, atol=1e-6)


def test_a_random_op_behind_an_output_is_refused(tmp_path):
    class Noisy(keras.Model):
        def __init__(self):
            super().__init__()
            self.z = tfc.ConcreteSample(name="z")

        def call(self, inputs):
            return self.z(inputs + tf.random.normal(tf.shape(inputs)))

    model = Noisy()
    model(images(2))
    with pytest.raises(ValueError, match=r"random ops \(RandomStandardNormal\)"):
        tfc.export.save_discrete(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()
