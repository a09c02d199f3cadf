"""What all variables share whose classes lie along an axis of their parameters."""

import dataclasses
from typing import Any

import tensorflow as tf

from tfconcrete.variables.base import Variable


@dataclasses.dataclass(frozen=True)
class AxisVariable(Variable):
    """A variable for each vector along `axis`.

    Attributes:
        num_states: The number of classes, where it is known.
        axis: The class axis.
    """

    axis: int = -1

    def states_along(self, params_shape: Any) -> int | None:
        shape = tf.TensorShape(params_shape)
        return None if shape.rank is None else shape[self.axis]

    def without_axis(self, shape: Any) -> tuple:
        """A shape without the class axis."""
        shape = list(shape)
        del shape[self.axis]
        return tuple(shape)

    def from_end(self, params_shape: Any) -> "AxisVariable":
        rank = len(params_shape if self.num_params == 1 else params_shape[0])
        axis = self.axis if self.axis < 0 else self.axis - rank
        return dataclasses.replace(self, axis=axis)
