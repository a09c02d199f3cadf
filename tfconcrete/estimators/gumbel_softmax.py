"""Straight-through Gumbel-Softmax, and the function that PyTorch users know."""

import tensorflow as tf

from tfconcrete._checks import check_axis, check_flag, check_temperature
from tfconcrete._softmax import softmax
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.estimators.gradients import pass_through
from tfconcrete.noise.gumbel import add_gumbel
from tfconcrete.relaxations.concrete import concrete
from tfconcrete.relaxations.cooling import cool, match_temperature
from tfconcrete.relaxations.discretize import discretize
from tfconcrete.relaxations.masking import prepare_logits, zero_masked


def straight_through_gumbel_softmax(
    logits: TensorLike,
    temperature: TensorLike,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    seed: Seed = None,
) -> tf.Tensor:
    """A one-hot draw that is differentiated as the Concrete sample it rounds (GST, Eq. 10).

    Forward: an exact one-hot draw from softmax(logits), the argmax of logits + Gumbel.
    Backward: the gradient of softmax((logits + Gumbel) / temperature), same noise.
    Bias: as the temperature goes to 0, what the trapezoidal rule between two classes
    leaves (nothing for objectives up to quadratic), while the variance grows without bound.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        temperature: positive number, or tensor that broadcasts against `logits`.
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        One-hot tensor of the shape and dtype of `logits`, the rounding of
        `relaxations.concrete` with the same seed (below 64 classes also the draw of
        `relaxations.categorical`). A row whose classes are all masked is zero.

    Example:

    >>> logits = tf.constant([[0.0, 1.0, 2.0]])
    >>> hard = tfc.estimators.straight_through_gumbel_softmax(logits, 0.5, seed=0)
    >>> soft = tfc.relaxations.concrete(logits, 0.5, seed=0)
    >>> bool(tf.reduce_all(tf.argmax(hard, -1) == tf.argmax(soft, -1)))
    True
    """
    logits = tf.convert_to_tensor(logits)
    working, mask = prepare_logits(logits, class_mask, axis)
    temperature = match_temperature(temperature, working)
    perturbed = add_gumbel(working, seed)
    hard = zero_masked(discretize(perturbed, axis), mask)
    scores = cool(perturbed, temperature, mask)
    soft = zero_masked(softmax(scores, axis=axis), mask)
    return tf.cast(pass_through(hard, soft), logits.dtype)


def gumbel_softmax(
    logits: TensorLike, tau: float = 1.0, hard: bool = False, dim: int = -1, seed: Seed = None
) -> tf.Tensor:
    """Gumbel-Softmax under the argument names of `torch.nn.functional.gumbel_softmax`.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `dim`). Unnormalised log
            probabilities, not probabilities.
        tau: positive number, or tensor that broadcasts against `logits`.
        hard: If True the sample is one-hot forward and relaxed backward.
        dim: The class axis.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        Tensor of the shape and dtype of `logits`: `relaxations.concrete`, or
        `straight_through_gumbel_softmax` where `hard`.

    Example:

    >>> tfc.gumbel_softmax(tf.zeros([4, 3]), tau=0.5, hard=True, seed=0).shape
    TensorShape([4, 3])
    """
    hard = check_flag(hard, "hard")
    logits = tf.convert_to_tensor(logits)
    check_axis(dim, logits.shape.rank, "dim")
    check_temperature(tau, logits.shape, "tau")
    sample = straight_through_gumbel_softmax if hard else concrete
    return sample(logits, tau, axis=dim, seed=seed)
