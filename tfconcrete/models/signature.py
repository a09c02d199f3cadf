"""What a model offers to a server: functions of named tensors."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Signature:
    """One signature of an exported model.

    Any Keras model may have a method `signatures()` that returns a dict of these by name;
    `tfc.export.save_discrete` writes them. Where `"serving_default"` is not among them, it
    is made from the model's `call`.

    Attributes:
        call: Function from a dict of tensors to a dict of tensors. It is traced with the
            model's sampling layers in serving mode, and must not be random unless `random`.
        inputs: `tf.TensorSpec`s by name, the batch of any size first.
        random: Whether random ops are allowed.
        example: Function from example inputs of `serving_default` (arrays by name) to
            example inputs of this signature; None where they are the same.

    Example:

    >>> spec = tf.TensorSpec([None, 2], tf.float32, name="x")
    >>> double = tfc.models.Signature(lambda tensors: {"y": 2 * tensors["x"]}, {"x": spec})
    >>> sorted(double.inputs)
    ['x']
    """

    call: Callable[[dict], dict]
    inputs: Mapping[str, tf.TensorSpec]
    random: bool = False
    example: Callable | None = None


def one_or_list(tensors):
    """The tensors of a dict as a network takes them: one alone, or a list of several."""
    values = list(tensors.values())
    return values[0] if len(values) == 1 else values


# A seed for each row, so that a server can batch requests.
SEEDS = tf.TensorSpec([None, 2], tf.int32, name="seeds")


def example_seeds(inputs):
    """int32 seeds `[batch, 2]`, one for each row of example inputs."""
    rows = len(next(iter(inputs.values())))
    return np.arange(2 * rows, dtype=np.int32).reshape(rows, 2)
