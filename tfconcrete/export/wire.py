"""Arrays as TF Serving's JSON has them, without loss in either direction."""

import base64
import binascii

import numpy as np

from tfconcrete._checks import invalid_type, invalid_value

_INT32 = np.iinfo(np.int32)


def request_arrays(inputs):
    """The inputs of a request as arrays by name, each with at least one row.

    Double precision becomes float32, a list of whole numbers int32 where they all fit and
    int64 where not; what has a dtype of its own keeps it. Strings become arrays of objects,
    because NumPy's own string types drop trailing NULs.
    """
    if not isinstance(inputs, dict) or not inputs:
        raise invalid_type("inputs", "a dict of arrays by input name", inputs)
    if not all(isinstance(name, str) for name in inputs):
        raise invalid_type("inputs", "names of inputs as keys", inputs)
    return {name: _request_array(value, name) for name, value in inputs.items()}


def _whole(value):
    """An array of a list's values as they are: NumPy would round, print or cut some."""
    array = np.asarray(value)
    if array.dtype.kind in "SU":
        return array.astype(object) if hasattr(value, "dtype") else np.array(value, object)
    if array.dtype == np.float64 and not hasattr(value, "dtype"):
        finite = array[np.isfinite(array)]
        if finite.size and np.abs(finite).max() >= 2.0**63:
            exact = np.array(value, object)
            if all(isinstance(part, int) for part in exact.flat):
                if min(exact.flat) < 0:  # NumPy 1 would wrap it around
                    raise OverflowError(f"{min(exact.flat)} is no unsigned number")
                return exact.astype(np.uint64)
    if array.dtype.kind == "O" and array.size and all(isinstance(x, int) for x in array.flat):
        if not isinstance(value, np.ndarray):
            raise OverflowError(f"{max(array.flat, key=abs)} has more than 64 bits")
        return _whole(array.tolist())
    return array


def _request_array(value, name):
    try:
        array = _whole(value)
    except (ValueError, OverflowError) as error:
        raise invalid_value(
            "inputs", f"lists of equal length, and numbers of 64 bits, in '{name}'", value
        ) from error
    if not array.ndim:
        raise invalid_value("inputs", f"the batch as the first dimension of '{name}'", value)
    if not len(array):
        raise invalid_value(
            "inputs",
            f"at least one row in '{name}' (a server that batches never answers a request of none)",
            value,
        )
    strings = array.dtype.kind == "O" and all(isinstance(x, (str, bytes)) for x in array.flat)
    if not strings and array.dtype.kind not in "biufV":  # V: bfloat16
        raise invalid_type("inputs", f"numbers, booleans or strings in '{name}'", value)
    if array.dtype.kind == "f" and array.dtype.itemsize > 4:
        return _to_float32(array, name)
    if array.dtype.kind == "i" and not hasattr(value, "dtype"):
        return _smallest(array)
    return array


def _to_float32(array, name):
    with np.errstate(over="ignore"):
        small = array.astype(np.float32)
    if np.any(np.isinf(small) & np.isfinite(array)):
        raise invalid_value("inputs", f"numbers that float32 holds in '{name}'", array)
    return small


def _smallest(array):
    fits = not array.size or (array.min() >= _INT32.min and array.max() <= _INT32.max)
    return array.astype(np.int32) if fits else array


def to_json(array):
    """Nested lists of what JSON has: bytes as base64 objects, NaN and infinities as such."""
    if array.dtype.kind == "V":  # bfloat16
        array = array.astype(np.float32)
    return _encode(array.tolist()) if array.dtype.kind == "O" else array.tolist()


def _encode(value):
    if isinstance(value, list):
        return [_encode(part) for part in value]
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    return value


def is_base64(value):
    """Whether a JSON value is how TF Serving writes bytes."""
    return isinstance(value, dict) and list(value) == ["b64"] and isinstance(value["b64"], str)


def from_json(value, name):
    """The array in nested lists: int32 or int64, float32, bool, or objects for strings.

    Numbers with a decimal point are float32, unless they are too large for it.
    """
    try:
        value = _decode(value)
    except RecursionError as error:
        raise _not_an_array(name, "lists in lists in lists, ...") from error
    try:
        array = _whole(value)
    except (ValueError, OverflowError) as error:
        raise _not_an_array(name, value) from error
    if array.dtype.kind == "O":
        if not all(isinstance(part, (str, bytes)) for part in array.flat):
            raise _not_an_array(name, value)
        return array
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            small = array.astype(np.float32)
        return array if np.any(np.isinf(small) & np.isfinite(array)) else small
    return _smallest(array) if array.dtype.kind == "i" else array


def _not_an_array(name, value):
    return invalid_value("answer", f"numbers, booleans or strings of one shape in '{name}'", value)


def _decode(value):
    if isinstance(value, list):
        return [_decode(part) for part in value]
    if is_base64(value):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except binascii.Error as error:
            raise invalid_value("answer", "base64 text after 'b64'", value) from error
    return value
