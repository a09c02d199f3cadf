"""What all variables with one-hot states along an axis share."""

import dataclasses

import tensorflow as tf

from tfconcrete.relaxations.discretize import codes, one_hot
from tfconcrete.variables.axis import AxisVariable


@dataclasses.dataclass(frozen=True)
class OneHotVariable(AxisVariable):
    """One state of several along `axis`, one-hot."""

    def codes_of(self, sample: tf.Tensor) -> tf.Tensor:
        # A row of zeros is a variable without classes.
        kept = tf.reduce_any(tf.not_equal(sample, 0.0), axis=self.axis)
        return tf.where(kept, codes(sample, self.axis), -1)

    def from_codes(
        self, codes: tf.Tensor, num_states: int | None = None, dtype: tf.DType | str = tf.float32
    ) -> tf.Tensor:
        return one_hot(codes, self.known_states(num_states), axis=self.axis, dtype=dtype)

    def on_simplex(self, sample: tf.Tensor) -> tf.Tensor:
        return tf.experimental.numpy.moveaxis(sample, self.axis, -1)
