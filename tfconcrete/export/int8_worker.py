"""An int8 LiteRT model, made and tried in a process of its own.

The quantizer and the interpreter end their process at numbers that are too far apart.
`python -m tfconcrete.export.int8_worker <SavedModel> <signature> <inputs.npz> <model>`
writes the model, if they did not.
"""

import pathlib
import sys

import numpy as np
import tensorflow as tf

from tfconcrete.export.float_nodes import float_nodes

_ROWS = 32  # of a step of the calibration


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

    def int8_converter():
        converter = new_converter(path, signature)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = steps
        converter.target_spec.supported_ops += [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        return converter

    options = tf.lite.experimental.QuantizationDebugOptions()
    try:
        debugger = tf.lite.experimental.QuantizationDebugger(
            converter=int8_converter(), debug_options=options
        )
    except ValueError as error:
        if "debug mode" not in str(error):
            raise
        return int8_converter().convert()  # it has nothing to quantize
    options.denylisted_nodes = float_nodes(debugger.calibrated_model)
    # Of its two outputs the indices are no node that could be named.
    options.denylisted_ops = ["TOPK_V2"]
    return debugger.get_nondebug_quantized_model()


def main():
    path, signature, given, made = sys.argv[1:]
    with np.load(given) as file:  # strings have come as bytes of one length
        inputs = {k: x.astype(object) if x.dtype.kind == "S" else x for k, x in file.items()}
    content = quantized(path, signature, inputs)
    interpreter = tf.lite.Interpreter(model_content=content)
    interpreter.get_signature_runner(signature)(**{name: x[:_ROWS] for name, x in inputs.items()})
    pathlib.Path(made).write_bytes(content)


if __name__ == "__main__":
    main()
