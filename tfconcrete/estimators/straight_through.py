"""The straight-through estimator: a one-hot forward, the softmax's gradient backward."""

import tensorflow as tf

from tfconcrete._softmax import softmax
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.estimators.gradients import pass_through
from tfconcrete.relaxations.cooling import cool, match_temperature
from tfconcrete.relaxations.discretize import draw
from tfconcrete.relaxations.masking import prepare_logits, zero_masked


def straight_through(
    logits: TensorLike,
    temperature: TensorLike = 1.0,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    seed: Seed = None,
) -> tf.Tensor:
    """A one-hot draw that is differentiated as if it were the probabilities (GST, Eq. 7).

    Forward: an exact one-hot draw from softmax(logits).
    Backward: the gradient of softmax(logits / temperature), whatever was drawn.
    Bias: none for linear objectives at temperature 1. The surrogate does not know the
    draw, so its largest class need not be the drawn one.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        temperature: positive number, or tensor that broadcasts against `logits`.
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        One-hot tensor of the shape and dtype of `logits`. A row whose classes are all
        masked is zero.

    Example:

    >>> draw = tfc.estimators.straight_through(tf.zeros([4, 3]), seed=0)
    >>> tf.reduce_sum(draw, -1).numpy()
    array([1., 1., 1., 1.], dtype=float32)
    """
    logits = tf.convert_to_tensor(logits)
    working, mask = prepare_logits(logits, class_mask, axis)
    temperature = match_temperature(temperature, working)
    hard = zero_masked(draw(working, axis, seed), mask)
    scores = cool(working, temperature, mask)
    soft = zero_masked(softmax(scores, axis=axis), mask)
    return tf.cast(pass_through(hard, soft), logits.dtype)
