"""What every converter shares: which signatures go, and what came of them.

A converter turns one signature into one file. Its runtime then answers the same examples as
the SavedModel, and a `ConversionReport` says how the answers compare.
"""

import dataclasses
import pathlib

import numpy as np
import tensorflow as tf

from tfconcrete._checks import invalid_type, invalid_value
from tfconcrete.export.graph import all_nodes, is_random, reachable
from tfconcrete.export.margins import Margins
from tfconcrete.export.saved_model import find_saved_model, read_meta_graph, signature_names
from tfconcrete.export.versions import write_files
from tfconcrete.export.warmup import FILE as WARMUP_FILE
from tfconcrete.export.warmup import check_examples, read_warmup

# The integer arithmetic of seeds, which other runtimes do not have.
_GENERATORS = {"Bitcast", "BitwiseXor", "RightShift"}


class ConversionError(RuntimeError):
    """A signature that a converter cannot convert."""


@dataclasses.dataclass(frozen=True)
class OutputReport:
    """How one output of a converted signature compares with the SavedModel's.

    Attributes:
        count: Numbers compared.
        differing: How many whole numbers (codes) differ; None for floats.
        largest_tie: For codes that differ, the largest distance between the score of the
            class the SavedModel chose and that of the class chosen instead, as the
            SavedModel computes them; None where none differs, or the scores are not known.
        median_margin: The median distance of the best two scores over all codes, to hold it
            against; None where the scores are not known.
        error: The largest absolute difference of floats, NaN where one of two is NaN; None for
            whole numbers.
        correlation: The correlation of finite floats; None for whole numbers.
    """

    count: int
    differing: int | None = None
    largest_tie: float | None = None
    median_margin: float | None = None
    error: float | None = None
    correlation: float | None = None

    @property
    def share(self):
        """The share of whole numbers that differ; None for floats."""
        return None if self.differing is None else self.differing / self.count

    def __str__(self):
        if self.differing is None:
            return f"differs by {self.error:.2g} at most, correlation {self.correlation:.6f}"
        if not self.differing:
            return f"all {self.count:,} equal"
        text = f"{self.differing:,} of {self.count:,} differ ({self.share:.3%})"
        if self.largest_tie is None:
            return text
        return (
            f"{text}, where the two scores are within {self.largest_tie:.2g} (the median "
            f"margin is {self.median_margin:.2g})"
        )


@dataclasses.dataclass(frozen=True)
class ConvertedSignature:
    """One signature: its file, and `OutputReport`s by name (None where nothing was asked)."""

    path: str
    outputs: dict | None


@dataclasses.dataclass(frozen=True)
class ConversionReport:
    """What a converter made of a SavedModel.

    Attributes:
        runtime: The name of the runtime.
        signatures: `ConvertedSignature`s by name.
        skipped: Why other signatures were not converted, by name.
    """

    runtime: str
    signatures: dict
    skipped: dict

    def __getitem__(self, signature):
        return self.signatures[signature]

    @property
    def codes_equal(self):
        """Whether every whole number of every checked signature is the SavedModel's."""
        reports = [
            output
            for signature in self.signatures.values()
            for output in (signature.outputs or {}).values()
        ]
        return all(not report.differing for report in reports)

    def __str__(self):
        lines = [f"{self.runtime} against the SavedModel:"]
        for name, signature in self.signatures.items():
            lines.append(f"  {name}: {signature.path}")
            if signature.outputs is None:
                lines.append("    not checked: no examples for its inputs")
            for key, report in (signature.outputs or {}).items():
                lines.append(f"    {key}: {report}")
        lines.extend(f"  {name}: not converted: {why}" for name, why in self.skipped.items())
        return "\n".join(lines)

    __repr__ = __str__


class Source:
    """A SavedModel to convert: its signatures as functions, and examples for them.

    Args:
        version_path: The folder of a SavedModel, or one with version folders.
        examples: A batch for `serving_default` as `save_discrete` takes for `warmup`; None
            for the requests of the warm-up file, where there is one.

    Attributes:
        path: The folder of the SavedModel.
        functions: Signatures by name, as `tf.saved_model.load` gives them.
        random: The signatures that draw random numbers.
    """

    def __init__(self, version_path, examples=None):
        self.path = find_saved_model(version_path, "version_path")
        self._meta_graph, problem = read_meta_graph(self.path)
        if self._meta_graph is None:
            raise invalid_value("version_path", f"a SavedModel ({problem})", str(version_path))
        self._loaded = tf.saved_model.load(str(self.path))  # the functions need it alive
        names = signature_names(self._meta_graph)
        self.functions = {name: self._loaded.signatures[name] for name in names}
        self.random = {name for name in names if self._draws(name)}
        self._answers, self._given = {}, self._given_inputs(examples)

    def _draws(self, name):
        graph_def = self._meta_graph.graph_def
        library = {f.signature.name: f for f in graph_def.library.function}
        outputs = [info.name for info in self._meta_graph.signature_def[name].outputs.values()]
        return any(
            is_random(node.op) or node.op in _GENERATORS
            for node in all_nodes(reachable(graph_def.node, outputs), library)
        )

    def _given_inputs(self, examples):
        """Example inputs by signature."""
        if examples is not None:
            first = "serving_default"
            if first not in self.functions:
                first = next(iter(self.functions))
            return {first: check_examples(examples, self.specs(first), "examples")}
        if not (self.path / WARMUP_FILE).is_file():
            return {}
        parts = {}
        for signature, inputs in read_warmup(self.path):
            for name, value in inputs.items():
                parts.setdefault(signature, {}).setdefault(name, []).append(value)
        return {
            signature: {name: np.concatenate(values) for name, values in inputs.items()}
            for signature, inputs in parts.items()
        }

    def specs(self, signature):
        """The inputs of a signature by name, as `tf.TensorSpec`s."""
        return dict(sorted(self.functions[signature].structured_input_signature[1].items()))

    def inputs(self, signature):
        """Example inputs of a signature; None where there are none.

        What the examples do not have, such as the codes that `decode` takes, is taken from
        the answers of the other signatures.
        """
        if signature in self._given:
            return self._given[signature]
        specs = self.specs(signature)
        known = {name: x for inputs in self._given.values() for name, x in inputs.items()}
        if not set(specs) <= set(known):
            for other in self.functions:
                if other not in self.random and set(self.specs(other)) <= set(known):
                    known = {**self.answer(other), **known}
        fits = all(
            name in known
            and spec.shape.is_compatible_with(known[name].shape)
            and (spec.dtype == tf.string or spec.dtype == known[name].dtype)
            for name, spec in specs.items()
        )
        return {name: known[name] for name in specs} if fits else None

    def answer(self, signature):
        """The SavedModel's own answer to the example inputs, by output name."""
        if signature not in self._answers:
            inputs = {name: tf.constant(value) for name, value in self.inputs(signature).items()}
            answer = self.functions[signature](**inputs)
            self._answers[signature] = {name: x.numpy() for name, x in answer.items()}
        return self._answers[signature]


def convert(source, runtime, path, signatures, make, run):
    """Converts signature by signature, checks each, and writes the files.

    Args:
        source: A `Source`.
        runtime: The runtime's name.
        path: The folder to write to.
        signatures: Names of signatures to convert; None for all that can go.
        make: Function from a signature's name to `(content, suffix)` of its file; raises a
            `ConversionError` where it cannot.
        run: Function from that content, the signature's name and arrays by input name to
            arrays by output name.

    Returns:
        A `ConversionReport`.
    """
    contents, reports, skipped = {}, {}, {}
    for name in _choose(source, signatures):
        try:
            if name in source.random:
                raise ConversionError(f"it draws random numbers, for which {runtime} has no ops")
            content, suffix = make(name)
        except ConversionError as error:
            if signatures is not None:
                raise ConversionError(f"Cannot convert signature '{name}': {error}.") from error
            skipped[name] = str(error)
            continue
        contents[f"{name}{suffix}"] = content
        inputs, outputs = source.inputs(name), None
        if inputs is not None:
            outputs = _compare(source, name, inputs, run(content, name, inputs))
        reports[name] = ConvertedSignature(str(pathlib.Path(path) / f"{name}{suffix}"), outputs)
    if contents:
        write_files(pathlib.Path(path), contents)
    return ConversionReport(runtime, reports, skipped)


def _choose(source, signatures):
    names = list(source.functions)
    if signatures is None:
        return names
    if isinstance(signatures, str) or not all(isinstance(name, str) for name in signatures):
        raise invalid_type("signatures", "None or a list of names", signatures)
    if not set(signatures) <= set(names):
        raise invalid_value("signatures", f"names among {names}", signatures)
    return list(signatures)


def _compare(source, signature, inputs, answer):
    expected = source.answer(signature)
    margins = Margins(source.functions[signature], inputs)
    reports = {}
    for name, right in expected.items():
        found = np.asarray(answer[name]).reshape(right.shape)
        if right.dtype.kind == "f":
            reports[name] = compare_floats(right, found)
        else:
            reports[name] = _compare_codes(right, found, margins, name)
    return reports


def compare_floats(right, found):
    """The `OutputReport` of floats: those of the SavedModel, and those found."""
    right, found = right.astype(np.float64).ravel(), found.astype(np.float64).ravel()
    same = (right == found) | (np.isnan(right) & np.isnan(found))
    finite = np.isfinite(right) & np.isfinite(found)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.max(np.where(same, 0.0, np.abs(right - found)), initial=0.0)
        pair = np.corrcoef(right[finite], found[finite]) if finite.sum() > 1 else np.eye(2)
        correlation = 1.0 if same.all() else float(pair[0, 1])
    return OutputReport(right.size, error=float(error), correlation=correlation)


def _compare_codes(right, found, margins, name):
    differ = right != found
    median = tie = None
    if margins.known(name):
        median = float(np.median(margins.of(name)))
        if differ.any():
            tie = float(margins.between(name, right, found)[differ].max())
    return OutputReport(right.size, int(differ.sum()), tie, median)
