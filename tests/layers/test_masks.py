"""A masked class is nowhere: not in the value, not in the gradient, in no mode."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

NAN, INF = float("nan"), float("inf")
LOGITS = np.array(
    [[0.5, NAN, 1.0, INF], [INF, 0.0, 1.0, -1.0], [0.0, 1.0, 2.0, 3.0], [NAN, INF, -INF, 0.0]],
    np.float32,
)
MASK = np.array([[1, 0, 1, 0], [0, 1, 1, 1], [0, 0, 1, 0], [0, 0, 0, 0]], bool)


def igr_safe(case):
    """IGR's classes come from differences, so a bad logit is given as a location."""
    if not case.is_igr:
        return tf.constant(LOGITS)
    return [tf.constant(LOGITS[:, :-1]), tf.zeros([4, 3])]


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_masked_classes(masked_layer, policy, compiled):
    case = masked_layer
    layers = [
        case.make(dtype=policy, seed=2, inference=mode) for mode in ("argmax", "sample", "probs")
    ]
    inputs = igr_safe(case)

    def run(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            sample = layers[0](inputs, class_mask=MASK, training=True)
            value = tf.exp(sample) if case.is_log else sample
            loss = tf.reduce_sum(value * tf.cast([1.0, -2.0, 3.0, 0.5], sample.dtype))
        gradient = tape.gradient(loss, inputs)
        return gradient, [sample] + [layer(inputs, class_mask=MASK) for layer in layers]

    gradient, outputs = (tf.function(run, jit_compile=True) if compiled else run)(inputs)
    for output in outputs:
        value = case.simplex(output)
        assert np.all(np.isfinite(value))
        assert not np.any(value[~MASK])
        if not case.is_binary:
            np.testing.assert_allclose(value.sum(-1), MASK.any(-1), atol=2e-3)
    for g in tf.nest.flatten(gradient):
        g = g.numpy().astype(np.float64)
        assert np.all(np.isfinite(g))
        assert not np.any(g[~MASK[:, : g.shape[-1]]])


def test_masks_broadcast(masked_layer):
    case = masked_layer
    logits = tf.random.stateless_normal([2, 3, 4], [0, 1])
    mask = np.array([True, False, True, True])
    layer = case.make(seed=0)
    full = layer(case.inputs(logits), class_mask=np.broadcast_to(mask, [2, 3, 4]))
    for small in (mask, mask[None], mask.tolist(), tf.constant(mask)):
        np.testing.assert_array_equal(layer(case.inputs(logits), class_mask=small), full)
    assert not np.any(case.simplex(full)[..., 1])


@pytest.mark.parametrize("positional", [True, False])
def test_symbolic_masks(masked_layer, positional, tmp_path):
    """A mask that is an input of a functional model, and that is saved with it."""
    case = masked_layer
    logits, mask = case.symbolic(4), keras.Input([4], dtype="bool")
    layer = case.make(seed=1, name="z")
    outputs = layer(logits, mask) if positional else layer(logits, class_mask=mask)
    assert outputs.shape == (None, 4)
    model = keras.Model([logits, mask], outputs)
    values = case.inputs(tf.constant([[3.0, 2.0, 1.0, 0.0]]))
    result = model([values, tf.constant([[False, True, True, True]])])
    assert case.simplex(result)[0, 0] == 0.0
    if not case.is_binary:
        np.testing.assert_array_equal(case.simplex(result), [[0.0, 1.0, 0.0, 0.0]])
    path = str(tmp_path / "model.keras")
    model.save(path)
    again = keras.models.load_model(path)
    np.testing.assert_array_equal(again([values, tf.constant([[False, True, True, True]])]), result)


def test_a_constant_mask_is_saved(tmp_path):
    inputs = keras.Input([3])
    outputs = tfc.ConcreteSample()(inputs, class_mask=np.array([False, True, True]))
    model = keras.Model(inputs, outputs)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(np.array([[9.0, 1.0, 2.0]])), [[0.0, 0.0, 1.0]])


def test_the_class_axis(axis_layer):
    """Classes along another axis are the same classes."""
    case = axis_layer
    logits = tf.random.stateless_normal([2, 4, 3], [0, 1])
    moved = [
        tf.transpose(x, [0, 2, 1])
        for x in tf.nest.flatten(case.inputs(tf.transpose(logits, [0, 2, 1])))
    ]
    inputs = moved if case.is_igr else moved[0]
    mask = np.array([True, True, False, True])
    last = case.make(seed=4)(case.inputs(tf.transpose(logits, [0, 2, 1])), class_mask=mask)
    for axis in (1, -2):
        layer = case.make(axis=axis, seed=4)
        for training in (False, True):
            output = layer(inputs, class_mask=mask[:, None], training=training)
            assert output.shape == [2, 4, 3]
            value = case.simplex(output)
            np.testing.assert_allclose(value.sum(1), 1.0, rtol=1e-5)
            assert not np.any(value[:, 2])
        argmax = layer(inputs, class_mask=mask[:, None])
        np.testing.assert_array_equal(np.swapaxes(argmax, 1, 2), last)
