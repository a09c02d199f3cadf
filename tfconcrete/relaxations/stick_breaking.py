"""Stick-breaking: from R^(K-1) onto the simplex, one break after the other (IGR, Eq. 22).

With u = sigmoid(y), class k takes the share u_k of what the classes before it left:
w_k = u_k prod_{i<k} (1 - u_i). (Eq. 22 as printed has v_i in the product, which leaves
the simplex.) Everything is a sum of logarithms, and the remainder is the product of all
1 - u_i, never `1 - sum`.
"""

import tensorflow as tf

from tfconcrete._dtypes import cast
from tfconcrete.relaxations.concrete import FLOOR
from tfconcrete.relaxations.masking import FILL


def log_stick_breaking(y):
    """log of `stick_breaking`, exact where a stick underflows.

    Args:
        y: float tensor `[..., K-1]`.

    Returns:
        Tensor `[..., K]`; the last entry is the remainder.

    Example:

    >>> log_w = tfc.relaxations.log_stick_breaking(tf.zeros([2]))
    >>> (log_w / np.log(2)).numpy().round(4)
    array([-1., -2., -2.], dtype=float32)
    """
    y = tf.convert_to_tensor(y)
    log_left = tf.math.log_sigmoid(-y)
    sticks = tf.math.log_sigmoid(y) + tf.cumsum(log_left, axis=-1, exclusive=True)
    return tf.concat([sticks, tf.reduce_sum(log_left, axis=-1, keepdims=True)], -1)


def stick_breaking(y):
    """w_k = sigmoid(y_k) prod_{i<k} sigmoid(-y_i), and the remainder (IGR, Eq. 22).

    Args:
        y: float tensor `[..., K-1]`.

    Returns:
        Tensor `[..., K]` on the simplex; the last entry is the remainder.

    Example:

    >>> tfc.relaxations.stick_breaking(tf.zeros([3])).numpy()
    array([0.5  , 0.25 , 0.125, 0.125], dtype=float32)
    """
    return tf.exp(log_stick_breaking(y))


def stick_breaking_inverse(log_w):
    """y_k = log w_k - log(sum_{j>k} w_j), from the logarithm of the sticks.

    Args:
        log_w: float tensor `[..., K]`.

    Returns:
        Tensor `[..., K-1]`.

    Example:

    >>> log_w = tf.math.log([0.5, 0.25, 0.25])
    >>> tfc.relaxations.stick_breaking_inverse(log_w).numpy().round(4)
    array([0., 0.], dtype=float32)
    """
    log_w = tf.convert_to_tensor(log_w)
    return log_w[..., :-1] - _log_cumsum_from_end(log_w[..., 1:])


def _log_cumsum_from_end(x):
    """log of the sums of exp(x) from each entry to the last.

    By doubling the reach, in log2 K passes: `tf.math.cumulative_logsumexp` takes K under
    XLA, and a second for a thousand rows of 200.
    """
    size = x.shape[-1]
    if size is None:
        return tf.math.cumulative_logsumexp(x, axis=-1, reverse=True)
    reach = 1
    while reach < size:
        nothing = tf.fill(tf.shape(x[..., :reach]), tf.cast(FILL, x.dtype))
        ahead = tf.concat([x[..., reach:], nothing], -1)
        x = tf.reduce_logsumexp(tf.stack([x, ahead], -1), -1)
        reach *= 2
    return x


def stick_breaking_log_det(log_w):
    """log |dw/dy| over the first K-1 coordinates.

    The Jacobian is triangular with w_k (1 - u_k) on its diagonal, and the product of all
    1 - u_k is the remainder: the determinant is prod_k w_k, over all K.

    Args:
        log_w: float tensor `[..., K]`, the logarithm of the image.

    Returns:
        Tensor `[...]`.

    Example:

    >>> log_w = tf.math.log([0.5, 0.5])
    >>> round(float(tf.exp(tfc.relaxations.stick_breaking_log_det(log_w))), 4)
    0.25
    """
    return tf.reduce_sum(log_w, axis=-1)


def sticks_from_softmax(z, temperature, delta=1.0):
    """The sticks w behind z = softmax++(w / t): w_k = t log(delta z_k / z_K).

    One logarithm of a ratio near 1 keeps the digits that a difference of two large
    logarithms loses; the gradient is that of the difference, which does not overflow.

    Args:
        z: float tensor `[..., K]` on the simplex. A coordinate below 1e-30 counts as that.
        temperature, delta: positive numbers or tensors that broadcast against
            `z[..., :1]`.

    Returns:
        Tensor `[..., K-1]`, to about the machine epsilon times the temperature.
    """
    z = tf.maximum(tf.convert_to_tensor(z), FLOOR)
    difference = tf.math.log(z[..., :-1]) - tf.math.log(z[..., -1:])
    ratio = tf.math.log(tf.stop_gradient(z[..., :-1] / z[..., -1:]))
    log_ratio = ratio + (difference - tf.stop_gradient(difference))
    return cast(temperature, z.dtype) * (log_ratio + tf.math.log(cast(delta, z.dtype)))
