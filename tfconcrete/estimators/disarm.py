"""DisARM: antithetic pairs of exact samples, for binary units and for categoricals.

Each pair shares its noise with opposite sign, so that both halves are exact draws and
differ as much as they can; the estimator is integrated over the noise given the pair.
"""

from collections.abc import Callable

import keras
import tensorflow as tf

from tfconcrete._checks import check_count, check_num_classes, invalid_value
from tfconcrete._floors import FILL
from tfconcrete._seeds import as_seed
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.estimators.discrete_latent import (
    check_objective,
    evaluate_objective,
    latent_log_prob,
    prepare_latent,
    sum_latent,
)
from tfconcrete.estimators.surrogates import with_gradient_of
from tfconcrete.noise import logistic
from tfconcrete.relaxations.discretize import step
from tfconcrete.relaxations.masking import zero_masked


def disarm(
    objective: Callable,
    logits: TensorLike,
    num_samples: int = 2,
    class_mask: TensorLike | None = None,
    axis: int | None = None,
    batch_ndims: int = 1,
    seed: Seed = None,
) -> tf.Tensor:
    """DisARM for binary units: a pair of antithetic samples, Rao-Blackwellised.

    Forward: the mean of f over b = 1[logits + L > 0] and b' = 1[logits - L > 0], L Logistic.
    Backward: (f(b) - f(b')) / 2 * (b_i - b'_i) * sigmoid(|logits_i|) for the logit i, and
    the mean of df(b) and df(b'); averaged over pairs.
    Bias: none. Unchanged by a constant added to f.

    Args:
        objective: as in `reinforce`; the first half of the `num_samples` samples are the b,
            the second half their partners b'.
        logits: float tensor `[*batch, ...]`, one logit for each binary unit; with an `axis`,
            `[*batch, ..., 2]`, variables of two classes. For more classes: `disarm_tree`.
        num_samples: Evaluations of the objective per example; even, two for each pair.
        class_mask, batch_ndims, seed: as in `reinforce`.
        axis: None for binary units; else the class axis, of two classes.

    Returns:
        Tensor `[*batch]`.

    Example:

    >>> logits = tf.Variable(tf.zeros([4, 3]))
    >>> def objective(sample, log_q):
    ...     return tf.square(tf.reduce_sum(sample, axis=-1) - 1.0)
    >>> with tf.GradientTape() as tape:
    ...     loss = -tfc.estimators.disarm(objective, logits, seed=0)
    >>> tape.gradient(loss, logits).shape
    TensorShape([4, 3])

    Reference: Dong, Mnih & Tucker (2020), DisARM: an antithetic gradient estimator for
    binary latent variables.
    """
    if axis is not None:
        logits = tf.convert_to_tensor(logits)
        check_num_classes(logits.shape, axis)
        if logits.shape.rank is not None and logits.shape[axis] != 2:
            raise ValueError(
                "Invalid value received for argument `logits`. Expected two classes along "
                f"axis {axis}; for more, use `disarm_tree`. "
                f"Received: logits of shape {tuple(logits.shape)}"
            )
    return disarm_tree(objective, logits, num_samples, class_mask, axis, batch_ndims, seed)


def disarm_tree(
    objective: Callable,
    logits: TensorLike,
    num_samples: int = 2,
    class_mask: TensorLike | None = None,
    axis: int | None = -1,
    batch_ndims: int = 1,
    seed: Seed = None,
) -> tf.Tensor:
    """DisARM for categoricals, each drawn down a balanced binary tree over its classes.

    A class is reached by log2(num_classes) binary decisions, each with the logit
    a = logsumexp(logits below on the right) - logsumexp(logits below on the left). The two
    samples z, z' of a pair decide with opposite noise while they are at the same node and
    with independent noise once they have parted.

    Forward: the mean of f over both samples.
    Backward: (f(z) - f(z')) / 2 times, for the logit a of each node visited,
    (b - b') * sigmoid(|a|) if by both, b - sigmoid(a) if by z alone, and
    -(b' - sigmoid(a)) if by z' alone; and the mean of df(z) and df(z'); averaged over pairs.
    Bias: none. Unchanged by a constant added to f. With two classes this is `disarm`.

    Args:
        objective: as in `reinforce`; the first half of the `num_samples` samples are the z,
            the second half their partners z'.
        logits: float tensor `[*batch, ..., num_classes]` (classes along `axis`).
        num_samples: Evaluations of the objective per example; even, two for each pair.
        class_mask, batch_ndims, seed: as in `reinforce`.
        axis: The class axis; None for binary units, as in `disarm`.

    Returns:
        Tensor `[*batch]`.

    Example:

    >>> def objective(sample, log_q):
    ...     return tf.reduce_sum(sample[..., 0], axis=-1)
    >>> tfc.estimators.disarm_tree(objective, tf.zeros([4, 2, 3]), seed=0).shape
    TensorShape([4])

    Reference: Dong, Mnih & Tucker (2021), Coupled gradient estimators for discrete latent
    variables.
    """
    check_objective(objective)
    if check_count(num_samples, "num_samples", minimum=2) % 2:
        raise invalid_value("num_samples", "an even number, two for each pair", num_samples)
    logits = tf.convert_to_tensor(logits)
    working, mask, axis = prepare_latent(logits, class_mask, axis, batch_ndims)
    pair = _binary_pair if axis is None else _tree_pair
    sample, score = pair(working, axis, num_samples // 2, as_seed(seed))
    sample = zero_masked(sample, mask)
    log_q = latent_log_prob(sample, working, mask, axis, batch_ndims)
    values = evaluate_objective(objective, tf.cast(sample, logits.dtype), log_q)
    first, second = tf.split(values, 2, axis=0)
    signal = tf.stop_gradient(first - second) / 2.0
    score = sum_latent(score, working.shape.rank, batch_ndims)
    return with_gradient_of(tf.reduce_mean(values, axis=0), tf.reduce_mean(signal * score, axis=0))


def _binary_pair(logits, axis, num_pairs, seed):
    """Antithetic samples `[2 * num_pairs, *logits.shape]`, and the score of each pair.

    The gradient of the score, `[num_pairs, *logits.shape]`, is what multiplies
    (f(b) - f(b')) / 2.
    """
    del axis
    shape = tf.concat([[num_pairs], tf.shape(logits)], 0)
    noise = tf.cast(logistic(shape, seed), logits.dtype)
    b, partner = step(logits + noise), step(logits - noise)
    return tf.concat([b, partner], 0), _shared_score(b, partner, logits)


def _shared_score(b, partner, logit):
    return (b - partner) * tf.stop_gradient(tf.sigmoid(tf.abs(logit))) * logit


def _own_score(b, logit):
    return (b - tf.stop_gradient(tf.sigmoid(logit))) * logit


def _tree_logits(logits):
    """The logits of the decisions (1: right), one tensor `[..., 2**depth]` for each level."""
    num_classes = logits.shape[-1]
    if num_classes is None:
        raise invalid_value("logits", "a known number of classes", logits)
    levels = (num_classes - 1).bit_length()
    padding = [[0, 0]] * (logits.shape.rank - 1) + [[0, 2**levels - num_classes]]
    mass = tf.pad(logits, padding, constant_values=tf.cast(FILL, logits.dtype))
    decisions = []
    for _ in range(levels):
        left, right = mass[..., 0::2], mass[..., 1::2]
        decisions.append(right - left)
        mass = tf.reduce_logsumexp(tf.stack([left, right], -1), axis=-1)
    return decisions[::-1]


def _tree_pair(logits, axis, num_pairs, seed):
    """`_binary_pair` for categoricals: samples, and one score for each variable."""
    logits = keras.ops.moveaxis(logits, axis, -1)
    decisions = _tree_logits(logits)
    variables = tf.concat([[num_pairs], tf.shape(logits)[:-1], [1]], 0)
    noise = logistic(tf.concat([[len(decisions), 2], variables], 0), seed)
    noise = tf.cast(noise, logits.dtype)
    # Where each of the two is on its level of the tree, as a one-hot over the nodes.
    place = partner_place = tf.ones(variables, logits.dtype)
    score = tf.zeros(variables, logits.dtype)
    for level, decision in enumerate(decisions):
        together = tf.reduce_sum(place * partner_place, axis=-1, keepdims=True) > 0.0
        logit = tf.reduce_sum(place * decision, axis=-1, keepdims=True)
        partner_logit = tf.reduce_sum(partner_place * decision, axis=-1, keepdims=True)
        shared, independent = noise[level, 0], noise[level, 1]
        partner_noise = tf.where(together, -shared, independent)
        b, partner = step(logit + shared), step(partner_logit + partner_noise)
        score += tf.where(
            together,
            _shared_score(b, partner, logit),
            _own_score(b, logit) - _own_score(partner, partner_logit),
        )
        num_nodes = 2 ** (level + 1)
        place = _descend(place, b, num_nodes)
        partner_place = _descend(partner_place, partner, num_nodes)
    sample = tf.concat([place, partner_place], 0)[..., : logits.shape[-1]]
    return tf.stop_gradient(keras.ops.moveaxis(sample, -1, axis)), score


def _descend(place, b, num_nodes):
    """The one-hot over `num_nodes` children after going left (b = 0) or right (b = 1)."""
    children = tf.stack([place * (1.0 - b), place * b], axis=-1)
    return tf.reshape(children, tf.concat([tf.shape(place)[:-1], [num_nodes]], 0))
