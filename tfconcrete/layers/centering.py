"""`Centering`: a stochastic layer's activity minus its running mean."""

from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import check_number, invalid_value
from tfconcrete.layers.base import check_tensor


@keras.saving.register_keras_serializable(package="tfconcrete")
class Centering(keras.layers.Layer):
    """Subtracts the running mean over minibatches, as an offset without gradient.

    In training the mean so far is subtracted first and updated afterwards,
    mean <- decay * mean + (1 - decay) * (mean of the batch). At inference it is frozen.
    Every unit has its own mean, in float32; along an axis of unknown size (timesteps,
    say) the units share one.

    Args:
        decay: Rate of the exponential average, from 0 to 1.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `[batch, ...]`.
        training: Whether to update the mean.

    Returns:
        Tensor of the shape of `inputs`.

    Reference:
        Maddison, Mnih & Teh (2017), Appendix D.4.

    Example:

    >>> layer = tfc.layers.Centering(decay=0.9)
    >>> layer(tf.ones([4, 2]), training=True)[0].numpy()
    array([1., 1.], dtype=float32)
    >>> layer(tf.ones([4, 2]))[0].numpy()
    array([0.9, 0.9], dtype=float32)
    """

    def __init__(self, decay: float = 0.9, **kwargs) -> None:
        super().__init__(**kwargs)
        self.decay = check_number(decay, "decay", "a number from 0 to 1", 0.0, 1.0)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        if len(input_shape) < 2:
            raise invalid_value("inputs", "shape [batch, ...]", tuple(input_shape))
        self.mean = self.add_weight(
            name="mean",
            shape=tuple(1 if size is None else size for size in input_shape[1:]),
            dtype="float64" if self.variable_dtype == "float64" else "float32",
            initializer="zeros",
            trainable=False,
            autocast=False,
            aggregation="mean",
        )

    def call(self, inputs: Any, training: bool | None = None) -> tf.Tensor:
        check_tensor(inputs, "inputs")
        mean = tf.convert_to_tensor(self.mean)
        outputs = inputs - tf.cast(mean, inputs.dtype)
        if training:
            batch = tf.reduce_mean(tf.cast(tf.stop_gradient(inputs), mean.dtype), axis=0)
            shared = [axis for axis, size in enumerate(self.mean.shape) if size == 1]
            batch = tf.reduce_mean(batch, axis=shared, keepdims=True)
            # A replica may be left without examples: it keeps the mean.
            batch = tf.where(tf.size(inputs) > 0, batch, mean)
            self.mean.assign(self.decay * mean + (1.0 - self.decay) * batch)
        return outputs

    def compute_output_shape(self, input_shape: Any) -> tuple:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "decay": self.decay}
