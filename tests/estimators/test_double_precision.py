"""In float64 a temperature such as 0.1 keeps all its digits."""

import numpy as np
import scipy.special
import tensorflow as tf

from tfconcrete import estimators, relaxations

LOGITS = np.random.default_rng(0).normal(size=[5, 4])


def _jacobian_row(estimator):
    """The gradient of the first class's output, per row."""
    logits = tf.constant(LOGITS)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        first = tf.reduce_sum(estimator(logits, 0.1, seed=3)[:, 0])
    return tape.gradient(first, logits).numpy()


def _softmax_row(scores):
    p = scipy.special.softmax(scores, -1)
    return p[:, :1] * (np.eye(4)[0] - p) / 0.1


def test_straight_through():
    np.testing.assert_allclose(
        _jacobian_row(estimators.straight_through), _softmax_row(LOGITS / 0.1), atol=1e-12
    )


def test_gapped():
    one_hot = relaxations.categorical(tf.constant(LOGITS), seed=3).numpy()
    top = LOGITS.max(-1, keepdims=True)
    m1 = (top - np.sum(LOGITS * one_hot, -1, keepdims=True)) * one_hot
    m2 = np.maximum(LOGITS + 1.0 - top, 0) * (1 - one_hot)
    np.testing.assert_allclose(
        _jacobian_row(estimators.gapped_straight_through),
        _softmax_row((LOGITS + m1 - m2) / 0.1),
        atol=1e-12,
    )
