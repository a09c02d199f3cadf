"""JointVAE's capacities: how many nats a latent is held to, over the steps (IGR, Eq. 15)."""

import keras
import tensorflow as tf

from tfconcrete._checks import check_count, check_number, invalid_type
from tfconcrete._dtypes import cast


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

    def __init__(self, initial=0.0, final=5.0, steps=25_000):
        expected = "a non-negative number of nats"
        self.initial = check_number(initial, "initial", expected, minimum=0.0)
        self.final = check_number(final, "final", expected, minimum=0.0)
        self.steps = check_count(steps, "steps")

    def __call__(self, step):
        share = tf.minimum(tf.cast(step, tf.float32) / self.steps, 1.0)
        return self.initial + share * (self.final - self.initial)

    def get_config(self):
        return {"initial": self.initial, "final": self.final, "steps": self.steps}

    @classmethod
    def from_config(cls, config):
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


def capacity_penalty(kl, capacity, gamma):
    """gamma * |mean KL - capacity|, one of the two penalties of IGR's Eq. 15.

    Args:
        kl: float tensor `[batch]`, in nats; the penalty is on its mean.
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
