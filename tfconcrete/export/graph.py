"""What a graph holds: the ops behind an output, random ops, assignments, XLA."""

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

MUST_COMPILE = "_XlaMustCompile"


def is_random(op_type):
    """Whether an op of this type gives other values when it runs again."""
    return "Random" in op_type or "Multinomial" in op_type


def is_assignment(op_type):
    """Whether an op of this type changes a variable."""
    return "Assign" in op_type or op_type.startswith(("ResourceScatter", "ResourceApply"))


def is_python(op_type):
    """Whether an op of this type calls back into the Python that made it."""
    return op_type in ("PyFunc", "PyFuncStateless", "EagerPyFunc")


def called_functions(node):
    """The names of the functions that a node refers to."""
    for attribute in node.attr.values():
        if attribute.HasField("func"):
            yield attribute.func.name
        for function in attribute.list.func:
            yield function.name


def node_name(tensor):
    """The node behind an input such as `^node`, `node:1` or `node:output:0`."""
    return tensor.removeprefix("^").split(":")[0]


def reachable(nodes, outputs):
    """The nodes that the outputs need, with their control inputs."""
    by_name = {node.name: node for node in nodes}
    waiting, seen = [node_name(output) for output in outputs], set()
    while waiting:
        name = waiting.pop()
        if name in by_name and name not in seen:
            seen.add(name)
            waiting.extend(node_name(tensor) for tensor in by_name[name].input)
    return [node for node in nodes if node.name in seen]


def pruned(graph_def, outputs):
    """The part of a GraphDef that the outputs need."""
    kept = tf.compat.v1.GraphDef(versions=graph_def.versions, library=graph_def.library)
    kept.node.extend(reachable(graph_def.node, outputs))
    return kept


def all_nodes(nodes, library):
    """The nodes, and those of every function that they call, at any depth.

    Args:
        nodes: NodeDefs.
        library: FunctionDefs by name.

    Yields:
        NodeDefs. A function's body comes once, however often it is called.
    """
    waiting, seen = list(nodes), set()
    while waiting:
        node = waiting.pop()
        yield node
        for name in (node.op, *called_functions(node)):
            if name in library and name not in seen:
                seen.add(name)
                waiting.extend(library[name].node_def)


def _must_compile(holder):
    return MUST_COMPILE in holder.attr and holder.attr[MUST_COMPILE].b


def xla_functions(graph_def):
    """The names of the functions that must be compiled, which TF Serving refuses."""
    return sorted(
        function.signature.name
        for function in graph_def.library.function
        if any(_must_compile(holder) for holder in (function, *function.node_def))
    )


def strip_xla(folder):
    """Lets every function of a SavedModel run without XLA."""
    path = folder / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    graph_def = saved.meta_graphs[0].graph_def
    if not xla_functions(graph_def):
        return
    for function in graph_def.library.function:
        for holder in (function, *function.node_def):
            holder.attr.pop(MUST_COMPILE, None)
    path.write_bytes(saved.SerializeToString(deterministic=True))
    # It holds checksums of the graph as it was; a SavedModel loads without it.
    (folder / "fingerprint.pb").unlink(missing_ok=True)
