"""What the estimators share: how a gradient gets past a draw."""

import tensorflow as tf


def pass_through(hard, soft):
    """`hard` forward, bit for bit, and the gradient of `soft` backward (GST, Eq. 6).

    For `hard` in {0, 1} and `soft` in [0, 1] this order of the sum is exact;
    `(hard + soft) - soft` is not.
    """
    return tf.stop_gradient(hard - soft) + soft


def softmax_vjp(probs, upstream, axis=-1):
    """J(probs) applied to `upstream`, with J(q) = diag(q) - q q^T."""
    mean = tf.reduce_sum(probs * upstream, axis=axis, keepdims=True)
    return probs * (upstream - mean)
