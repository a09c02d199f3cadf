"""From a step (or an epoch) to a temperature."""

from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import check_count, check_number, check_positive
from tfconcrete._typing import TensorLike


class Schedule:
    """A temperature as a pure function of the step.

    Give one to a layer (`tfc.ConcreteSample(temperature=schedule)`), where it advances
    once for each training call inside the compiled step, or to
    `tfc.callbacks.TemperatureScheduler`. Subclasses implement `__call__` with TensorFlow
    operations and `get_config`, and are registered with
    `keras.saving.register_keras_serializable`.

    Example:

    >>> @keras.saving.register_keras_serializable("example")
    ... class Halving(tfc.schedules.Schedule):
    ...     def __init__(self, steps):
    ...         self.steps = steps
    ...
    ...     def __call__(self, step):
    ...         return 0.5 ** (tf.cast(step, tf.float32) / self.steps)
    ...
    ...     def get_config(self):
    ...         return {"steps": self.steps}
    >>> float(Halving(1000)(2000))
    0.25
    """

    def __call__(self, step: TensorLike) -> tf.Tensor:
        """The temperature at `step`, a whole number or an integer tensor."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        raise NotImplementedError

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Schedule":
        """The schedule that `get_config` describes."""
        return cls(**config)

    def __repr__(self):
        arguments = ", ".join(f"{name}={value}" for name, value in self.get_config().items())
        return f"{type(self).__name__}({arguments})"


def _check(value, name):
    if not hasattr(value, "dtype") or hasattr(value, "assign"):  # a variable is read once
        check_number(value, name, "a positive finite number")
    return float(check_positive(value, name))


@keras.saving.register_keras_serializable(package="tfconcrete")
class Constant(Schedule):
    """The same temperature at every step.

    Args:
        value: A positive number.

    Example:

    >>> float(tfc.schedules.Constant(0.5)(1000))
    0.5
    """

    def __init__(self, value: TensorLike) -> None:
        self.value = _check(value, "value")

    def __call__(self, step: TensorLike) -> tf.Tensor:
        return tf.fill(tf.shape(step), tf.constant(self.value, tf.float32))

    def get_config(self) -> dict[str, Any]:
        return {"value": self.value}


@keras.saving.register_keras_serializable(package="tfconcrete")
class ExponentialAnnealing(Schedule):
    """max(minimum, initial * exp(-rate * step)).

    Args:
        initial: The temperature at step 0, a positive number.
        minimum: The temperature that is never undercut, a positive number.
        rate: A non-negative number, per step (or epoch).

    Example:

    >>> schedule = tfc.schedules.ExponentialAnnealing(10.0, 0.5, rate=0.3)
    >>> [round(float(schedule(epoch)), 4) for epoch in (0, 1, 70)]
    [10.0, 7.4082, 0.5]
    """

    def __init__(self, initial: float, minimum: float, rate: float) -> None:
        self.initial = _check(initial, "initial")
        self.minimum = _check(minimum, "minimum")
        self.rate = check_number(rate, "rate", "a non-negative number", minimum=0.0)

    def __call__(self, step: TensorLike) -> tf.Tensor:
        decayed = self.initial * tf.exp(-self.rate * tf.cast(step, tf.float32))
        return tf.maximum(decayed, self.minimum)

    def get_config(self) -> dict[str, Any]:
        return {"initial": self.initial, "minimum": self.minimum, "rate": self.rate}


@keras.saving.register_keras_serializable(package="tfconcrete")
class MixedTemperature(Schedule):
    """`low` at every `every`-th step (0, every, 2 * every, ...), else `mid`.

    Trains mostly at a temperature with smooth gradients, and now and then at the one
    the model is tested at (Fan et al. 2022, Appendix A.3).

    Args:
        low: A positive number, the temperature of the test.
        mid: A positive number.
        every: A whole number, M of the paper.

    Example:

    >>> schedule = tfc.schedules.MixedTemperature(low=0.1, mid=0.5, every=20)
    >>> [round(float(schedule(step)), 1) for step in (0, 1, 19, 20)]
    [0.1, 0.5, 0.5, 0.1]
    """

    def __init__(self, low: float, mid: float, every: int) -> None:
        self.low = _check(low, "low")
        self.mid = _check(mid, "mid")
        self.every = check_count(every, "every")

    def __call__(self, step: TensorLike) -> tf.Tensor:
        due = tf.math.floormod(tf.cast(step, tf.int64), self.every) == 0
        return tf.where(due, tf.constant(self.low, tf.float32), tf.constant(self.mid, tf.float32))

    def get_config(self) -> dict[str, Any]:
        return {"low": self.low, "mid": self.mid, "every": self.every}
