"""Planar flows, f(y) = y + u tanh(w.y + b), with their inverse (Rezende & Mohamed, 2015).

A flow in front of softmax++ makes the Gaussian of an IGR flexible (IGR, Section 4.1 and
Appendix C). It is invertible as long as w.u >= -1.
"""

import math

import tensorflow as tf

from tfconcrete._dtypes import cast
from tfconcrete._floors import FLOOR
from tfconcrete._typing import TensorLike

# softplus(x + _SHIFT) - 1 is 0 at x = 0: a flow with u = 0 is the identity.
_SHIFT = math.log(math.e - 1.0)
_STEPS = 60


def constrained_direction(u, w):
    """u moved along w so that w.u > -1: w.u_hat = softplus(w.u + log(e - 1)) - 1.

    Args:
        u, w: float tensors `[..., num_dims]`.

    Returns:
        `(u_hat, w.u_hat)`, of shapes `[..., num_dims]` and `[...]`.
    """
    inner = tf.reduce_sum(w * u, -1)
    allowed = tf.nn.softplus(inner + _SHIFT) - 1.0
    square = tf.reduce_sum(w * w, -1)
    positive = square > 0.0
    move = tf.where(positive, (allowed - inner) / tf.where(positive, square, 1.0), 0.0)
    return u + move[..., tf.newaxis] * w, tf.where(positive, allowed, 0.0)


def planar_flow(
    y: TensorLike, u: TensorLike, w: TensorLike, b: TensorLike
) -> tuple[tf.Tensor, tf.Tensor]:
    """One planar flow and its log-determinant.

    Args:
        y: float tensor `[..., num_dims]`.
        u, w: float tensors `[num_dims]`; `u` is constrained by `constrained_direction`.
        b: scalar.

    Returns:
        `(f(y), log |df/dy|)`, of shapes `[..., num_dims]` and `[...]`.

    Example:

    >>> y = tf.constant([1.0, -1.0])
    >>> z, log_det = tfc.relaxations.planar_flow(y, u=tf.zeros(2), w=tf.ones(2), b=0.0)
    >>> z.numpy(), float(log_det)
    (array([ 1., -1.], dtype=float32), 0.0)
    """
    y = tf.convert_to_tensor(y)
    u, w, b = (cast(value, y.dtype) for value in (u, w, b))
    u_hat, slope = constrained_direction(u, w)
    activation = tf.tanh(tf.reduce_sum(w * y, -1) + b)
    log_det = tf.math.log1p(slope * (1.0 - activation) * (1.0 + activation))
    return y + u_hat * activation[..., tf.newaxis], log_det


def planar_flow_inverse(z: TensorLike, u: TensorLike, w: TensorLike, b: TensorLike) -> tf.Tensor:
    """The y with f(y) = z, by a safeguarded scalar root search.

    With a = w.y, w.z = a + (w.u_hat) tanh(a + b) is increasing in a, and its root is
    within |w.u_hat| of w.z: Newton steps, and bisection wherever one leaves the bracket.

    Args:
        z: float tensor `[..., num_dims]`.
        u, w, b: as in `planar_flow`.

    Returns:
        Tensor of the shape of `z`.

    Example:

    >>> y, u, w = tf.constant([1.0, -1.0]), tf.constant([0.5, 0.0]), tf.ones(2)
    >>> z, _ = tfc.relaxations.planar_flow(y, u, w, b=0.3)
    >>> tfc.relaxations.planar_flow_inverse(z, u, w, b=0.3).numpy().round(4)
    array([ 1., -1.], dtype=float32)
    """
    z = tf.convert_to_tensor(z)
    u, w, b = (cast(value, z.dtype) for value in (u, w, b))
    u_hat, slope = constrained_direction(u, w)
    target = tf.reduce_sum(w * z, -1)
    root = _solve(tf.stop_gradient(target), tf.stop_gradient(slope), tf.stop_gradient(b))
    # One more Newton step, differentiated with the root held: by the implicit function
    # theorem its gradient is that of the root itself.
    residual = root + slope * tf.tanh(root + b) - target
    root = root - residual / tf.stop_gradient(_derivative(root, slope, b))
    return z - u_hat * tf.tanh(root + b)[..., tf.newaxis]


def _derivative(a, slope, b):
    activation = tf.tanh(a + b)
    derivative = 1.0 + slope * (1.0 - activation) * (1.0 + activation)
    return tf.maximum(derivative, derivative.dtype.as_numpy_dtype(FLOOR))


def _solve(target, slope, b):
    """The root of a + slope tanh(a + b) = target, element by element."""

    def step(index, lower, upper, a):
        residual = a + slope * tf.tanh(a + b) - target
        lower = tf.where(residual <= 0.0, a, lower)
        upper = tf.where(residual >= 0.0, a, upper)
        newton = a - residual / _derivative(a, slope, b)
        inside = (newton > lower) & (newton < upper)
        return index + 1, lower, upper, tf.where(inside, newton, 0.5 * (lower + upper))

    lower, upper = target - tf.abs(slope), target + tf.abs(slope)
    return tf.while_loop(
        lambda index, lower, upper, a: (index < _STEPS) & tf.reduce_any(lower < upper),
        step,
        (0, lower, upper, target + tf.zeros_like(lower)),
    )[-1]
