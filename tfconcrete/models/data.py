"""Data that cannot be trained on are named before the first step, not by a NaN loss."""

import numpy as np
import tensorflow as tf

_MESSAGE = "Expected finite data, without NaN or infinity"


def check_finite_data(data, name, jit_compile=False):
    """`data` of `fit` or `evaluate`, checked for NaN and infinity where possible.

    Arrays are checked at once. Batches of anything else are asserted to be finite in the
    step; where XLA would drop that, a `tf.data.Dataset` is given the assertion in its own
    pipeline.

    Args:
        data: arrays in any nesting, a dataset, or anything else that `fit` takes.
        name: the argument's name, for the message.
        jit_compile: whether the step is compiled with XLA.

    Returns:
        `data`, or the dataset with the assertion.
    """
    if isinstance(data, tf.data.Dataset):
        if jit_compile:
            data = data.map(
                lambda *batch: assert_finite_batch(batch if len(batch) > 1 else batch[0])
            )
        return without_autotune(data)
    if isinstance(data, (np.ndarray, tf.Tensor, tuple, list, dict)):
        for array in tf.nest.flatten(data):
            _check_array(array, name)
    return data


def without_autotune(dataset):
    """The dataset without tf.data's tuning thread, unless its options ask for it.

    An iterator's end may wait for that thread, which sleeps twice as long every time: an
    epoch of 4 seconds often takes 5.1. Pipelines that tune themselves then keep the
    parallelism that tuning starts from, one call for each core.
    """
    if dataset.options().autotune.enabled is not None:
        return dataset
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


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


def assert_finite_batch(batch):
    """The batch, with an assertion on every float tensor in it."""

    def check(x):
        if not isinstance(x, tf.Tensor) or not x.dtype.is_floating:
            return x
        return tf.debugging.assert_all_finite(x, f"Invalid batch of data. {_MESSAGE}.")

    return tf.nest.map_structure(check, batch)
