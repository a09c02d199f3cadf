"""What TF Serving would refuse in a SavedModel, a sentence each."""

import os
import re

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.python.framework import op_def_registry

from tfconcrete.export.graph import (
    all_nodes,
    called_functions,
    is_python,
    node_name,
    reachable,
    xla_functions,
)
from tfconcrete.export.saved_model import dtype_name, is_file, signature_names, tensor_shape
from tfconcrete.export.warmup import FILE as WARMUP_FILE
from tfconcrete.export.warmup import MAX_RECORDS, serving_protos

# What reading a checkpoint that somebody tampered with has been seen to raise.
_CHECKPOINT_ERRORS = (
    tf.errors.OpError,
    ValueError,
    RuntimeError,
    IndexError,
    TypeError,
    MemoryError,
    OSError,
)


def graph_problems(meta_graph, library):
    """What is wrong with the graph.

    Args:
        meta_graph: A `MetaGraphDef`.
        library: Its FunctionDefs by name.

    Yields:
        Sentences.
    """
    names = signature_names(meta_graph)
    if not names:
        yield "it has no signature to call."
    compiled = set(xla_functions(meta_graph.graph_def))
    nodes = {node.name: node for node in meta_graph.graph_def.node}
    yield from _structure_problems(meta_graph.graph_def, library)
    for name in names:
        definition = meta_graph.signature_def[name]
        yield from _tensor_problems(name, definition, nodes)
        outputs = [info.name for info in definition.outputs.values()]
        used = list(all_nodes(reachable(meta_graph.graph_def.node, outputs), library))
        python = sorted({node.op for node in used if is_python(node.op)})
        if python:
            yield (
                f"signature '{name}' calls back into Python ({', '.join(python)}), which a "
                "server does not have."
            )
        functions = {function for node in used for function in (node.op, *called_functions(node))}
        if functions & compiled:
            yield (
                f"signature '{name}' must be compiled by XLA (_XlaMustCompile in "
                f"{', '.join(sorted(functions & compiled))}), which a server has switched off "
                "unless it is started with --xla_cpu_compilation_enabled=true."
            )


def _structure_problems(graph_def, library):
    """Nodes, functions and ops that are named somewhere and are not there, or are there twice."""
    bodies = [({node.name for node in graph_def.node}, graph_def.node)]
    for function in library.values():
        given = {arg.name for arg in function.signature.input_arg}
        body = {node.name for node in function.node_def}
        bodies.append((given | body, function.node_def))
    tensors, functions, ops, incomplete = set(), set(), set(), set()
    for names, nodes in bodies:
        if len({node.name for node in nodes}) < len(nodes):
            yield "the graph has two nodes of the same name."
        for node in nodes:
            tensors.update({node_name(tensor) for tensor in node.input} - names)
            functions.update(set(called_functions(node)) - set(library))
            definition = op_def_registry.get(node.op)
            if definition is None and node.op not in library:
                ops.add(node.op)
            if definition is not None and not _required(definition) <= set(node.attr):
                incomplete.add(node.name)
    for what, missing in (("nodes", tensors), ("functions", functions)):
        if missing:
            yield f"the graph reads {what} that it does not have: {', '.join(sorted(missing))}."
    if incomplete:
        yield f"nodes lack attributes that their ops need: {', '.join(sorted(incomplete))}."
    if ops:
        yield (
            f"the graph uses custom ops ({', '.join(sorted(ops))}), which a server does not "
            "have unless it was built with them."
        )


def _required(definition):
    """The attributes without which an op makes no sense."""
    return {attr.name for attr in definition.attr if not attr.HasField("default_value")}


def _tensor_problems(name, definition, nodes):
    if not definition.outputs:
        yield f"signature '{name}' has no output."
    for kind, tensors in (("input", definition.inputs), ("output", definition.outputs)):
        for key in sorted(tensors):
            info = tensors[key]
            if info.WhichOneof("encoding") != "name":
                continue  # a composite tensor, whose parts have other names
            if not _has_tensor(info.name, nodes):
                yield (
                    f"signature '{name}' names the tensor '{info.name}' for its {kind} "
                    f"'{key}', which the graph does not have."
                )
            if dtype_name(info.dtype).startswith(("unknown", "invalid")):
                yield f"signature '{name}' has no known dtype for its {kind} '{key}'."


def _has_tensor(tensor, nodes):
    node = nodes.get(node_name(tensor))
    index = tensor.rpartition(":")[2] if ":" in tensor else "0"
    if node is None or not re.fullmatch("[0-9]{1,9}", index):
        return False
    if "Tout" in node.attr:  # a call, which has as many outputs as types
        return int(index) < len(node.attr["Tout"].list.type)
    definition = op_def_registry.get(node.op)
    if definition is None or any(
        arg.number_attr or arg.type_list_attr for arg in definition.output_arg
    ):
        return True
    return int(index) < len(definition.output_arg)


def file_problems(folder, meta_graph):
    """What is wrong with the files beside the graph: variables and assets."""
    if any(node.op in ("VarHandleOp", "VariableV2") for node in meta_graph.graph_def.node):
        yield from _variable_problems(folder)
    root = os.path.abspath(folder / "assets")
    for asset in meta_graph.asset_file_def:
        path = os.path.normpath(os.path.join(root, asset.filename))
        if os.path.commonpath([root, path]) != root:
            yield f"the asset {asset.filename!r} leaves the folder assets/."
        elif not is_file(path):
            yield f"the file assets/{asset.filename} is missing."


def _variable_problems(folder):
    if not is_file(folder / "variables" / "variables.index"):
        yield "the file variables/variables.index is missing."
        return
    try:
        reader = _checkpoint(folder)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except _CHECKPOINT_ERRORS as error:
        yield f"the variables cannot be read: {(str(error).splitlines() or [''])[0]}"


def _checkpoint(folder):
    """A reader of the variables, none of whose files can keep it waiting."""
    prefix = folder / "variables" / "variables"
    for path in prefix.parent.glob("variables.*"):
        if not is_file(path):
            raise OSError(f"variables/{path.name} is no file")
    return tf.train.load_checkpoint(os.fsencode(prefix))


def weight_bytes(folder):
    """Bytes of the variables themselves; 0 where they cannot be read."""
    try:
        reader = _checkpoint(folder)
        dtypes = reader.get_variable_to_dtype_map()
        return sum(
            tf.TensorShape(shape).num_elements() * dtypes[name].size
            for name, shape in reader.get_variable_to_shape_map().items()
            if dtypes[name] != tf.string
        )
    except _CHECKPOINT_ERRORS:
        return 0


def warmup_problems(folder, meta_graph):
    """What is wrong with the warm-up file: one bad record fails the load.

    Args:
        folder: The folder of the SavedModel.
        meta_graph: Its `MetaGraphDef`, or None where there is none to compare with.

    Yields:
        Sentences.
    """
    path = folder / WARMUP_FILE
    if not os.path.lexists(path):
        return
    if not is_file(path):
        yield f"{WARMUP_FILE} is no file."
        return
    try:
        records = [record.numpy() for record in tf.data.TFRecordDataset(os.fsencode(path))]
    except tf.errors.OpError as error:
        yield f"the warm-up file cannot be read: {error.message}"
        return
    if len(records) > MAX_RECORDS:
        yield f"the warm-up file has {len(records)} records; {MAX_RECORDS} are allowed."
    try:
        log = serving_protos("prediction_log_pb2").PredictionLog
    except ImportError:
        return
    found = set()
    for record in records[:MAX_RECORDS]:
        found.update(_record_problems(record, log, meta_graph))
    yield from sorted(found)


def _record_problems(content, log, meta_graph):
    try:
        record = log.FromString(content)
    except DecodeError:
        yield "a warm-up record is no PredictionLog."
        return
    if not record.WhichOneof("log_type"):
        yield "a warm-up record holds no request."
    if not record.HasField("predict_log") or meta_graph is None:
        return
    request = record.predict_log.request
    name = request.model_spec.signature_name or "serving_default"
    if name not in signature_names(meta_graph):
        yield f"a warm-up record asks for the signature '{name}', which there is not."
        return
    inputs = meta_graph.signature_def[name].inputs
    if set(request.inputs) != set(inputs):
        yield (
            f"a warm-up record for '{name}' has the inputs {sorted(request.inputs)}, not "
            f"{sorted(inputs)}."
        )
        return
    for key in sorted(inputs):
        sent, expected = request.inputs[key], inputs[key]
        shape = tensor_shape(sent)
        fits = tf.TensorShape(tensor_shape(expected)).is_compatible_with(shape)
        if sent.dtype != expected.dtype or not fits:
            yield (
                f"a warm-up record for '{name}' sends {dtype_name(sent.dtype)} {shape} as "
                f"'{key}', not {dtype_name(expected.dtype)} {tensor_shape(expected)}."
            )
        elif 0 in shape:
            yield f"a warm-up record for '{name}' has no rows in '{key}'."
