"""`Codes`: the class indices of samples, as an output of a model."""

from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import check_axis
from tfconcrete._floors import log_floor
from tfconcrete.layers.base import check_tensor
from tfconcrete.variables import Categorical


@keras.saving.register_keras_serializable(package="tfconcrete")
class Codes(keras.layers.Layer):
    """From one-hot (or relaxed) samples to int32 class indices.

    The export finds the codes of the sampling layers that a model calls by itself. Of a
    layer that is called inside a loop (in the cell of an RNN, say) it cannot: give the
    stacked samples to this layer and make the result an output of the model.

    Args:
        axis: The class axis of the samples.
        **kwargs: `name` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        samples: float tensor `[..., num_classes]` (classes along `axis`), or the logarithms
            that an `ExpConcreteSample` gives.

    Returns:
        int32 tensor, the shape of `samples` without `axis`: the index of the largest entry;
        -1 for a row of zeros (which a sampling layer gives where all classes are masked)
        and for one with NaN.

    Example:

    >>> tfc.layers.Codes()(tf.constant([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])).numpy()
    array([ 1, -1], dtype=int32)
    """

    def __init__(self, axis: int = -1, **kwargs) -> None:
        super().__init__(**kwargs)
        self.axis = check_axis(axis)
        self.supports_masking = True

    def call(self, samples: tf.Tensor) -> Any:
        check_tensor(samples, "samples")
        found = Categorical(axis=self.axis).codes_of(samples)
        # Of a logarithm without classes every entry stands for log 0.
        log_zero = tf.cast(0.5 * log_floor(samples.dtype), samples.dtype)
        return tf.where(tf.reduce_max(samples, self.axis) > log_zero, found, -1)

    def compute_output_spec(self, samples: tf.Tensor) -> Any:
        shape = list(samples.shape)
        del shape[self.axis]
        return keras.KerasTensor(shape, dtype="int32")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "axis": self.axis}
