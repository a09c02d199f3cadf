"""ReinMax: a straight-through estimator of second order (Liu et al., 2023)."""

import tensorflow as tf

from tfconcrete._softmax import softmax
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.estimators.gradients import softmax_vjp
from tfconcrete.relaxations.cooling import cool, match_temperature
from tfconcrete.relaxations.discretize import draw
from tfconcrete.relaxations.masking import prepare_logits, zero_masked


def reinmax(
    logits: TensorLike,
    temperature: TensorLike = 1.0,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    seed: Seed = None,
) -> tf.Tensor:
    """A one-hot draw whose gradient follows Heun's method (Liu et al., 2023).

    Forward: D, an exact one-hot draw from p = softmax(logits).
    Backward: 2 J(q) - J(p) / 2 applied to the incoming gradient, where
    q = (D + softmax(logits / temperature)) / 2 and J(q) = diag(q) - q q^T.
    Bias: none for objectives up to quadratic at temperature 1.

    Meant for temperatures of at least 1. The temperature gets no gradient.

    Reference: L. Liu, C. Dong, X. Liu, B. Yu, J. Gao, "Bridging Discrete and
    Backpropagation: Straight-Through and Beyond", NeurIPS 2023.

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

    >>> logits = tf.Variable([0.0, 1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     loss = tf.reduce_sum(tfc.estimators.reinmax(logits, seed=0) * [1.0, 2.0, 3.0])
    >>> tape.gradient(loss, logits).shape
    TensorShape([3])
    """
    logits = tf.convert_to_tensor(logits)
    working, mask = prepare_logits(logits, class_mask, axis)
    temperature = match_temperature(temperature, working)
    one_hot = draw(working, axis, seed)
    scores = tf.stop_gradient(cool(working, temperature, mask))

    @tf.custom_gradient
    def estimate(working):
        def backward(upstream):
            p = softmax(working, axis=axis)
            q = (one_hot + softmax(scores, axis=axis)) / 2.0
            return 2.0 * softmax_vjp(q, upstream, axis) - softmax_vjp(p, upstream, axis) / 2.0

        return one_hot, backward

    return tf.cast(zero_masked(estimate(working), mask), logits.dtype)
