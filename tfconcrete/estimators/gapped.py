"""The Gapped Straight-Through estimator (Fan, Chi, Rudnicky & Ramadge, 2022)."""

import tensorflow as tf

from tfconcrete._checks import (
    check_flag,
    check_number,
    invalid_value,
)
from tfconcrete._floors import FILL
from tfconcrete._softmax import softmax
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.estimators.gradients import pass_through
from tfconcrete.relaxations.cooling import cool, match_temperature
from tfconcrete.relaxations.discretize import draw
from tfconcrete.relaxations.masking import prepare_logits, zero_masked


def check_gap(gap):
    """A non-negative number, or "pi"."""
    expected = 'a non-negative float or "pi"'
    if isinstance(gap, str):
        if gap != "pi":
            raise invalid_value("gap", expected, gap)
        return gap
    return check_number(gap, "gap", expected, minimum=0.0)


def expected_gap(logits: TensorLike, one_hot: TensorLike, axis: int = -1) -> tf.Tensor:
    """How far the winner of logits + Gumbel is ahead, in the mean (GST, Lemma 1).

    -log(1 - p) / p for the winner's probability p. With d the winner's logit minus the
    logsumexp of the others, 1 - p = sigmoid(-d), and the gap is softplus(d) / sigmoid(d):
    no difference of close numbers. It is at least 1, and about d for large d.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        one_hot: the winner, one-hot of the shape of `logits`.
        axis: The class axis.

    Returns:
        Tensor of the shape of `logits`, with size 1 along `axis`.

    Example:

    >>> gap = tfc.estimators.expected_gap(tf.zeros([2]), tf.constant([1.0, 0.0]))
    >>> float(gap[0])  # 2 log 2
    1.3862943649291992
    """
    logits, one_hot = tf.convert_to_tensor(logits), tf.convert_to_tensor(one_hot)
    winner = tf.reduce_sum(logits * one_hot, axis=axis, keepdims=True)
    others = tf.where(one_hot > 0.0, tf.cast(FILL, logits.dtype), logits)
    d = winner - tf.reduce_logsumexp(others, axis=axis, keepdims=True)
    # Below -50 the quotient is 1 to the last bit, before both of its terms underflow.
    d = tf.maximum(d, -50.0)
    return tf.nn.softplus(d) / tf.sigmoid(d)


def gapped_straight_through(
    logits: TensorLike,
    temperature: TensorLike,
    gap: float | str = 1.0,
    hard: bool = True,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    seed: Seed = None,
    perturbation_gradient: bool = False,
) -> tf.Tensor:
    """A one-hot draw, differentiated through logits that were moved to favour it.

    Forward: D, an exact one-hot draw from softmax(logits).
    Backward: the gradient of softmax((logits + m1 - m2) / temperature), where m1 lifts
    the drawn class to the largest logit (Eq. 17) and m2 lowers the others until they are
    at least `gap` below it (Eq. 18); m1 and m2 are constants (Eq. 19).
    Bias: present at every temperature; as the temperature goes to 0 the gradient itself
    vanishes. The surrogate depends on nothing random but D, so that the variance is low
    without resampling.

    Algorithm 1 of Fan et al. (2022), "Training Discrete Deep Generative Models via
    Gapped Straight-Through Estimator".

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        temperature: positive number, or tensor that broadcasts against `logits`.
        gap: non-negative number, or "pi" for the gap that Gumbel noise leaves in the
            mean (`expected_gap`, Lemma 1).
        hard: If False the surrogate itself is returned, the soft sample.
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.
        perturbation_gradient: If True the gradient also passes through m1 and m2, the
            ablation "NZ" of Tables 1 and 2, which does not learn.

    Returns:
        Tensor of the shape and dtype of `logits`: one-hot, or on the simplex where
        `hard` is False. A row whose classes are all masked is zero.

    Example:

    >>> logits = tf.constant([[0.0, 1.0, 2.0]])
    >>> hard = tfc.estimators.gapped_straight_through(logits, 0.5, seed=0)
    >>> soft = tfc.estimators.gapped_straight_through(logits, 0.5, hard=False, seed=0)
    >>> bool(tf.reduce_all(tf.argmax(hard, -1) == tf.argmax(soft, -1)))
    True
    """
    gap = check_gap(gap)
    hard = check_flag(hard, "hard")
    perturbation_gradient = check_flag(perturbation_gradient, "perturbation_gradient")
    logits = tf.convert_to_tensor(logits)
    working, mask = prepare_logits(logits, class_mask, axis)
    temperature = match_temperature(temperature, working)
    one_hot = draw(working, axis, seed)

    # The row's largest working logit is 0; only a gradient through it needs the maximum.
    if perturbation_gradient:
        fixed, top = working, tf.reduce_max(working, axis=axis, keepdims=True)
    else:
        fixed, top = tf.stop_gradient(working), tf.zeros([], working.dtype)
    if gap == "pi":
        gap = expected_gap(fixed, one_hot, axis)
    m1 = (top - fixed) * one_hot
    m2 = tf.nn.relu(fixed + gap - top) * (1.0 - one_hot)

    scores = cool(working + m1 - m2, temperature, mask)
    soft = zero_masked(softmax(scores, axis=axis), mask)
    if hard:
        sample = pass_through(zero_masked(one_hot, mask), soft)
    else:
        sample = soft
    return tf.cast(sample, logits.dtype)
