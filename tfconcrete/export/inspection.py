"""`inspect`: what a SavedModel holds, and what TF Serving would refuse in it."""

import dataclasses
import pathlib

import tensorflow as tf
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

from tfconcrete._checks import invalid_value
from tfconcrete.export.graph import (
    all_nodes,
    called_functions,
    is_assignment,
    is_python,
    is_random,
    reachable,
    xla_functions,
)
from tfconcrete.export.versions import check_path, version_folder, versions
from tfconcrete.export.warmup import FILE as WARMUP_FILE

_MAX_WARMUP = 1000
_NUMPY_NAMES = {"half": "float16", "float": "float32", "double": "float64"}
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


def inspect(path):
    """Looks into any SavedModel: signatures, ops, sizes, and what TF Serving would refuse.

    Reads the files without loading the model, so it also works on one that cannot be
    loaded.

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
    folder = _find(check_path(path))
    problems, notes = [], []
    meta_graph = _read(folder, problems)
    signatures = {}
    if meta_graph is not None:
        library = {f.signature.name: f for f in meta_graph.graph_def.library.function}
        for name in sorted(meta_graph.signature_def):
            if not name.startswith("__"):
                definition = meta_graph.signature_def[name]
                signatures[name] = _signature(definition, meta_graph.graph_def, library)
        _check_graph(meta_graph, library, signatures, problems)
        _check_files(folder, meta_graph, problems)
        _note_signatures(signatures, notes)
    _check_warmup(folder, problems)
    if not folder.resolve().name.isdigit():
        notes.append(
            f"the folder is named '{folder.resolve().name}': a server reads only folders "
            "named by a version number, such as 1, in the model's folder."
        )
    return SavedModelReport(
        path=str(folder),
        signatures=signatures,
        size=_bytes(folder),
        variables_size=_bytes(folder / "variables"),
        weights_size=_weight_bytes(folder),
        problems=problems,
        notes=notes,
    )


def _is_saved_model(folder):
    return any((folder / name).is_file() for name in ("saved_model.pb", "saved_model.pbtxt"))


def _find(path):
    if path.is_dir() and not _is_saved_model(path) and versions(path):
        path = version_folder(path, versions(path)[-1])
    if not path.is_dir():
        raise invalid_value("path", "the folder of a SavedModel", str(path))
    return path


def _read(folder, problems):
    """The meta graph that a server would load, or None."""
    saved = saved_model_pb2.SavedModel()
    try:
        if (folder / "saved_model.pb").is_file():
            saved.ParseFromString((folder / "saved_model.pb").read_bytes())
        elif (folder / "saved_model.pbtxt").is_file():
            text_format.Parse((folder / "saved_model.pbtxt").read_text(), saved)
        else:
            problems.append("there is no saved_model.pb in the folder.")
            return None
    except (DecodeError, text_format.ParseError) as error:
        problems.append(f"saved_model.pb cannot be read: {error}.")
        return None
    for meta_graph in saved.meta_graphs:
        if set(meta_graph.meta_info_def.tags) == {"serve"}:
            return meta_graph
    tags = [sorted(graph.meta_info_def.tags) for graph in saved.meta_graphs]
    problems.append(f"no graph is tagged 'serve' (the tags are {tags}).")
    return None


def _tensor(info):
    shape = None
    if not info.tensor_shape.unknown_rank:
        shape = tuple(None if d.size < 0 else d.size for d in info.tensor_shape.dim)
    name = types_pb2.DataType.Name(info.dtype).removeprefix("DT_").lower()
    return TensorReport(_NUMPY_NAMES.get(name, name), shape)


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


def _check_graph(meta_graph, library, signatures, problems):
    if not signatures:
        problems.append("it has no signature to call.")
    for name, signature in signatures.items():
        python = sorted(op for op in signature.ops if is_python(op))
        if python:
            problems.append(
                f"signature '{name}' calls back into Python ({', '.join(python)}), which a "
                "server does not have."
            )
        unknown = sorted(op for op in signature.ops if not op_def_registry.get(op))
        if unknown:
            problems.append(
                f"signature '{name}' uses custom ops ({', '.join(unknown)}), which a server "
                "does not have unless it was built with them."
            )
    compiled = xla_functions(meta_graph.graph_def)
    for name in signatures:
        used = _functions_of(meta_graph, name, library) & set(compiled)
        if used:
            problems.append(
                f"signature '{name}' must be compiled by XLA (_XlaMustCompile in "
                f"{', '.join(sorted(used))}), which a server has switched off unless it is "
                "started with --xla_cpu_compilation_enabled=true."
            )


def _functions_of(meta_graph, name, library):
    outputs = [info.name for info in meta_graph.signature_def[name].outputs.values()]
    found = set()
    for node in all_nodes(reachable(meta_graph.graph_def.node, outputs), library):
        functions = (node.op, *called_functions(node))
        found.update(function for function in functions if function in library)
    return found


def _check_files(folder, meta_graph, problems):
    prefix = folder / "variables" / "variables"
    uses_variables = any(
        node.op in ("VarHandleOp", "VariableV2") for node in meta_graph.graph_def.node
    )
    if uses_variables:
        if not prefix.with_suffix(".index").is_file():
            problems.append("the file variables/variables.index is missing.")
        else:
            _check_variables(prefix, problems)
    for asset in meta_graph.asset_file_def:
        if not (folder / "assets" / asset.filename).is_file():
            problems.append(f"the file assets/{asset.filename} is missing.")


def _check_variables(prefix, problems):
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except (tf.errors.OpError, ValueError, RuntimeError, IndexError) as error:
        problems.append(f"the variables cannot be read: {str(error).splitlines()[0]}")


def _check_warmup(folder, problems):
    path = folder / WARMUP_FILE
    if not path.is_file():
        return
    try:
        count = sum(1 for _ in tf.data.TFRecordDataset(str(path)))
    except tf.errors.OpError as error:
        problems.append(f"the warm-up file cannot be read: {error.message}")
        return
    if count > _MAX_WARMUP:
        problems.append(f"the warm-up file has {count} records; {_MAX_WARMUP} are allowed.")


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
    return sum(file.stat().st_size for file in pathlib.Path(folder).rglob("*") if file.is_file())


def _weight_bytes(folder):
    prefix = folder / "variables" / "variables"
    try:
        reader = tf.train.load_checkpoint(str(prefix))
    except (tf.errors.OpError, ValueError, RuntimeError):
        return 0
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    return sum(
        tf.TensorShape(shape).num_elements() * dtypes[name].size
        for name, shape in shapes.items()
        if dtypes[name] != tf.string
    )
