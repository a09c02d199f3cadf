"""What the parameters of public functions accept, named once for readers and type checkers."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

# Whatever `tf.convert_to_tensor` takes, and Keras' symbolic tensors.
TensorLike: TypeAlias = (
    tf.Tensor
    | tf.Variable
    | keras.Variable
    | keras.KerasTensor
    | np.ndarray
    | float
    | Sequence[Any]
)
ShapeLike: TypeAlias = tf.TensorShape | tf.Tensor | Sequence[int] | int
Seed: TypeAlias = int | Sequence[int] | tf.Tensor | keras.random.SeedGenerator | None
