"""`HypercubeCode`: n-ary units as corners of a hypercube."""

from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import invalid_value
from tfconcrete.layers.base import check_tensor
from tfconcrete.relaxations.hypercube import check_power_of_two, hypercube_code


@keras.saving.register_keras_serializable(package="tfconcrete")
class HypercubeCode(keras.layers.Layer):
    """Maps simplex samples to the hypercube [-1, 1]^log2(n), relaxed or discrete alike.

    Class k goes to the corner that is k in binary, first bit first, with -1 for 0. The
    map is linear (Y = C X), and the same in training and inference.

    Args:
        num_classes: n, a power of two.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `[..., groups, num_classes]` on the simplex.

    Returns:
        Tensor `[..., groups * log2(num_classes)]`.

    Reference:
        Maddison, Mnih & Teh (2017), Appendix D.2.

    Example:

    >>> layer = tfc.layers.HypercubeCode(num_classes=4)
    >>> layer(tf.one_hot([[0, 1]], 4)).numpy()
    array([[-1., -1., -1.,  1.]], dtype=float32)
    """

    def __init__(self, num_classes: int, **kwargs) -> None:
        super().__init__(**kwargs)
        self.num_classes = check_power_of_two(num_classes)
        self.supports_masking = True
        self._build_at_init()

    def call(self, inputs: Any) -> tf.Tensor:
        check_tensor(inputs, "inputs")
        self._check_shape(inputs.shape)
        return hypercube_code(inputs)

    def _check_shape(self, shape):
        if len(shape) < 2 or shape[-1] != self.num_classes:
            raise invalid_value("inputs", f"shape [..., groups, {self.num_classes}]", tuple(shape))

    def compute_output_shape(self, input_shape: Any) -> tuple:
        self._check_shape(input_shape)
        bits = self.num_classes.bit_length() - 1
        groups = input_shape[-2]
        return (*input_shape[:-2], None if groups is None else groups * bits)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_classes": self.num_classes}
