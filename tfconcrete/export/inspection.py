"""`inspect`: what a SavedModel holds, and what TF Serving would refuse in it."""

import dataclasses
import os

from tfconcrete.export.graph import all_nodes, is_assignment, is_random, reachable
from tfconcrete.export.refusals import (
    file_problems,
    graph_problems,
    warmup_problems,
    weight_bytes,
)
from tfconcrete.export.saved_model import (
    dtype_name,
    find_saved_model,
    is_file,
    read_meta_graph,
    signature_names,
    tensor_shape,
)
from tfconcrete.export.versions import is_version

_BIT_TRICKS = {"Bitcast", "BitwiseAnd"}


@dataclasses.dataclass(frozen=True)
class TensorReport:
    """One input or output: its dtype by name, and its shape (None for any size)."""

    dtype: str
    shape: tuple | None

    def __str__(self):
        if self.shape is None:
            return f"{self.dtype} of any shape"
        sizes = ["?" if size is None else str(size) for size in self.shape]
        if self.shape and self.shape[0] is None:
            sizes[0] = "batch"
        return f"{self.dtype} [{', '.join(sizes)}]"


@dataclasses.dataclass(frozen=True)
class SignatureReport:
    """One signature: its inputs and outputs by name, and how often it uses each op."""

    inputs: dict
    outputs: dict
    ops: dict

    @property
    def random_ops(self):
        """The op types that give other values when they run again."""
        return sorted(op for op in self.ops if is_random(op))

    @property
    def assignments(self):
        """The op types that change a variable."""
        return sorted(op for op in self.ops if is_assignment(op))


@dataclasses.dataclass(frozen=True)
class SavedModelReport:
    """What `inspect` found.

    Attributes:
        path: The folder of the SavedModel.
        signatures: `SignatureReport`s by name.
        size: Bytes on disk, all files together.
        variables_size: Bytes of the files in `variables/`.
        weights_size: Bytes of the variables themselves.
        problems: What TF Serving would refuse, a sentence each.
        notes: What it would take, but a user may want to know, a sentence each.
    """

    path: str
    signatures: dict
    size: int
    variables_size: int
    weights_size: int
    problems: list
    notes: list

    @property
    def servable(self):
        """Whether TF Serving would load and run it."""
        return not self.problems

    @property
    def ops(self):
        """How often each op type is used, by signature."""
        return {name: signature.ops for name, signature in self.signatures.items()}

    @property
    def verdict(self):
        """One line, then one for each thing that TF Serving would refuse."""
        if self.servable:
            return "TF Serving would serve this."
        lines = ["TF Serving would refuse this:"]
        return "\n".join([*lines, *(f"  - {problem}" for problem in self.problems)])

    def __str__(self):
        lines = [
            f"SavedModel {self.path}",
            f"  {self.size:,} bytes on disk, {self.variables_size:,} of them variables "
            f"(weights: {self.weights_size:,})",
        ]
        for name, signature in self.signatures.items():
            kinds = f"{sum(signature.ops.values())} ops of {len(signature.ops)} types"
            lines.append(f"  signature {name}: {kinds}")
            for word, tensors in (("in ", signature.inputs), ("out", signature.outputs)):
                lines.extend(f"    {word} {key}: {value}" for key, value in tensors.items())
        lines.extend(f"  note: {note}" for note in self.notes)
        return "\n".join([*lines, self.verdict])

    __repr__ = __str__


def inspect(path: str | os.PathLike) -> SavedModelReport:
    """Looks into any SavedModel: signatures, ops, sizes, and what TF Serving would refuse.

    Reads the files without loading the model, so it also works on one that cannot be
    loaded, whatever is wrong with it. What a verdict cannot see is what only a run shows,
    such as an op whose inputs do not fit each other.

    Args:
        path: The folder of a SavedModel, or one with version folders, of which the
            highest is taken, as a server would.

    Returns:
        A `SavedModelReport`. Printed, it is a readable summary with a verdict at the end.

    Example:

    >>> layers = [keras.Input([3], name="x"), tfc.ConcreteSample(name="z")]
    >>> path = tfc.export.save_discrete(keras.Sequential(layers), "served/tiny")
    >>> report = tfc.export.inspect(path)
    >>> report.signatures["serving_default"].outputs["z_codes"]
    TensorReport(dtype='int32', shape=(None,))
    >>> report.servable
    True
    >>> print(report.verdict)
    TF Serving would serve this.
    """
    folder = find_saved_model(path)
    problems, notes = [], []
    meta_graph, problem = read_meta_graph(folder)
    signatures = {}
    if meta_graph is None:
        problems.append(problem)
    else:
        library = {f.signature.name: f for f in meta_graph.graph_def.library.function}
        for name in signature_names(meta_graph):
            definition = meta_graph.signature_def[name]
            signatures[name] = _signature(definition, meta_graph.graph_def, library)
        problems.extend(graph_problems(meta_graph, library))
        problems.extend(file_problems(folder, meta_graph))
        _note_signatures(signatures, notes)
    problems.extend(warmup_problems(folder, meta_graph))
    if not is_version(folder.resolve().name):
        notes.append(
            f"the folder is named '{folder.resolve().name}': a server reads only folders "
            "named by a version number, such as 1, in the model's folder."
        )
    return SavedModelReport(
        path=str(folder),
        signatures=signatures,
        size=_bytes(folder),
        variables_size=_bytes(folder / "variables"),
        weights_size=weight_bytes(folder),
        problems=problems,
        notes=notes,
    )


def _tensor(info):
    return TensorReport(dtype_name(info.dtype), tensor_shape(info))


def _signature(definition, graph_def, library):
    outputs = [info.name for info in definition.outputs.values()]
    ops = {}
    for node in all_nodes(reachable(graph_def.node, outputs), library):
        if node.op not in library:
            ops[node.op] = ops.get(node.op, 0) + 1
    return SignatureReport(
        {name: _tensor(definition.inputs[name]) for name in sorted(definition.inputs)},
        {name: _tensor(definition.outputs[name]) for name in sorted(definition.outputs)},
        dict(sorted(ops.items())),
    )


def _note_signatures(signatures, notes):
    if signatures and "serving_default" not in signatures:
        notes.append("there is no 'serving_default': every request must name its signature.")
    for name, signature in signatures.items():
        fixed = [
            f"{kind} '{key}'"
            for kind, tensors in (("input", signature.inputs), ("output", signature.outputs))
            for key, tensor in tensors.items()
            if tensor.shape is not None and (not tensor.shape or tensor.shape[0] is not None)
        ]
        if fixed:
            notes.append(
                f"signature '{name}' cannot be batched by a server: the first dimension of "
                f"{', '.join(fixed)} is not a batch of any size."
            )
        if signature.random_ops:
            notes.append(f"signature '{name}' draws numbers: {', '.join(signature.random_ops)}.")
        if signature.assignments:
            notes.append(
                f"signature '{name}' changes variables: {', '.join(signature.assignments)}."
            )
        if set(signature.ops) >= _BIT_TRICKS and "ArgMax" in signature.ops:
            notes.append(
                f"signature '{name}' takes an argmax by bit tricks "
                f"({', '.join(sorted(_BIT_TRICKS))}), which OpenVINO and ONNX reject: use "
                "`tf.argmax` instead of `keras.ops.argmax`."
            )


def _bytes(folder):
    """The bytes of all regular files in a folder, at any depth."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(parent, name)
            if is_file(file):
                total += os.path.getsize(file)
    return total
