"""The softmax of tensors whose rank the CPU kernel of TensorFlow refuses."""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import tfconcrete as tfc
from tfconcrete._softmax import softmax

SHAPE = (2, 3, 1, 2, 2, 4, 2)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("rank", "axis"), [(1, 0), (5, -1), (6, -1), (6, 1), (7, 5), (7, -7)])
def test_every_rank(rank, axis, compiled):
    x = np.float32(np.random.default_rng(rank).normal(0, 3, SHAPE[-rank:]))
    run = tf.function(lambda x: softmax(x, axis), jit_compile=compiled)
    expected = scipy.special.softmax(np.float64(x), axis)
    for value in (softmax(tf.constant(x), axis), run(x)):
        assert value.shape == x.shape
        np.testing.assert_allclose(value, expected, atol=1e-6)


def test_gradient_and_empty_batch():
    x = tf.constant(np.random.default_rng(0).normal(size=SHAPE))
    upstream = tf.constant(np.random.default_rng(1).normal(size=SHAPE))
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = softmax(x, 5)
    slope = tape.gradient(value, x, output_gradients=upstream)
    p = scipy.special.softmax(x.numpy(), 5)
    expected = p * (upstream - np.sum(p * upstream, 5, keepdims=True))
    np.testing.assert_allclose(slope, expected, atol=1e-12)
    assert softmax(tf.zeros([0, 2, 1, 1, 1, 3])).shape == (0, 2, 1, 1, 1, 3)


def test_layers_take_tensors_of_rank_six():
    logits = tf.constant(np.random.default_rng(2).normal(size=SHAPE[1:]), tf.float32)
    for layer in (tfc.ConcreteSample(), tfc.GapStraightThrough(), tfc.layers.ReinMax()):
        for training in (True, False):
            total = tf.reduce_sum(layer(logits, training=training), -1)
            np.testing.assert_allclose(total, 1.0, atol=1e-5)
