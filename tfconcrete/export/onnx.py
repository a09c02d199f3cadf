"""`to_onnx`: a SavedModel's signatures as ONNX models."""

import logging
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfconcrete._checks import check_count, invalid_value
from tfconcrete.export.conversion import ConversionError, ConversionReport, Source, convert

_PROVIDER = "CPUExecutionProvider"


def to_onnx(
    version_path: str | os.PathLike,
    *,
    path: str | os.PathLike | None = None,
    signatures: Sequence[str] | None = None,
    examples: Any = None,
    opset: int = 17,
) -> ConversionReport:
    """Converts the signatures of an export to ONNX, and checks them with ONNX Runtime.

    `tf2onnx` does the work, one file for each signature; inputs and outputs keep their
    names, and the batch stays of any size. `generate` does not go: it draws random numbers
    from seeds by integer arithmetic that ONNX does not have. Needs the extra `onnx`.

    Args:
        version_path: What `save_discrete` returned, or any SavedModel's folder.
        path: The folder to write `<signature>.onnx` to; None for `<version_path>.onnx`,
            which TF Serving passes by.
        signatures: Names of the signatures to convert; None for all that can go.
        examples: A batch for `serving_default`, as `save_discrete` takes for `warmup`, on
            which ONNX Runtime must give what the SavedModel gives; what other signatures
            take besides (codes) comes from its answers. None for the warm-up requests of
            the export, where it has some.
        opset: The version of ONNX's operators.

    Returns:
        A `ConversionReport`. Printed, it says for every output whether all codes are equal,
        or which share differs and how close the ties were.

    Example:

    ```python
    version = tfc.export.save_discrete(vae, "served/digits")
    report = tfc.export.to_onnx(version, examples=images)
    print(report)
    session = onnxruntime.InferenceSession(report["encode"].path)
    (codes,) = session.run(["codes"], {"image": images})
    ```
    """
    check_count(opset, "opset")
    onnxruntime, tf2onnx, operators = _libraries()
    newest = max(tf2onnx.constants.OPSET_TO_IR_VERSION)
    if opset > newest:
        raise invalid_value("opset", f"one that tf2onnx knows, at most {newest}", opset)
    source, sessions = Source(version_path, examples), {}

    def make(signature):
        specs = source.specs(signature)

        def call(*tensors):
            return source.functions[signature](**dict(zip(specs, tensors, strict=True)))

        arguments = list(specs.values())
        function = tf.function(call, input_signature=arguments, autograph=False)
        model, _ = tf2onnx.convert.from_function(function, arguments, opset=opset)
        unknown = {node.op_type for node in model.graph.node} - operators(opset)
        if unknown:
            raise ConversionError(f"tf2onnx knows no form of {', '.join(sorted(unknown))}")
        content = model.SerializeToString()
        try:
            sessions[signature] = onnxruntime.InferenceSession(content, providers=[_PROVIDER])
        except Exception as error:  # its classes have no other one in common
            said = str(error).strip().splitlines()[0]
            raise ConversionError(f"ONNX Runtime says: {said}") from error
        return content, ".onnx"

    def run(content, signature, inputs):
        session = sessions[signature]
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, inputs), strict=True))

    path = f"{source.path}.onnx" if path is None else path
    return convert(source, "ONNX Runtime", path, signatures, make, run)


def _libraries():
    try:
        import onnx
        import onnxruntime
        import tf2onnx
    except ImportError as error:
        raise ImportError(
            'This needs tf2onnx and onnxruntime: `pip install "tfconcrete[onnx]"`.'
        ) from error
    logging.getLogger("tf2onnx").setLevel(logging.CRITICAL)

    def operators(opset):
        """The operators that ONNX has in a version, by name."""
        schemas = onnx.defs.get_all_schemas_with_history()
        return {schema.name for schema in schemas if schema.since_version <= opset}

    return onnxruntime, tf2onnx, operators
