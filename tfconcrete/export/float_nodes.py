"""Which operations of a LiteRT model stay in float when the others become int8.

Two kinds. A choice of classes, with all that leads to it from its logits on, and the product
that makes these: an argmax or a comparison of rounded scores is another one. And what touches
numbers that 256 steps cannot hold: -inf or -1e9 for "never", beside logits between -5 and 5,
leaves the logits one step; the interpreter ends the process at the largest of them, and the
quantizer at an infinite one, whatever stays in float.
"""

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

_OPS = {value: name for name, value in vars(schema.BuiltinOperator).items() if name.isupper()}
# Where the way back from a choice ends: these hold the weights.
_PRODUCTS = {
    "BATCH_MATMUL",
    "CONV_2D",
    "CONV_3D",
    "DEPTHWISE_CONV_2D",
    "EMBEDDING_LOOKUP",
    "FULLY_CONNECTED",
    "GATHER",
    "TRANSPOSE_CONV",
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
}
# Whole numbers that say nothing about the values.
_NO_CHOICES = {"RANK", "SHAPE"}
# What activations lie between: float16's range, and no less than float32 can divide.
_LARGEST, _SMALLEST = 6e4, 1e-30


def float_nodes(calibrated: bytes) -> list[str]:
    """The names of the operations to keep in float.

    Args:
        calibrated: A LiteRT model with the ranges of its tensors, before it is quantized.

    Returns:
        Names of output tensors, sorted.
    """
    names: set[str] = set()
    for graph in _graphs(calibrated):
        names |= graph.float_nodes()
    return sorted(names)


def without_far_ranges(calibrated: bytes) -> bytes:
    """The model, with small ranges in place of those that only `float_nodes` touch.

    The quantizer makes a step of every range before it looks at what stays in float, and
    ends its process where the step is infinite: exp(1e30), in the logarithm of a stick that
    a mask or a `precision` leaves out, is.

    Args:
        calibrated: As in `float_nodes`.

    Returns:
        bytes of the same length.
    """
    content = bytearray(calibrated)
    for graph in _graphs(content):
        graph.replace_far_ranges()
    return bytes(content)


def _graphs(content):
    model = schema.Model.GetRootAs(content, 0)
    return [_Graph(model, model.Subgraphs(i)) for i in range(model.SubgraphsLength())]


class _Graph:
    """One graph of a model: its operations as `(name, inputs, outputs)`."""

    def __init__(self, model, graph):
        self._tensors = [graph.Tensors(i) for i in range(graph.TensorsLength())]
        self._is_float = [t.Type() == schema.TensorType.FLOAT32 for t in self._tensors]
        self._is_far = [
            is_float and _is_far(model, tensor)
            for tensor, is_float in zip(self._tensors, self._is_float, strict=True)
        ]
        ops = [graph.Operators(i) for i in range(graph.OperatorsLength())]
        self._ops = [
            (
                _op_name(model.OperatorCodes(op.OpcodeIndex())),
                [i for i in op.InputsAsNumpy() if i >= 0],
                list(op.OutputsAsNumpy()),
            )
            for op in ops
        ]

    def float_nodes(self):
        scores, found = set(), set()
        # From the last operation to the first: what reads a tensor comes after it.
        for name, inputs, outputs in reversed(self._ops):
            floats = {i for i in inputs if self._is_float[i]}
            chooses = name not in _NO_CHOICES and not all(self._is_float[o] for o in outputs)
            decides = name not in _PRODUCTS and (chooses or not scores.isdisjoint(outputs))
            makes_scores = not scores.isdisjoint(outputs)
            if decides:
                scores |= floats
            if decides or makes_scores or any(self._is_far[i] for i in floats.union(outputs)):
                found |= {self._tensors[output].Name().decode() for output in outputs}
        return found

    def replace_far_ranges(self):
        """In the bytes of the model, which the arrays are views of."""
        for tensor, is_far in zip(self._tensors, self._is_far, strict=True):
            ranges = tensor.Quantization()
            if is_far and ranges is not None and ranges.MinLength():
                ranges.MinAsNumpy()[:] = -1.0
                ranges.MaxAsNumpy()[:] = 1.0


def _op_name(code):
    return _OPS.get(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()), "")


def _is_far(model, tensor):
    """Whether the numbers of a tensor are beyond what int8 can stand for."""
    ranges = tensor.Quantization()
    if ranges is not None and ranges.MinLength():
        values = np.concatenate([ranges.MinAsNumpy(), ranges.MaxAsNumpy()])
    else:
        buffer = model.Buffers(tensor.Buffer())
        values = buffer.DataAsNumpy() if buffer.DataLength() else np.zeros(0, np.uint8)
        values = values.view(np.float32)
    if not values.size:
        return False
    largest = np.abs(values).max()
    return not (largest == 0.0 or _SMALLEST <= largest <= _LARGEST)
