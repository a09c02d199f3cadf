"""JointVAE's capacities: how many nats a latent is held to, over the steps (IGR, Eq. 15)."""

from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import check_count, check_number, invalid_type
from tfconcrete._dtypes import cast
from tfconcrete._typing import TensorLike


@keras.saving.register_keras_serializable(package="tfconcrete")
class LinearCapacity:
    """A capacity that grows linearly from `initial` to `final`, then stays.

    Args:
        initial: The capacity at step 0, in nats.
        final: The capacity from step `steps` on.
        steps: Training steps until then.

    Call arguments:
        step: whole number or integer tensor.

    Returns:
        float32 scalar.

    Example:

    >>> capacity = tfc.objectives.LinearCapacity(0.0, 5.0, steps=25_000)
    >>> [float(capacity(step)) for step in (0, 12_500, 50_000)]
    [0.0, 2.5, 5.0]
    """

    def __init__(self, initial: float = 0.0, final: float = 5.0, steps: int = 25_000) -> None:
        expected = "a non-negative number of nats"
        self.initial = check_number(initial, "initial", expected, minimum=0.0)
        self.final = check_number(final, "final", expected, minimum=0.0)
        self.steps = check_count(steps, "steps")

    def __call__(self, step: TensorLike) -> tf.Tensor:
        share = tf.minimum(tf.cast(step, tf.float32) / self.steps, 1.0)
        return self.initial + share * (self.final - self.initial)

    def get_config(self) -> dict[str, Any]:
        return {"initial": self.initial, "final": self.final, "steps": self.steps}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "LinearCapacity":
        return cls(**config)


def get_capacity(capacity, name):
    """A capacity from a number (constant), `(initial, final, steps)` or the object itself."""
    if isinstance(capacity, (int, float)) and not isinstance(capacity, bool):
        return LinearCapacity(capacity, capacity, 1)
    if isinstance(capacity, (tuple, list)) and len(capacity) == 3:
        return LinearCapacity(*capacity)
    if callable(capacity):
        return capacity
    raise invalid_type(name, "a number, (initial, final, steps) or a `LinearCapacity`", capacity)


def capacity_penalty(kl: TensorLike, capacity: TensorLike, gamma: float) -> tf.Tensor:
    """gamma * |mean KL - capacity|, one of the two penalties of IGR's Eq. 15.

    Args:
        kl: float tensor `[batch]` (or its mean), in nats; the penalty is on its mean.
        capacity: number or scalar tensor, in nats.
        gamma: number, the weight.

    Returns:
        Scalar.

    Example:

    >>> float(tfc.objectives.capacity_penalty(tf.constant([1.0, 3.0]), 5.0, gamma=30.0))
    90.0
    """
    kl = tf.convert_to_tensor(kl)
    return cast(gamma, kl.dtype) * tf.abs(tf.reduce_mean(kl) - cast(capacity, kl.dtype))
