"""Argument errors, all in one wording: Invalid ..., Expected ..., Received ...

Every public object checks its arguments with these when it is built, so that a
mistake is named where it was made and not in the middle of a compiled step.
"""

import inspect
import math
import numbers

import numpy as np
import tensorflow as tf


class DTypeError(TypeError, ValueError):
    """A tensor of the wrong dtype: at once a wrong type and a wrong value."""


def _describe(value):
    if isinstance(value, tf.Tensor) and not hasattr(value, "numpy"):
        return f"<symbolic tensor, shape={value.shape}, dtype={value.dtype.name}>"
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "..."


def invalid_value(name, expected, value):
    """The `ValueError` for argument `name`; raise what this returns."""
    return ValueError(
        f"Invalid value received for argument `{name}`. Expected {expected}. "
        f"Received: {name}={_describe(value)}"
    )


def invalid_type(name, expected, value, error=TypeError):
    """The `TypeError` for argument `name`, in the same words; raise what this returns."""
    return error(
        f"Invalid value received for argument `{name}`. Expected {expected}. "
        f"Received: {name}={_describe(value)} of type {type(value).__name__}"
    )


def is_number(value):
    """Whether `value` is a plain real number (a bool is not one)."""
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def static_value(value):
    """`value` as a NumPy array where it is known without running a graph, else None.

    A variable has no static value: it may be another one in the next step.
    """
    if value is None or isinstance(value, tf.Variable) or hasattr(value, "assign"):
        return None
    if tf.is_tensor(value):
        return tf.get_static_value(value)
    return np.asarray(value)


def check_positive(value, name):
    """A number or array above zero and finite, wherever its value is known now."""
    if value is None or isinstance(value, (str, bool, np.bool_)) or callable(value):
        raise invalid_type(name, "a positive finite number", value)
    known = static_value(value)
    if known is None:
        return value
    if known.dtype.kind not in "fiuV":  # V: bfloat16
        raise invalid_type(name, "a positive finite number", value)
    known = known.astype(np.float64)
    if not np.all(np.isfinite(known) & (known > 0)):
        raise invalid_value(name, "a positive finite number", value)
    return value


def check_temperature(temperature, logits_shape=None, name="temperature"):
    """The rule for every temperature: positive, finite, and broadcast to the logits.

    Not beyond them: the noise has the logits' shape, and rows would share it.
    """
    check_positive(temperature, name)
    if logits_shape is not None:
        check_broadcast_to(shape_of(temperature), name, logits_shape, "logits")
    return temperature


def shape_of(value):
    """The static shape of a tensor, an array or a number."""
    return value.shape if hasattr(value, "shape") else np.shape(value)


def check_number(value, name, expected, minimum=-math.inf, maximum=math.inf):
    """A finite plain number in `[minimum, maximum]`."""
    if not is_number(value):
        raise invalid_type(name, expected, value)
    if not (math.isfinite(value) and minimum <= value <= maximum):
        raise invalid_value(name, expected, value)
    return float(value)


def check_count(value, name, minimum=1):
    """A whole number of at least `minimum`."""
    expected = f"a whole number of at least {minimum}"
    if not isinstance(value, numbers.Integral) or isinstance(value, (bool, np.bool_)):
        raise invalid_type(name, expected, value)
    if value < minimum:
        raise invalid_value(name, expected, value)
    return int(value)


def check_flag(value, name):
    """A Python boolean."""
    if not isinstance(value, (bool, np.bool_)):
        raise invalid_type(name, "True or False", value)
    return bool(value)


def check_choice(value, name, choices):
    """One of the strings in `choices`."""
    expected = "one of " + ", ".join(f'"{choice}"' for choice in choices)
    if not isinstance(value, str):
        raise invalid_type(name, expected, value)
    if value not in choices:
        raise invalid_value(name, expected, value)
    return value


def check_axis(axis, rank=None, name="axis"):
    """A whole number, in range for `rank` where the rank is known."""
    if not isinstance(axis, numbers.Integral) or isinstance(axis, (bool, np.bool_)):
        raise invalid_type(name, "a whole number", axis)
    if rank is not None and not -rank <= axis < rank:
        raise invalid_value(
            name, f"an axis of logits of rank {rank}, from {-rank} to {rank - 1}", axis
        )
    return int(axis)


def check_floating(value, name):
    """A floating-point tensor (or a nested list of floats)."""
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        try:
            dtype = np.asarray(value).dtype
        except (TypeError, ValueError):  # a ragged list, or a list of tensors
            return value
    if not tf.as_dtype(dtype).is_floating:
        raise invalid_type(name, "floating-point values", value, error=DTypeError)
    return value


def check_num_classes(shape, axis, name="logits"):
    """At least two classes along `axis`, where the shape is known."""
    shape = tf.TensorShape(shape)
    if shape.rank is None:
        return
    if shape.rank == 0:
        raise invalid_value(name, "at least one dimension, the classes", shape)
    check_axis(axis, shape.rank)
    if shape[axis] is not None and shape[axis] < 2:
        raise ValueError(
            f"Invalid value received for argument `{name}`. Expected at least two "
            f"classes along axis {axis}. Received: {name} of shape {tuple(shape)}"
        )


def check_broadcast(shape, name, other, other_name):
    """Two shapes that broadcast against each other; returns the common shape."""
    try:
        return tf.broadcast_static_shape(tf.TensorShape(shape), tf.TensorShape(other))
    except ValueError:
        raise ValueError(
            f"Invalid value received for argument `{name}`. Expected a shape that "
            f"broadcasts against `{other_name}` of shape {tuple(other)}. "
            f"Received: {name} of shape {tuple(shape)}"
        ) from None


def check_broadcast_to(shape, name, other, other_name):
    """A shape that broadcasts to, and not beyond, another."""
    other = tf.TensorShape(other)
    common = check_broadcast(shape, name, other, other_name)
    if (
        other.rank is not None
        and common.rank is not None
        and (common.rank > other.rank or not common.is_compatible_with(other))
    ):
        raise ValueError(
            f"Invalid value received for argument `{name}`. Expected a shape that "
            f"broadcasts to {other_name} of shape {tuple(other)}. "
            f"Received: {name} of shape {tuple(shape)}"
        )


def check_mask(class_mask, shape, axis, name="class_mask"):
    """A boolean mask that broadcasts to (and not beyond) the logits' shape."""
    dtype = getattr(class_mask, "dtype", None)
    if dtype is None:
        dtype = np.asarray(class_mask).dtype
    if tf.as_dtype(dtype) != tf.bool:
        raise invalid_type(
            name, "a boolean mask, True for each class to keep", class_mask, DTypeError
        )
    check_broadcast_to(shape_of(class_mask), name, shape, "logits")


def check_one_of(**arguments):
    """Exactly one of the named arguments is given."""
    if sum(value is not None for value in arguments.values()) != 1:
        names = " or ".join(f"`{name}`" for name in arguments)
        received = ", ".join(f"{name}={_describe(value)}" for name, value in arguments.items())
        raise ValueError(
            f"Invalid value received for argument `{next(iter(arguments))}`. Expected exactly "
            f"one of {names}. Received: {received}"
        )


def num_required_arguments(function):
    """How many positional arguments a callable cannot do without."""
    return sum(
        p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        for p in inspect.signature(function).parameters.values()
    )
