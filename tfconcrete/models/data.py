"""Data that cannot be trained on are named before the first step, not by a NaN loss."""

import numpy as np
import tensorflow as tf

from tfconcrete._checks import invalid_type

_FINITE = "Expected finite data, without NaN or infinity"


def check_data(data, name, limits=None, jit_compile=False, target=0):
    """`data` of `fit` or `evaluate`, checked for NaN, infinity and its range where possible.

    Arrays are checked at once. Batches of anything else are asserted in the step; where XLA
    would drop that, a `tf.data.Dataset` is given the assertion in its own pipeline.

    Args:
        data: arrays in any nesting, a dataset, or anything else that `fit` takes.
        name: the argument's name, for the message.
        limits: None, or `(lowest, highest, advice)`, as `Likelihood.data_range` gives them.
        jit_compile: whether the step is compiled with XLA.
        target: which element of a dataset the limits are for.

    Returns:
        `data`, or the dataset with the assertion.
    """
    if isinstance(data, (tf.RaggedTensor, tf.SparseTensor)):
        raise invalid_type(name, "dense arrays or a dataset of them", data)
    if isinstance(data, tf.data.Dataset):
        return data.map(_asserted(limits, target)) if jit_compile else data
    if isinstance(data, (np.ndarray, tf.Tensor, tuple, list, dict)):
        for array in tf.nest.flatten(data):
            _check_array(array, name, limits)
    return data


def _asserted(limits, target):
    def check(*batch):
        batch = list(assert_finite(batch))
        if target < len(batch):
            batch[target] = assert_in_range(batch[target], limits)
        return tuple(batch) if len(batch) > 1 else batch[0]

    return check


def check_shape(data, name, spec):
    """Raises unless arrays or the elements of a dataset have the shape of the input `spec`.

    Args:
        data: What `fit` takes.
        name: the argument's name, for the message.
        spec: None (nothing is known), a `KerasTensor` or a list of them.
    """
    if isinstance(data, tf.data.Dataset):
        element = data.element_spec
        data = element[0] if isinstance(element, tuple) else element
    several = isinstance(spec, (list, tuple))
    if (
        data is None
        or spec is None
        or not isinstance(data, (np.ndarray, tf.Tensor, tf.TensorSpec, list, dict))
    ):
        return
    if not several and isinstance(data, (list, dict)):
        raise invalid_type(name, f"one array of shape {_text(spec)}", data)
    if several or not hasattr(data, "shape"):
        return
    shape = tf.TensorShape(data.shape)
    if not shape.is_compatible_with([None, *spec.shape[1:]]):
        raise ValueError(
            f"Invalid value received for argument `{name}`. Expected shape {_text(spec)}, as "
            f"the encoder takes it. Received: {name} of shape {tuple(shape)}"
        )


def _text(spec):
    return str(("examples", *spec.shape[1:])).replace("'", "")


def _check_array(array, name, limits):
    array = np.asarray(array)
    if array.dtype.kind not in "fiub":
        return
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = ~np.isfinite(array)
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"Invalid value received for argument `{name}`. {_FINITE}. Received: "
            f"{name} of shape {tuple(array.shape)} with {int(bad.sum())} others, "
            f"the first at index {first}"
        )
    if limits is None or not array.size:
        return
    lowest, highest, advice = limits
    if array.min() < lowest or array.max() > highest:
        raise ValueError(
            f"Invalid value received for argument `{name}`. Expected values from {lowest} to "
            f"{highest}. {advice}. Received: {name} with values from {array.min()} to "
            f"{array.max()}"
        )


def assert_finite(batch):
    """The batch, with an assertion on every float tensor in it."""

    def check(x):
        if not isinstance(x, tf.Tensor) or not x.dtype.is_floating:
            return x
        return tf.debugging.assert_all_finite(x, f"Invalid batch of data. {_FINITE}.")

    return tf.nest.map_structure(check, batch)


def assert_in_range(x, limits):
    """The tensor, with an assertion that it lies inside the limits."""
    if limits is None or not isinstance(x, tf.Tensor):
        return x
    lowest, highest, advice = limits
    inside = tf.reduce_all((x >= tf.cast(lowest, x.dtype)) & (x <= tf.cast(highest, x.dtype)))
    message = f"Invalid batch of data. Expected values from {lowest} to {highest}. {advice}."
    with tf.control_dependencies([tf.debugging.Assert(inside, [message])]):
        return tf.identity(x)


def without_autotune(dataset):
    """The dataset without tf.data's tuning thread, unless its options ask for it.

    An iterator's end may wait for that thread, which sleeps twice as long every time: an
    epoch of 4 seconds often takes 5.1. Pipelines that tune themselves then keep the
    parallelism that tuning starts from, one call for each core.
    """
    if not isinstance(dataset, tf.data.Dataset):
        return dataset
    if dataset.options().autotune.enabled is not None:
        return dataset
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
