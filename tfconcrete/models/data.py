"""Data that cannot be trained on are named before the first step, not by a NaN loss."""

import types

import keras
import numpy as np
import tensorflow as tf

from tfconcrete._checks import invalid_type
from tfconcrete.objectives.likelihoods import WholeNumbers

_FINITE = "Expected finite data, without NaN or infinity"


def check_data(data, name, limits=None, jit_compile=False, target=0):
    """`data` of `fit` or `evaluate`, checked for NaN, infinity and its range where possible.

    Arrays are checked at once. Batches of anything else are asserted in the step; where XLA
    would drop that, a `tf.data.Dataset` is given the assertion in its own pipeline, and a
    generator or a `PyDataset` checks each batch that it makes.

    Args:
        data: arrays in any nesting, a dataset, or anything else that `fit` takes.
        name: the argument's name, for the message.
        limits: None, or `(lowest, highest, advice)`, as `Likelihood.data_range` gives them.
        jit_compile: whether the step is compiled with XLA.
        target: which element of a dataset the limits are for.

    Returns:
        `data`, or the dataset or generator with the check.
    """
    if isinstance(data, (tf.RaggedTensor, tf.SparseTensor)):
        raise invalid_type(name, "dense arrays or a dataset of them", data)
    if isinstance(data, tf.data.Dataset):
        return data.map(asserted(limits, target)) if jit_compile else data
    if jit_compile and isinstance(data, keras.utils.PyDataset):
        return _CheckedDataset(data, limits, target)
    if jit_compile and isinstance(data, types.GeneratorType):
        return (_checked(batch, limits, target) for batch in data)
    if isinstance(data, (np.ndarray, tf.Tensor, tuple, list, dict)):
        for array in tf.nest.flatten(data):
            _check_array(array, name, limits)
    return data


def asserted(limits, target):
    """Function of a batch's parts that gives them back, asserted to be data to train on."""

    def check(*batch):
        batch = list(assert_finite(batch))
        if target < len(batch):
            batch[target] = assert_in_range(batch[target], limits)
        return tuple(batch) if len(batch) > 1 else batch[0]

    return check


class _CheckedDataset(keras.utils.PyDataset):
    """A `PyDataset` whose batches are checked as they are made."""

    def __init__(self, dataset, limits, target):
        super().__init__(dataset.workers, dataset.use_multiprocessing, dataset.max_queue_size)
        self.dataset, self.limits, self.target = dataset, limits, target

    @property
    def num_batches(self):
        return self.dataset.num_batches

    def __getitem__(self, index):
        return _checked(self.dataset[index], self.limits, self.target)

    def on_epoch_begin(self):
        self.dataset.on_epoch_begin()

    def on_epoch_end(self):
        self.dataset.on_epoch_end()


def _checked(batch, limits, target):
    """A batch of arrays, checked."""
    parts = batch if isinstance(batch, (tuple, list)) else (batch,)
    for index, (name, part) in enumerate(zip(("x", "y", "sample_weight"), parts, strict=False)):
        for array in tf.nest.flatten(part):
            if isinstance(array, (np.ndarray, tf.Tensor)):
                _check_array(array, name, limits if index == target else None)
    return batch


def stack_check(limits, target):
    """Function of batches put on top of each other that raises as the assertion would.

    The check is one compiled pass, before any step.
    """

    def is_valid(stacks):
        parts = list(stacks) if isinstance(stacks, tuple) else [stacks]
        flat = [x for x in tf.nest.flatten(parts) if x.dtype.is_floating]
        good = [tf.reduce_all(tf.math.is_finite(x)) for x in flat]
        if limits is not None and target < len(parts) and isinstance(parts[target], tf.Tensor):
            good.append(_is_inside(parts[target], limits))
        return tf.reduce_all(good) if good else tf.constant(True)

    compiled = tf.function(is_valid, jit_compile=True, autograph=False, reduce_retracing=True)

    def check(stacks):
        if not compiled(stacks):
            asserted(limits, target)(*(stacks if isinstance(stacks, tuple) else [stacks]))

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
    if not array.size:
        return
    # A NaN or an infinity is the smallest or the largest number: two passes see them.
    smallest, largest = array.min(), array.max()
    if not (np.isfinite(smallest) and np.isfinite(largest)):
        bad = ~np.isfinite(array)
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"Invalid value received for argument `{name}`. {_FINITE}. Received: "
            f"{name} of shape {tuple(array.shape)} with {int(bad.sum())} others, "
            f"the first at index {first}"
        )
    if limits is None:
        return
    lowest, highest, _ = limits
    if smallest < lowest or largest > highest:
        received = f"values from {smallest} to {largest}"
    elif _are_whole(limits) and array.dtype.kind == "f" and np.any(array != np.floor(array)):
        received = f"values like {array[array != np.floor(array)][0]}"
    else:
        return
    raise ValueError(
        f"Invalid value received for argument `{name}`. {_expected(limits)} Received: {name} "
        f"with {received}"
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
    inside = _is_inside(x, limits)
    message = f"Invalid batch of data. {_expected(limits)}"
    with tf.control_dependencies([tf.debugging.Assert(inside, [message])]):
        return tf.identity(x)


def _are_whole(limits):
    return isinstance(limits, WholeNumbers)


def _expected(limits):
    lowest, highest, advice = limits
    what = "whole numbers" if _are_whole(limits) else "values"
    return f"Expected {what} from {lowest} to {highest}. {advice}."


def _is_inside(x, limits):
    lowest, highest, _ = limits
    x = tf.cast(x, tf.uint8) if x.dtype == tf.bool else x
    inside = tf.ones_like(x, tf.bool)
    # A limit that the dtype does not reach holds, and could not be cast to it.
    if lowest > x.dtype.min:
        inside &= x >= tf.cast(lowest, x.dtype)
    if highest < x.dtype.max:
        inside &= x <= tf.cast(highest, x.dtype)
    if _are_whole(limits) and x.dtype.is_floating:
        inside &= x == tf.floor(x)
    return tf.reduce_all(inside)


def array_batches(x, y=None, sample_weight=None, batch_size=None, shuffle=False):
    """Arrays as a dataset of batches, in a new order for every epoch with `shuffle`.

    What Keras makes of arrays has a tuning thread, for which the end of every epoch waits.

    Returns:
        A `tf.data.Dataset`, or None for anything but plain numeric arrays: Keras knows more
        kinds of data.
    """
    given = [part for part in (x, y, sample_weight) if part is not None]
    is_plain = all(
        isinstance(part, (np.ndarray, tf.Tensor)) and len(part.shape) > 0 for part in given
    )
    if not is_plain or x is None or (y is None and sample_weight is not None):
        return None
    if len({int(part.shape[0]) for part in given}) > 1 or shuffle not in (True, False):
        return None
    if any(np.dtype(_numpy_dtype(part)).kind not in "fiub" for part in given):
        return None
    batch_size, num = batch_size or 32, len(x)
    arrays = tuple(map(_as_floatx, given))
    # A batch is one gather or one slice: an example at a time costs as much as a small model.
    # (Rows read from NumPy by `tf.numpy_function` would spare a copy of all, but TensorFlow
    # never lets go of such a function, nor of the array behind it.)
    if shuffle and num:
        data = tf.data.Dataset.range(num).shuffle(num).batch(batch_size)
        data = data.map(lambda rows: tuple(tf.gather(array, rows) for array in arrays))
    else:
        data = tf.data.Dataset.range(0, num, batch_size)
        data = data.map(lambda i: tuple(array[i : i + batch_size] for array in arrays))
    return without_autotune(data.prefetch(2))


def _numpy_dtype(array):
    return getattr(array.dtype, "as_numpy_dtype", array.dtype)


def _as_floatx(array):
    """A tensor; floats in Keras' default dtype, as Keras itself makes them."""
    tensor = tf.convert_to_tensor(array)
    return tf.cast(tensor, keras.config.floatx()) if tensor.dtype.is_floating else tensor


def without_autotune(dataset):
    """The dataset without tf.data's tuning thread, unless its options ask for it.

    An iterator's end may wait for that thread, which sleeps twice as long every time: an
    epoch of 4 seconds often takes 5.1. `map` and `interleave` with `tf.data.AUTOTUNE` then
    run one call for each core, which is the most that tuning gives them. To keep the thread,
    set `autotune.enabled` in the dataset's options.
    """
    if not isinstance(dataset, tf.data.Dataset):
        return dataset
    if dataset.options().autotune.enabled is not None:
        return dataset
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
