"""A walk through a traced function: where each tensor would live on a device.

TensorFlow places an op on the device where it has a kernel for the op's dtypes, and on
the host otherwise; a kernel may still keep some of its arguments in host memory. What
depends on nothing but constants and shapes costs nothing (it is folded, or made on the
host and read there), so only tensors that depend on data are followed.
"""

import collections
import dataclasses
import os

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from tfconcrete.diagnostics.kernels import (
    argument_names,
    find_kernel,
    lives_in_host_memory,
)

# Where a tensor lives (`on_host`), and whether its values depend on data (`is_data`);
# `is_input`: an argument of the whole function, in host memory by the caller's choice.
Place = collections.namedtuple("Place", ["on_host", "is_data", "is_input"], defaults=[False])

# Ops that read the shape of a tensor, never its values.
_METADATA = {
    "Shape",
    "ShapeN",
    "Size",
    "Rank",
    "ZerosLike",
    "OnesLike",
    "VariableShape",
    "TensorListElementShape",
    "TensorListLength",
}
# Ops that hand on what they get, and are gone once a graph is optimized.
_NAMES = {"Identity", "IdentityN", "StopGradient", "PreventGradient", "Snapshot"}
# Ops that hold a function and run it, by the attributes that name their functions.
_CALLS = {
    "PartitionedCall": ["f"],
    "StatefulPartitionedCall": ["f"],
    "If": ["then_branch", "else_branch"],
    "StatelessIf": ["then_branch", "else_branch"],
    "Case": ["branches"],
    "StatelessCase": ["branches"],
    "While": ["cond", "body"],
    "StatelessWhile": ["cond", "body"],
}
_LOOPS = ("While", "StatelessWhile")
_COMPILED = "_XlaMustCompile"
# Runs when an assertion has failed; until then nothing is copied.
_ASSERTIONS = {"Assert"}
# Code that is not the user's, nor this package's.
_LIBRARIES = tuple(os.path.dirname(library.__file__) + os.sep for library in (tf, keras, tfp))
# Where what is looked at is called from; outside of it is whoever asked.
_CALLER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "device_report.py")


@dataclasses.dataclass(frozen=True)
class Finding:
    """One op that a device does not keep to itself.

    Attributes:
        step: Which step of the model, or the function's name.
        op: The op's type, with the dtypes of its inputs.
        name: Its name in the graph, after those of the calls and loops around it.
        reason: What the device lacks.
        shape: Shape of the largest tensor concerned, None where it is not known.
        dtype: dtype of that tensor.
        num_bytes: Its size, None where it is not known.
        source: File and line that made the op, where that is known.
    """

    step: str
    op: str
    name: str
    reason: str
    shape: tuple | None
    dtype: str
    num_bytes: int | None
    source: str


class Walk:
    """Follows the tensors of one traced function.

    Args:
        step: Name of the function in the findings.
        device: `"CPU"` or `"GPU"`.

    Attributes:
        findings: List of `Finding`.
        compiled: Names of the calls that XLA compiles, which are not entered.
        num_ops: How many ops were looked at.
    """

    def __init__(self, step, device):
        self.step = step
        self.device = device
        self.findings = []
        self.compiled = []
        self.num_ops = 0
        self._quiet = False

    def function(self, concrete):
        """Walks through a `ConcreteFunction`."""
        graph = concrete.graph
        places = [Place(self._host_argument(x.dtype), True, is_input=True) for x in graph.inputs]
        if concrete.function_def.attr[_COMPILED].b:
            self.compiled.append(self.step)
        else:
            self._graph(graph, places, "")

    def _host_argument(self, dtype):
        return lives_in_host_memory("_Arg", "T", dtype, "output", self.device)

    def _graph(self, graph, inputs, prefix):
        """Places of a graph's outputs, given those of its inputs."""
        places = {x.name: place for x, place in zip(graph.inputs, inputs, strict=True)}
        for op in _in_order(graph):
            if op.type == "Placeholder" and op.outputs[0].name in places:
                continue
            read = [places[x.name] for x in op.inputs]
            for x, place in zip(op.outputs, self._op(op, read, prefix), strict=True):
                places[x.name] = place
        return [places[x.name] for x in graph.outputs]

    def _op(self, op, inputs, prefix):
        """Places of an op's outputs."""
        if self._is_placed_on_host(op):
            return self._placed_on_host(op, inputs, prefix)
        if op.type in _CALLS:
            return self._call(op, inputs, prefix)
        if not self._quiet:
            self.num_ops += 1
        if op.type in _NAMES:
            return inputs
        if not self._is_data(op, inputs):
            return [Place(self._host_constant(x.dtype), False) for x in op.outputs]
        kernel = find_kernel(op.type, op.node_def.attr, self.device)
        if kernel is None or self._variable_on_host(op):
            return self._without_kernel(op, inputs, prefix)
        return self._with_kernel(op, inputs, kernel, prefix)

    def _is_placed_on_host(self, op):
        """Whether `tf.device` was asked for the CPU."""
        placed = tf.DeviceSpec.from_string(op.device).device_type
        return self.device != "CPU" and placed == "CPU"

    def _placed_on_host(self, op, inputs, prefix):
        if not self._quiet:
            self.num_ops += 1
        is_data = self._is_data(op, inputs)
        tensors = [x for x, place in zip(op.inputs, inputs, strict=True) if place.is_data]
        tensors = [x for x in [*tensors, *op.outputs] if not _is_scalar(x)]
        if is_data and tensors:
            self._find(op, prefix, "placed on the CPU", tensors)
        return [Place(True, is_data) for _ in op.outputs]

    def _is_data(self, op, inputs):
        if op.type in _METADATA:
            return False
        # A draw with a fixed seed stands for one with any seed; its key is known, though.
        is_draw = "Random" in op.type and not op.type.endswith("KeyCounter")
        return is_draw or any(place.is_data for place in inputs)

    def _host_constant(self, dtype):
        return lives_in_host_memory("Const", "dtype", dtype, "output", self.device)

    def _variable_on_host(self, op):
        """Whether the op reads or writes a variable that the device cannot hold."""
        if "VariableOp" not in op.type or "dtype" not in op.node_def.attr:
            return False
        attributes = {"dtype": op.node_def.attr["dtype"]}
        return find_kernel("VarHandleOp", attributes, self.device) is None

    def _without_kernel(self, op, inputs, prefix):
        tensors = [x for x, place in zip(op.inputs, inputs, strict=True) if place.is_data]
        self._find(op, prefix, f"no {self.device} kernel", tensors + list(op.outputs))
        return [Place(True, True) for _ in op.outputs]

    def _with_kernel(self, op, inputs, kernel, prefix):
        if self.device == "CPU":
            return [Place(True, True) for _ in op.outputs]
        host = set(kernel.host_memory_arg)
        input_names, output_names = argument_names(op)
        in_host, to_device = [], []
        for x, place, name in zip(op.inputs, inputs, input_names, strict=True):
            if _is_scalar(x):
                continue
            if name in host and place.is_data:
                in_host.append(x)
            elif name not in host and place.on_host and not place.is_data:
                to_device.append(x)
        for x, name in zip(op.outputs, output_names, strict=True):
            if name in host and not _is_scalar(x):
                in_host.append(x)
        if in_host and op.type not in _ASSERTIONS:
            self._find(op, prefix, "in host memory", in_host)
        elif to_device:
            self._find(op, prefix, "constant in host memory", to_device)
        return [Place(name in host, True) for name in output_names]

    def _call(self, op, inputs, prefix):
        name = f"{prefix}{op.name}"
        attributes = op.node_def.attr
        functions = [
            op.graph._get_function(function.name)
            for attribute in _CALLS[op.type]
            for function in (attributes[attribute].list.func or [attributes[attribute].func])
        ]
        if attributes[_COMPILED].b or any(f.definition.attr[_COMPILED].b for f in functions):
            if not self._quiet:
                self.compiled.append(f"{self.step}: {name}")
            return [Place(False, True) for _ in op.outputs]
        if op.type in _LOOPS:
            return self._loop(op, functions, inputs, f"{name}/")
        if op.type not in ("PartitionedCall", "StatefulPartitionedCall"):
            inputs = inputs[1:]  # without the predicate
        branches = [self._graph(f.graph, inputs, f"{name}/") for f in functions]
        return [_either(places) for places in zip(*branches, strict=True)]

    def _loop(self, op, functions, inputs, prefix):
        condition, body = (f.graph for f in functions)
        state = [
            Place(
                lives_in_host_memory("Merge", "T", x.dtype, "output", self.device),
                place.is_data,
            )
            for x, place in zip(op.inputs, inputs, strict=True)
        ]
        outer, self._quiet = self._quiet, True
        while True:
            after = self._graph(body, state, prefix)
            merged = [
                old._replace(is_data=old.is_data or new.is_data)
                for old, new in zip(state, after, strict=True)
            ]
            if merged == state:
                break
            state = merged
        self._quiet = outer
        self._graph(condition, state, prefix)
        self._graph(body, state, prefix)
        return state

    def _find(self, op, prefix, reason, tensors):
        if self._quiet:
            return
        largest = max(tensors, key=_num_bytes_or_more, default=None)
        shape = None if largest is None or largest.shape.rank is None else tuple(largest.shape)
        self.findings.append(
            Finding(
                self.step,
                f"{op.type}({', '.join(x.dtype.name for x in op.inputs)})",
                f"{prefix}{op.name}",
                reason,
                shape,
                "" if largest is None else largest.dtype.name,
                None if largest is None else _num_bytes(largest),
                _source(op),
            )
        )


def _in_order(graph):
    """The ops that a graph runs, each after those it waits for.

    What neither a result nor a side effect needs is dropped before a graph runs. The order in
    which ops were made does not do: the gradient of a loop gives it more inputs afterwards.
    """
    done, order = set(), []
    waiting = [*(x.op for x in graph.outputs), *graph.control_outputs]
    while waiting:
        op = waiting[-1]
        before = [x.op for x in op.inputs] + op.control_inputs
        before = [each for each in before if each.name not in done]
        if before and op.name not in done:
            waiting.extend(before)
            continue
        waiting.pop()
        if op.name not in done:
            done.add(op.name)
            order.append(op)
    return order


def _either(places):
    return Place(any(p.on_host for p in places), any(p.is_data for p in places))


def _is_scalar(x):
    return x.dtype.name == "resource" or x.shape.num_elements() in (0, 1)


def _num_bytes(x):
    elements = x.shape.num_elements()
    return None if elements is None else elements * max(x.dtype.size, 1)


def _num_bytes_or_more(x):
    """For comparison: a size that is not known may be any."""
    known = _num_bytes(x)
    return float("inf") if known is None else known


def _source(op):
    """The innermost line of code outside TensorFlow, Keras and TFP that made an op, if any."""
    for frame in reversed(op.traceback):
        if frame.filename == _CALLER:
            break
        generated = "__autograph_generated_file" in frame.filename
        if not generated and not frame.filename.startswith((*_LIBRARIES, "<")):
            return f"{frame.filename}:{frame.lineno}"
    return ""
