"""`to_litert`: a SavedModel's signatures as LiteRT (TensorFlow Lite) models."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.lite.python.convert_phase import ConverterError

from tfconcrete._checks import check_choice
from tfconcrete.export.conversion import ConversionError, ConversionReport, Source, convert
from tfconcrete.export.int8_worker import new_converter


def to_litert(
    version_path: str | os.PathLike,
    quantize: str | None = None,
    representative_data: Any = None,
    *,
    path: str | os.PathLike | None = None,
    signatures: Sequence[str] | None = None,
    examples: Any = None,
) -> ConversionReport:
    """Converts the signatures of an export to LiteRT, and checks them with its interpreter.

    TensorFlow's converter does the work, with built-in ops only, one file for each
    signature, which keeps its name and those of its inputs and outputs. `generate` does not
    go: it draws random numbers from seeds by integer arithmetic that LiteRT does not have.
    Nor does a loop over a sequence in a batch of any size (an RNN, `LatentTreeLSTM`), for
    which the built-in ops have no form; ONNX and OpenVINO take it. The check uses
    `ai-edge-litert` where it is installed (the extra `litert`), else the interpreter in
    TensorFlow.

    Args:
        version_path: What `save_discrete` returned, or any SavedModel's folder.
        quantize: None for float32; `"float16"` for weights of half the size; `"int8"` for
            weights and activations of a quarter. Inputs and outputs keep their dtypes. In
            int8 a choice of classes stays in float from the product that makes its logits
            on, as do operations on numbers that 256 steps cannot hold (-1e9 for log 0).
        representative_data: For `"int8"`, a batch for `serving_default` as `save_discrete`
            takes for `warmup`: some hundreds of typical inputs, from which the ranges of
            activations are taken. What other signatures take besides (codes) comes from
            the SavedModel's answers to them.
        path: The folder to write `<signature>.tflite` to; None for `<version_path>.litert`
            (`.litert-int8`, ...), which TF Serving passes by.
        signatures: Names of the signatures to convert; None for all that can go.
        examples: A batch for the check, like `representative_data`; None for that, or for
            the warm-up requests of the export, where it has some.

    Returns:
        A `ConversionReport`. Printed, it says for every output whether all codes are equal,
        or which share differs and how close the ties were. In int8 some codes differ and
        outputs are approximate: look at `share` and `correlation`.

    Example:

    ```python
    report = tfc.export.to_litert("served/digits/1", "int8", representative_data=images)
    print(report)
    ```
    """
    if quantize is not None:
        check_choice(quantize, "quantize", ("float16", "int8"))
    if quantize == "int8" and representative_data is None:
        raise ValueError(
            'Invalid arguments. Expected `representative_data` with quantize="int8". Received: none'
        )
    typical = None if representative_data is None else Source(version_path, representative_data)
    source = typical if examples is None and typical else Source(version_path, examples)

    def make(signature):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                if quantize == "int8":
                    return _quantized(typical, signature), ".tflite"
                converter = new_converter(source.path, signature)
                if quantize == "float16":
                    converter.optimizations = [tf.lite.Optimize.DEFAULT]
                    converter.target_spec.supported_types = [tf.float16]
                return converter.convert(), ".tflite"
            except ConverterError as error:
                raise ConversionError(f"TensorFlow's converter says: {_said(error)}") from error

    kind = "" if quantize is None else f"-{quantize}"
    path = f"{source.path}.litert{kind}" if path is None else path
    return convert(source, f"LiteRT{kind}", path, signatures, make, _run)


def _quantized(source, signature):
    """The int8 model, made in a process of its own, which the quantizer may end."""
    inputs = source.inputs(signature)
    if inputs is None:
        raise ConversionError("`representative_data` does not lead to its inputs")
    with tempfile.TemporaryDirectory() as folder:
        given, made = pathlib.Path(folder, "inputs.npz"), pathlib.Path(folder, "model")
        np.savez(given, **{k: x.astype("S") if x.dtype == object else x for k, x in inputs.items()})
        worker = [sys.executable, "-m", "tfconcrete.export.int8_worker"]
        path = os.pathsep.join(filter(None, sys.path))
        done = subprocess.run(
            [*worker, str(source.path), signature, str(given), str(made)],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if made.is_file():
            return made.read_bytes()
    said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
    if done.returncode > 0:
        raise ConversionError(f"TensorFlow's converter says: {_said(said)}")
    names = source.functions[signature].structured_outputs
    codes = sorted(name for name in names if name.endswith("codes"))
    raise ConversionError(
        f"TensorFlow's quantizer ended its process (signal {-done.returncode}) on its way to the "
        f'outputs {codes}; the last it said: {_said(said)}. Convert with quantize="float16"'
    )


def _said(error):
    """The first line of an error of the converter, without the places in the graph."""
    first = str(error).strip().splitlines()[0]
    return re.sub(r"^.*?error: (loc\(.*\): )?", "", first)


def _run(content, signature, inputs):
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        Interpreter = tf.lite.Interpreter
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interpreter = Interpreter(model_content=content)
    return interpreter.get_signature_runner(signature)(**inputs)
