"""Straight-through Binary Concrete: a bit forward, its relaxation's gradient backward."""

import tensorflow as tf

from tfconcrete._typing import Seed, TensorLike
from tfconcrete.estimators.gradients import pass_through
from tfconcrete.noise import logistic
from tfconcrete.relaxations.bin_concrete import prepare_binary_logits
from tfconcrete.relaxations.cooling import cool, match_temperature
from tfconcrete.relaxations.masking import zero_masked


def bin_concrete_straight_through(
    logits: TensorLike,
    temperature: TensorLike,
    class_mask: TensorLike | None = None,
    seed: Seed = None,
) -> tf.Tensor:
    """Bits that are differentiated as the Binary Concrete samples they round.

    Forward: 1 where logits + Logistic > 0, an exact draw from Bernoulli(sigmoid(logits)).
    Backward: the gradient of sigmoid((logits + Logistic) / temperature), same noise.
    Bias: as the temperature goes to 0, what the trapezoidal rule between 0 and 1 leaves
    (nothing for objectives up to quadratic), while the variance grows without bound.

    The two-class case of `straight_through_gumbel_softmax`, with one noise for each bit
    (Concrete, Appendix B).

    Args:
        logits: float tensor of any shape, log alpha of the state 1.
        temperature: positive number, or tensor that broadcasts against `logits`.
        class_mask: boolean, broadcast against `logits`; a masked element is 0.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        Tensor of the shape and dtype of `logits`, with values 0 and 1.

    Example:

    >>> logits = tf.constant([-100.0, 100.0])
    >>> tfc.estimators.bin_concrete_straight_through(logits, 0.5, seed=0).numpy()
    array([0., 1.], dtype=float32)
    """
    logits = tf.convert_to_tensor(logits)
    working, mask = prepare_binary_logits(logits, class_mask)
    temperature = match_temperature(temperature, working)
    perturbed = working + tf.cast(logistic(tf.shape(working), seed), working.dtype)
    hard = zero_masked(tf.cast(perturbed > 0.0, working.dtype), mask)
    scores = cool(perturbed, temperature)
    soft = zero_masked(tf.sigmoid(scores), mask)
    return tf.cast(pass_through(hard, soft), logits.dtype)
