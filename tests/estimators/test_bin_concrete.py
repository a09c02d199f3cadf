"""Straight-through Binary Concrete: the draw, its gradient, masks, dtypes, modes."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

from tfconcrete import noise
from tfconcrete.estimators import bin_concrete_straight_through

NAN, INF = float("nan"), float("inf")


def test_frequencies_are_the_sigmoid():
    num = 20_000
    logits = np.array([-2.0, -0.3, 0.0, 1.5], np.float32)
    counts = bin_concrete_straight_through(np.tile(logits, [num, 1]), 0.4, seed=1).numpy().sum(0)
    for count, p in zip(counts, scipy.special.expit(logits), strict=True):
        assert scipy.stats.binomtest(int(count), num, float(p)).pvalue > 1e-4


@pytest.mark.parametrize("jit_compile", [None, False, True])
def test_value_and_gradient(vjp, jit_compile):
    temperature = 0.6
    logits = 2.0 * tf.random.stateless_normal([3000, 4], [0, 1])
    upstream = tf.random.stateless_normal([3000, 4], [0, 2])

    def run(logits):
        return vjp(
            lambda x: bin_concrete_straight_through(x, temperature, seed=3), logits, upstream
        )

    if jit_compile is not None:
        run = tf.function(run, jit_compile=jit_compile)
    value, gradient = run(logits)
    perturbed = logits.numpy().astype(np.float64) + noise.logistic([3000, 4], 3).numpy()
    np.testing.assert_array_equal(value, perturbed > 0)
    soft = scipy.special.expit(perturbed / temperature)
    np.testing.assert_allclose(gradient, upstream * soft * (1.0 - soft) / temperature, atol=1e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_masks(vjp, jit_compile):
    logits = tf.constant([[NAN, INF, -INF, 0.5], [1e4, -1e4, INF, -INF]])
    mask = tf.constant([[False, False, False, True], [True, True, True, True]])
    upstream = tf.where(mask, 1.0, NAN)
    run = tf.function(
        lambda x: vjp(
            lambda x: bin_concrete_straight_through(x, 0.5, class_mask=mask, seed=0), x, upstream
        ),
        jit_compile=jit_compile,
    )
    value, gradient = run(logits)
    np.testing.assert_array_equal(value[0, :3], 0.0)
    np.testing.assert_array_equal(gradient[0, :3], 0.0)
    assert gradient[0, 3] > 0.0
    np.testing.assert_array_equal(value[1], [1.0, 0.0, 1.0, 0.0])
    assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64])
def test_dtypes(vjp, dtype):
    logits = tf.cast(tf.random.stateless_normal([100], [0, 1]), dtype)
    value, gradient = vjp(lambda x: bin_concrete_straight_through(x, 0.3, seed=0), logits, None)
    assert value.dtype == dtype and gradient.dtype == dtype
    assert set(np.unique(tf.cast(value, tf.float32))) == {0.0, 1.0}
    assert np.all(np.isfinite(tf.cast(gradient, tf.float32)))


def test_bad_arguments():
    with pytest.raises(TypeError, match="`logits`. Expected floating-point values"):
        bin_concrete_straight_through(tf.constant([1, 2]), 0.5)
    with pytest.raises(TypeError, match="`class_mask`. Expected a boolean mask"):
        bin_concrete_straight_through(tf.zeros([2]), 0.5, class_mask=[1, 0])
