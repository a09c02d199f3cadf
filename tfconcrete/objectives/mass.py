"""Log masses and entropies of discrete variables, given their logits.

One value for each variable. A masked class has no mass; a variable with no class at all has
one state, the zero row, and a log mass and an entropy of 0.
"""

import math

import tensorflow as tf

from tfconcrete._dtypes import cast
from tfconcrete._typing import TensorLike
from tfconcrete.relaxations.bin_concrete import prepare_binary_logits
from tfconcrete.relaxations.masking import prepare_logits, zero_masked


def log_probs(
    logits: TensorLike, class_mask: TensorLike | None = None, axis: int = -1
) -> tf.Tensor:
    """log softmax over the kept classes; a masked class has a large finite negative.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.

    Returns:
        Tensor of the shape of `logits`, at least float32.

    Example:

    >>> tfc.objectives.log_probs(tf.zeros([2])).numpy().round(4)
    array([-0.6931, -0.6931], dtype=float32)
    """
    prepared, _ = prepare_logits(logits, class_mask, axis)
    return tf.nn.log_softmax(prepared, axis=axis)


def categorical_log_mass(
    sample: TensorLike, logits: TensorLike, class_mask: TensorLike | None = None, axis: int = -1
) -> tf.Tensor:
    """sum_i z_i log Q_i: the log probability of a one-hot sample.

    Linear in a relaxed sample (Concrete, Eq. 21).

    Args:
        sample: float tensor `[..., num_classes]` on the simplex along `axis`.
        logits: float tensor that broadcasts against it.
        class_mask: boolean, broadcast against `logits`; True keeps the class. What lies on
            a masked class has a log probability of -inf.
        axis: The class axis.

    Returns:
        Tensor of the common shape without `axis`.

    Example:

    >>> sample = tf.constant([0.0, 1.0])
    >>> round(float(tfc.objectives.categorical_log_mass(sample, tf.zeros([2]))), 4)
    -0.6931
    """
    log_q = log_probs(logits, class_mask, axis)
    sample = cast(sample, log_q.dtype)
    terms = sample * log_q
    if class_mask is not None:
        off = tf.where(sample > 0.0, cast(-math.inf, log_q.dtype), tf.zeros_like(sample))
        terms = tf.where(class_mask, terms, off)
    return tf.reduce_sum(terms, axis=axis)


def categorical_entropy(
    logits: TensorLike, class_mask: TensorLike | None = None, axis: int = -1
) -> tf.Tensor:
    """-sum_i Q_i log Q_i over the kept classes, in nats.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.

    Returns:
        Tensor of the shape of `logits` without `axis`.

    Example:

    >>> round(float(tfc.objectives.categorical_entropy(tf.zeros([4]))), 4)
    1.3863
    """
    prepared, mask = prepare_logits(logits, class_mask, axis)
    log_q = tf.nn.log_softmax(prepared, axis=axis)
    return -tf.reduce_sum(zero_masked(tf.exp(log_q) * log_q, mask), axis=axis)


def bernoulli_log_mass(
    sample: TensorLike, logits: TensorLike, class_mask: TensorLike | None = None
) -> tf.Tensor:
    """z log Q + (1 - z) log(1 - Q): the log probability of a binary sample.

    Args:
        sample: float tensor in [0, 1].
        logits: float tensor that broadcasts against it, log odds of 1.
        class_mask: boolean, broadcast against `logits`; a dropped variable counts 0.

    Returns:
        Tensor of the common shape.

    Example:

    >>> round(float(tfc.objectives.bernoulli_log_mass(tf.constant(1.0), tf.constant(0.0))), 4)
    -0.6931
    """
    prepared, mask = prepare_binary_logits(logits, class_mask)
    sample = cast(sample, prepared.dtype)
    on, off = tf.math.log_sigmoid(prepared), tf.math.log_sigmoid(-prepared)
    return zero_masked(sample * on + (1.0 - sample) * off, mask)


def bernoulli_entropy(logits: TensorLike, class_mask: TensorLike | None = None) -> tf.Tensor:
    """The entropy of binary variables, in nats.

    Args:
        logits: float tensor, log odds of 1.
        class_mask: boolean, broadcast against `logits`; a dropped variable has 0.

    Returns:
        Tensor of the shape of `logits`.

    Example:

    >>> round(float(tfc.objectives.bernoulli_entropy(tf.constant(0.0))), 4)
    0.6931
    """
    prepared, mask = prepare_binary_logits(logits, class_mask)
    entropy = -bernoulli_log_mass(tf.sigmoid(prepared), prepared)
    return zero_masked(entropy, mask)
