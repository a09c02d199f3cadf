"""From a Python function to a pure graph function that a server can run."""

import contextlib
import re
import warnings

import keras
import tensorflow as tf

from tfconcrete.export.boundary import boundary_dtype
from tfconcrete.export.graph import all_nodes, is_assignment, is_python, is_random, pruned
from tfconcrete.export.names import stable_names, unique
from tfconcrete.layers.recorder import record_codes

# What may name a node, in which an input's name becomes a part of one.
_NODE_NAME = re.compile("[A-Za-z0-9.][A-Za-z0-9_.>/-]*")


@contextlib.contextmanager
def _inlined_functions():
    """`tf.function`s called inside are traced as the plain functions they wrap."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


def with_codes(call, model):
    """`call`, with the codes of every sampling layer added to what it returns.

    The codes of a layer that Keras calls once for each time step (`TimeDistributed`, an
    unrolled RNN) are one output `[batch, time, ...]`. A layer called inside a loop or a
    branch of the graph has its codes there, where the signature cannot reach them: none of
    its calls adds an output, and a warning says so.

    Args:
        call: Function from tensors by name to outputs by name.
        model: The model that it calls.
    """
    stable = stable_names(model)

    def call_and_record(tensors):
        with record_codes() as records:
            outputs = dict(call(tensors))
        reached = _reachable_codes(records)
        names = unique(f"{stable.get(name, name)}_codes" for name, _ in reached)
        for name, (_, codes) in zip(names, reached, strict=True):
            if name in outputs:
                raise ValueError(
                    f"Cannot export: an output of the model is named '{name}', which is "
                    "the name for the codes of a sampling layer. Rename the output."
                )
            outputs[name] = codes
        return outputs

    return call_and_record


def _reachable_codes(records):
    """Pairs of a layer's name and codes, in call order; time steps are stacked."""
    here = tf.compat.v1.get_default_graph()
    hidden = {record.name for record in records if record.codes.graph is not here}
    for name in sorted(hidden):
        warnings.warn(
            f"The sampling layer '{name}' is called inside a loop or a branch, so that its "
            "codes are no output of `serving_default`. Return them from the model to serve "
            "them.",
            stacklevel=2,
        )
    steps, reached = {}, []
    for record in records:
        if record.name in hidden:
            continue
        if not record.is_step:
            reached.append((record.name, record.codes))
        elif record.name in steps:
            steps[record.name].append(record.codes)
        else:
            steps[record.name] = [record.codes]
            reached.append((record.name, steps[record.name]))
    return [
        (name, tf.stack(codes, axis=1) if isinstance(codes, list) else codes)
        for name, codes in reached
    ]


class Endpoint:
    """A signature: a graph function that only reads, pruned to what its outputs need.

    Args:
        name: The signature's name.
        call: Function from a dict of tensors to a dict of tensors.
        specs: Its inputs by name, as `tf.TensorSpec`s.
        random: Whether random ops are allowed.
        example: Function from example inputs of `serving_default` to those of this
            signature; the same ones by default.
        tracked: The object whose lookup tables and other resources the call may use.

    Attributes:
        function: The `ConcreteFunction` to save.
        variables: The `tf.Variable`s that it reads.
        resources: Lookup tables and the like that it reads.
    """

    def __init__(self, name, call, specs, random=False, example=None, tracked=None):
        self.name, self.specs = name, specs
        for key in specs:
            if not _NODE_NAME.fullmatch(key):
                raise ValueError(
                    f"Cannot export signature '{name}': its input {key!r} has a name that no "
                    "graph of TensorFlow takes. Rename the input, with ASCII letters, digits, "
                    "'_', '-' and '.', and none of '_' and '-' first."
                )
        self.example = example or (lambda inputs: inputs)
        try:
            with _inlined_functions():
                traced, outputs = _trace(call, specs)
        except (tf.errors.OperatorNotAllowedInGraphError, NotImplementedError):
            # A `tf.function` inside needs AutoGraph for its control flow.
            traced, outputs = _trace(call, specs)
        graph_def = pruned(
            traced.graph.as_graph_def(), [tensor.name for tensor in outputs.values()]
        )
        self._refuse_side_effects(graph_def, random)
        kept = {node.name for node in graph_def.node}
        feeds = traced.inputs[: len(specs)]
        captures = [
            (inner, outer)
            for inner, outer in zip(
                traced.inputs[len(specs) :], traced.captured_inputs, strict=True
            )
            if inner.op.name in kept
        ]
        handles = {id(outer) for _, outer in captures}
        self.variables = [v for v in traced.graph.variables if id(v.handle) in handles]
        self.resources = _resources(tracked, handles)

        def serve(*tensors):
            graph = tf.compat.v1.get_default_graph()
            replaced = {
                inner.name: outer
                for inner, outer in zip(feeds, tensors, strict=True)
                if inner.op.name in kept
            }
            replaced.update({inner.name: graph.capture(outer) for inner, outer in captures})
            results = tf.graph_util.import_graph_def(
                graph_def,
                input_map=replaced,
                return_elements=[tensor.name for tensor in outputs.values()],
                name="",
            )
            return dict(zip(outputs, results, strict=True))

        self.function = tf.function(
            serve, input_signature=list(specs.values()), autograph=False
        ).get_concrete_function()

    def _refuse_side_effects(self, graph_def, random):
        library = {function.signature.name: function for function in graph_def.library.function}
        ops = {node.op for node in all_nodes(graph_def.node, library)}
        drawn = sorted(op for op in ops if is_random(op)) if not random else []
        assigned = sorted(op for op in ops if is_assignment(op))
        python = sorted(op for op in ops if is_python(op))
        if python:
            raise ValueError(
                f"Cannot export signature '{self.name}': it calls back into Python "
                f"({', '.join(python)}), which a server does not have. Write that part with "
                "TensorFlow's or Keras' ops, or do it before the request."
            )
        for found, what in ((drawn, "random ops"), (assigned, "assignments to variables")):
            if found:
                raise ValueError(
                    f"Cannot export signature '{self.name}': its outputs depend on {what} "
                    f"({', '.join(found)}), so that the same request would get different "
                    "answers. Let the model skip them when `training` is False."
                )


def _trace(call, specs):
    """The wrapped function of `call` and its outputs by name, floats as float32."""
    outputs = {}

    def body(*tensors):
        results = call(dict(zip(specs, tensors, strict=True)))
        for name, value in results.items():
            if not isinstance(value, tf.Tensor):
                value = keras.ops.convert_to_tensor(value)
            # An op of its own: an output may be an input, or the same tensor twice.
            outputs[name] = tf.identity(tf.cast(value, boundary_dtype(value.dtype)))
        return list(outputs.values())

    # Unlike `tf.function`, this adds no control dependencies: what no output needs (a
    # loss, the state of a seed) is cut off below, whether it has side effects or not.
    signature = [
        tf.TensorSpec(spec.shape, spec.dtype, name=f"input_{index}")
        for index, spec in enumerate(specs.values())
    ]
    traced = tf.compat.v1.wrap_function(body, signature)
    return traced, dict(zip(outputs, traced.outputs, strict=True))


def _resources(tracked, handles):
    if tracked is None:
        return []
    return [
        child
        for child in tf.train.TrackableView(tracked).descendants()
        if isinstance(child, tf.saved_model.experimental.TrackableResource)
        and id(child.resource_handle) in handles
    ]
