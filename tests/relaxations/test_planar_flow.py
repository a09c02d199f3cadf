"""Planar flows: the constraint, the Jacobian, the inverse."""

import numpy as np
import pytest
import tensorflow as tf

from tfconcrete.relaxations.planar_flow import (
    constrained_direction,
    planar_flow,
    planar_flow_inverse,
)


def draw(seed, size=4, factor=1.0):
    rng = np.random.default_rng(seed)
    return factor * rng.normal(size=size), factor * rng.normal(size=size), rng.normal()


@pytest.mark.parametrize("seed", range(5))
def test_direction_is_invertible(seed):
    u, w, _ = draw(seed, factor=5.0)
    u_hat, inner = constrained_direction(tf.constant(u), tf.constant(w))
    np.testing.assert_allclose(w @ u_hat.numpy(), inner, atol=1e-10)
    assert w @ u_hat.numpy() > -1
    # Only the component along w moves.
    across = (u_hat.numpy() - u) - w * (w @ (u_hat.numpy() - u)) / (w @ w)
    np.testing.assert_allclose(across, 0, atol=1e-12)


def test_zero_u_is_the_identity_and_zero_w_a_shift():
    y = tf.constant([[0.3, -2.0]])
    z, log_det = planar_flow(y, tf.zeros(2), tf.constant([1.0, 2.0]), 0.5)
    np.testing.assert_allclose(z, y, atol=1e-6)
    np.testing.assert_allclose(log_det, 0, atol=1e-6)
    z, log_det = planar_flow(y, tf.constant([1.0, 2.0]), tf.zeros(2), 0.5)
    np.testing.assert_allclose(z - y, np.tanh(0.5) * np.array([[1.0, 2.0]]), rtol=1e-6)
    np.testing.assert_allclose(log_det, 0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("factor", [0.3, 3.0])
def test_inverse_and_jacobian(seed, factor):
    u, w, b = (tf.constant(v) for v in draw(seed, factor=factor))
    y = tf.constant(np.random.default_rng(9).normal(size=(50, 4)) * 3)
    with tf.GradientTape() as tape:
        tape.watch(y)
        z, log_det = planar_flow(y, u, w, b)
    jacobian = tape.batch_jacobian(z, y).numpy()
    np.testing.assert_allclose(log_det, np.linalg.slogdet(jacobian)[1], atol=1e-9)
    np.testing.assert_allclose(planar_flow_inverse(z, u, w, b), y, atol=1e-8)


def test_inverse_near_the_border_of_the_constraint():
    """w.u very negative: the flow is almost flat at w.y + b = 0."""
    w = tf.constant([1.0, 1.0], tf.float64)
    y = tf.constant(np.random.default_rng(0).normal(size=(100, 2)))
    z, _ = planar_flow(y, -4.0 * w, w, 0.0)
    back = planar_flow_inverse(z, -4.0 * w, w, 0.0)
    np.testing.assert_allclose(back, y, atol=1e-6)


def test_gradient_of_the_inverse():
    u, w, b = (tf.constant(v) for v in draw(3))
    z = tf.constant(np.random.default_rng(1).normal(size=4))
    with tf.GradientTape() as tape:
        tape.watch([z, u])
        y = planar_flow_inverse(z, u, w, b)
    inverse_jacobian, by_u = tape.jacobian(y, [z, u])
    with tf.GradientTape() as tape:
        tape.watch([y, u])
        again, _ = planar_flow(y, u, w, b)
    forward_jacobian, forward_by_u = tape.jacobian(again, [y, u])
    np.testing.assert_allclose(inverse_jacobian @ forward_jacobian, np.eye(4), atol=1e-8)
    np.testing.assert_allclose(by_u, -inverse_jacobian @ forward_by_u, atol=1e-8)
