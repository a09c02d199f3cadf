"""Category usage, gradient numbers and the gap, against NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

D = tfc.diagnostics


def test_category_usage():
    codes = np.array([[0, 3], [0, 2], [1, 1], [1, 0]])
    usage = D.category_usage(codes, num_classes=4)
    np.testing.assert_allclose(usage.frequencies, [[0.5, 0.5, 0, 0], [0.25] * 4])
    np.testing.assert_allclose(usage.perplexity, [2.0, 4.0], rtol=1e-6)
    np.testing.assert_array_equal(usage.dead_classes, [2, 0])
    relaxed = 0.6 * np.eye(4)[codes] + 0.1
    for name, value in D.category_usage(relaxed)._asdict().items():
        np.testing.assert_allclose(value, getattr(usage, name), rtol=1e-6)
    moved = D.category_usage(np.moveaxis(relaxed, -1, 1), axis=1)
    np.testing.assert_allclose(moved.perplexity, [2.0, 4.0], rtol=1e-6)
    with pytest.raises(TypeError):
        D.category_usage(codes)
    with pytest.raises(TypeError):
        D.category_usage(codes > 0, num_classes=4)


def test_gradient_variance():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=[7, 2, 3]), rng.normal(size=[7, 5])
    np.testing.assert_allclose(D.gradient_variance(a), a.var(0, ddof=1).mean(), rtol=1e-6)
    both = np.concatenate([a.reshape(7, -1), b], 1)
    np.testing.assert_allclose(D.gradient_variance([a, b]), both.var(0, ddof=1).mean(), rtol=1e-6)
    with pytest.raises(ValueError, match="`gradients`"):
        D.gradient_variance(np.ones([1, 3]))


def test_vanishing_gradients():
    gradients = [np.array([[0.0, -0.0, 1e-38], [1.0, 0.0, 2.0]]), np.zeros([4])]
    assert float(D.vanishing_gradients(gradients)) == pytest.approx(0.7)
    assert float(D.vanishing_gradients(tf.ones([3], tf.float16))) == 0.0


def test_integrality_gap():
    """For a linear read-out both losses are known: the mean of the value each mode gives."""
    layer = tfc.ConcreteSample(temperature=1.0, seed=0)
    inputs = keras.Input([3])
    model = keras.Model(inputs, layer(inputs))
    model.compile(loss=lambda y, p: keras.ops.sum(y * p, -1), metrics=["mse"])
    x = np.tile(np.array([[0.0, 1.0, 0.5]], np.float32), [500, 1])
    y = np.tile(np.array([[1.0, 2.0, 4.0]], np.float32), [500, 1])
    own = model.evaluate(x, y, verbose=0, return_dict=True)
    function, state = model.test_function, layer.seed_generator.state.numpy()
    gap = D.integrality_gap(model, (x, y))
    assert gap.discrete["loss"] == own["loss"] == 2.0
    relaxed = tfc.relaxations.concrete(tf.tile(x, [40, 1]), 1.0, seed=1).numpy() @ y[0]
    error = relaxed.std() / np.sqrt(500)
    assert abs(gap.relaxed["loss"] - relaxed.mean()) < 4.5 * error
    assert gap.gap["loss"] == pytest.approx(gap.discrete["loss"] - gap.relaxed["loss"])
    assert sorted(gap.gap) == sorted(own)
    assert model.test_function is function
    np.testing.assert_array_equal(layer.seed_generator.state.numpy(), state)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(50)
    assert D.integrality_gap(model, data).discrete["loss"] == 2.0
