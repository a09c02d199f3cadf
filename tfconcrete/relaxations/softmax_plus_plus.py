"""The softmax++ map of the Invertible Gaussian Reparameterization (IGR, Eq. 21).

An invertible map from R^(K-1) onto the simplex. All of it is a softmax over K entries,
[y / temperature, log delta]: the remainder class is a class like the others, never
`1 - sum`, which goes negative in float32.
"""

import tensorflow as tf

from tfconcrete._dtypes import cast
from tfconcrete.relaxations.temperature import cool


def log_softmax_plus_plus(y, temperature, delta=1.0):
    """log of `softmax_plus_plus`, exact where the simplex point underflows.

    Args:
        y: float tensor `[..., K-1]`.
        temperature: positive number or tensor that broadcasts against `y`.
        delta: positive number or tensor that broadcasts against `y[..., :1]`.

    Returns:
        Tensor `[..., K]`; the last entry is the remainder class.

    Example:

    >>> log_z = tfc.relaxations.log_softmax_plus_plus(tf.constant([9.0]), temperature=0.01)
    >>> log_z.numpy()
    array([   0., -900.], dtype=float32)
    """
    y = tf.convert_to_tensor(y)
    scores = cool(y, temperature)
    remainder = tf.math.log(cast(delta, y.dtype)) + tf.zeros_like(scores[..., :1])
    return tf.nn.log_softmax(tf.concat([scores, remainder], -1), axis=-1)


def softmax_plus_plus(y, temperature, delta=1.0):
    """exp(y_k / t) / (sum_j exp(y_j / t) + delta), and the remainder (IGR, Eq. 21).

    Args:
        y: float tensor `[..., K-1]`.
        temperature: positive number or tensor that broadcasts against `y`.
        delta: positive number or tensor that broadcasts against `y[..., :1]`.

    Returns:
        Tensor `[..., K]` on the simplex; the last entry is the remainder class.

    Example:

    >>> tfc.relaxations.softmax_plus_plus(tf.zeros([3]), temperature=0.5).numpy()
    array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    return tf.exp(log_softmax_plus_plus(y, temperature, delta))


def softmax_plus_plus_inverse(log_z, temperature, delta=1.0):
    """y = t (log z_k - log z_K + log delta), from the logarithm of the simplex point.

    Args:
        log_z: float tensor `[..., K]`.
        temperature, delta: as in `softmax_plus_plus`.

    Returns:
        Tensor `[..., K-1]`.

    Example:

    >>> log_z = tfc.relaxations.log_softmax_plus_plus(tf.constant([9.0]), temperature=0.01)
    >>> tfc.relaxations.softmax_plus_plus_inverse(log_z, temperature=0.01).numpy().round(4)
    array([9.], dtype=float32)
    """
    log_z = tf.convert_to_tensor(log_z)
    temperature = cast(temperature, log_z.dtype)
    log_delta = tf.math.log(cast(delta, log_z.dtype))
    return temperature * (log_z[..., :-1] - log_z[..., -1:] + log_delta)


def softmax_plus_plus_log_det(log_z, temperature):
    """log |dz/dy| over the first K-1 coordinates, by the matrix determinant lemma.

    The Jacobian is diag(z) (I - 1 z^T) / t, so its determinant is
    prod_{k<K} z_k (1 - sum_{k<K} z_k) / t^(K-1), that is prod_k z_k / t^(K-1).

    Args:
        log_z: float tensor `[..., K]`, the logarithm of the image.
        temperature: positive number or tensor that broadcasts against `log_z`
            (size 1 along the last axis).

    Returns:
        Tensor `[...]`.

    Example:

    >>> log_z = tf.math.log([0.5, 0.5])
    >>> log_det = tfc.relaxations.softmax_plus_plus_log_det(log_z, temperature=1.0)
    >>> round(float(tf.exp(log_det)), 4)
    0.25
    """
    log_z = tf.convert_to_tensor(log_z)
    log_temperature = tf.math.log(cast(temperature, log_z.dtype))
    if log_temperature.shape.rank != 0:
        log_temperature = tf.squeeze(log_temperature, -1)
    num_free = tf.cast(tf.shape(log_z)[-1] - 1, log_z.dtype)
    return tf.reduce_sum(log_z, -1) - num_free * log_temperature
