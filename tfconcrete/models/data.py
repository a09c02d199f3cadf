"""Data that cannot be trained on are named before the first step, not by a NaN loss."""

import numpy as np
import tensorflow as tf

_MESSAGE = "Expected finite data, without NaN or infinity"


def check_finite_data(data, name):
    """`data` of `fit` or `evaluate`, checked for NaN and infinity where possible.

    Arrays are checked at once. A `tf.data.Dataset` is given an assertion in its own
    pipeline, outside the compiled step, since XLA would drop it there.

    Args:
        data: arrays in any nesting, a dataset, or anything else that `fit` takes.
        name: the argument's name, for the message.

    Returns:
        `data`, or the dataset with the assertion.
    """
    if isinstance(data, tf.data.Dataset):
        return data.map(lambda *batch: _assert_batch(batch if len(batch) > 1 else batch[0]))
    if isinstance(data, (np.ndarray, tf.Tensor, tuple, list, dict)):
        for array in tf.nest.flatten(data):
            _check_array(array, name)
    return data


def _check_array(array, name):
    array = np.asarray(array)
    if array.dtype.kind != "f":
        return
    bad = ~np.isfinite(array)
    if bad.any():
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"Invalid value received for argument `{name}`. {_MESSAGE}. Received: "
            f"{name} of shape {tuple(array.shape)} with {int(bad.sum())} others, "
            f"the first at index {first}"
        )


def _assert_batch(batch):
    def check(x):
        if not isinstance(x, tf.Tensor) or not x.dtype.is_floating:
            return x
        return tf.debugging.assert_all_finite(x, f"Invalid batch of data. {_MESSAGE}.")

    return tf.nest.map_structure(check, batch)
