"""The protos of a SavedModel, read without loading it and without trusting it."""

import os
import pathlib

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import saved_model_pb2

from tfconcrete._checks import invalid_value
from tfconcrete.export.versions import check_path, version_folder, versions

# What protobuf can read at all.
_MAX_BYTES = 2**31 - 1
_NUMPY_NAMES = {"half": "float16", "float": "float32", "double": "float64"}


def is_file(path):
    """Whether there is a regular file, so that opening it cannot wait for ever."""
    try:
        return os.path.isfile(path)
    except (OSError, ValueError):  # a name that is too long, or holds a NUL
        return False


def find_saved_model(path, argument="path"):
    """The folder of a SavedModel: `path`, or the highest version in it."""
    path = check_path(path, argument)
    names = ("saved_model.pb", "saved_model.pbtxt")
    if not any(is_file(path / name) for name in names) and versions(path):
        path = version_folder(path, versions(path)[-1])
    if not os.path.isdir(path):
        raise invalid_value(argument, "the folder of a SavedModel", str(path))
    return path


def read_meta_graph(folder):
    """The meta graph that a server would load, the one tagged `serve`.

    Args:
        folder: The folder of a SavedModel.

    Returns:
        `(meta_graph, problem)`: a `MetaGraphDef` and None, or None and a sentence that says
        why there is none.
    """
    saved = saved_model_pb2.SavedModel()
    binary, text = (pathlib.Path(folder) / f"saved_model.{end}" for end in ("pb", "pbtxt"))
    file = binary if is_file(binary) else text
    if not is_file(file):
        return None, "there is no saved_model.pb in the folder."
    try:
        if file.stat().st_size > _MAX_BYTES:
            return None, f"{file.name} is larger than the 2 GB that a proto may have."
        if file == binary:
            saved.ParseFromString(file.read_bytes())
        else:
            text_format.Parse(file.read_text(encoding="utf-8"), saved)
    except (DecodeError, text_format.ParseError, ValueError, OSError, RecursionError) as error:
        return None, f"{file.name} cannot be read: {error}."
    for meta_graph in saved.meta_graphs:
        if set(meta_graph.meta_info_def.tags) == {"serve"}:
            return meta_graph, None
    tags = [sorted(graph.meta_info_def.tags) for graph in saved.meta_graphs]
    return None, f"no graph is tagged 'serve' (the tags are {tags})."


def signature_names(meta_graph):
    """The signatures that can be called (TensorFlow keeps others under `__...`)."""
    return sorted(name for name in meta_graph.signature_def if not name.startswith("__"))


def dtype_name(number):
    """NumPy's name for a DataType, where it has one; also for numbers that are none."""
    if number not in types_pb2.DataType.values():
        return f"unknown type {number}"
    name = types_pb2.DataType.Name(number).removeprefix("DT_").lower()
    return _NUMPY_NAMES.get(name, name)


def tensor_shape(info):
    """The shape in a `TensorInfo`, None for any size, or None for any rank."""
    if info.tensor_shape.unknown_rank:
        return None
    return tuple(None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim)


def variable_inputs(meta_graph):
    """The inputs with a dimension of any size beside the batch, as `signature/input`."""
    found = []
    for signature in signature_names(meta_graph):
        inputs = meta_graph.signature_def[signature].inputs
        for name in sorted(inputs):
            shape = tensor_shape(inputs[name])
            if shape is None or None in shape[1:]:
                found.append(f"{signature}/{name}")
    return found
