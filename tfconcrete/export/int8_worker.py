"""An int8 LiteRT model, made and tried in a process of its own.

The quantizer and the interpreter may end their process, at numbers that are too far apart.
`python -m tfconcrete.export.int8_worker <SavedModel> <signature> <inputs.npz> <model>`
writes the model, if they did not.
"""

import pathlib
import sys

import numpy as np
import tensorflow as tf
from tensorflow.lite.python.convert import mlir_quantize
from tensorflow.lite.python.convert_phase import ConverterError
from tensorflow.lite.python.optimize.calibrator import Calibrator, add_intermediate_tensors

from tfconcrete.export.float_nodes import float_nodes, without_far_ranges

_ROWS = 32  # of a step of the calibration
# Of the two outputs of a top-k the indices are no node that could be named; and zeros become
# halves in the int8 one-hot, which the converter makes of comparisons where it knows them.
_FLOAT_OPS = ["TOPK_V2", "ONE_HOT"]


def new_converter(path, signature):
    """TensorFlow's converter for one signature, with built-in ops only."""
    converter = tf.lite.TFLiteConverter.from_saved_model(str(path), signature_keys=[signature])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    return converter


def quantized(path, signature, inputs):
    """The int8 model of a signature, in which `float_nodes` stay in float.

    Args:
        path: The folder of the SavedModel.
        signature: The signature's name.
        inputs: Typical inputs as arrays by name.

    Returns:
        bytes.
    """
    rows = len(next(iter(inputs.values())))

    def steps():
        for start in range(0, rows, _ROWS):
            yield signature, {name: x[start : start + _ROWS] for name, x in inputs.items()}

    # TensorFlow's `QuantizationDebugger` does the same, after a first turn in which nothing
    # stays in float.
    content = add_intermediate_tensors(new_converter(path, signature).convert())
    calibrated = bytes(Calibrator(content).calibrate(steps))
    return mlir_quantize(
        without_far_ranges(calibrated),
        denylisted_nodes=float_nodes(calibrated),
        denylisted_ops=_FLOAT_OPS,
    )


def main():
    path, signature, given, made = sys.argv[1:]
    with np.load(given) as file:  # strings have come as bytes of one length
        inputs = {k: x.astype(object) if x.dtype.kind == "S" else x for k, x in file.items()}
    try:
        content = quantized(path, signature, inputs)
    except ConverterError as error:  # its other lines hold the graph
        sys.exit(str(error).strip().splitlines()[0])
    interpreter = tf.lite.Interpreter(model_content=content)
    interpreter.get_signature_runner(signature)(**{name: x[:_ROWS] for name, x in inputs.items()})
    pathlib.Path(made).write_bytes(content)


if __name__ == "__main__":
    main()
