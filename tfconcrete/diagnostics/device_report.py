"""What a model's steps would do on a GPU, found out without one."""

import dataclasses
import inspect
import os
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import check_choice, invalid_type
from tfconcrete.diagnostics.kernels import DEVICES
from tfconcrete.diagnostics.placement import Finding, Walk


@dataclasses.dataclass(frozen=True)
class DeviceReport:
    """What `device_report` found; `print` it for a table.

    Attributes:
        device: The device asked about.
        steps: Names of the functions that were traced.
        findings: Tuple of `Finding`, with `step`, `op`, `name`, `reason`, `shape`,
            `dtype`, `num_bytes` and `source` each.
        compiled: Names of what XLA compiles into one program, which was not looked into.
        num_ops: How many ops were looked at.

    Example:

    >>> print(tfc.diagnostics.device_report(tf.sin, tf.zeros([2, 3])))
    GPU, sin: 2 ops, none without a kernel, no tensor in host memory.
    """

    device: str
    steps: tuple[str, ...]
    findings: tuple[Finding, ...]
    compiled: tuple[str, ...]
    num_ops: int

    def __str__(self):
        if self.findings:
            found = f"{len(self.findings)} that leave the device."
        else:
            found = "none without a kernel, no tensor in host memory."
        lines = [f"{self.device}, {', '.join(self.steps)}: {self.num_ops} ops, {found}"]
        if self.compiled:
            lines.append(f"Compiled by XLA, not looked into: {', '.join(self.compiled)}.")
        if self.findings:
            lines += ["", *_table(self.findings)]
        return "\n".join(lines)


def device_report(fn_or_model: Callable, example: Any, device: str = "GPU") -> DeviceReport:
    """Which ops of a function or a model would leave a GPU; no GPU is needed.

    TensorFlow's wheel registers the kernels of all devices. The function is traced, and
    each op, also inside loops, branches and called functions, is looked up for its dtypes.
    A finding is

    - an op without a kernel for the device: it runs on the host, and its inputs and
      outputs are copied there and back;
    - an op that `tf.device` places on the CPU, with a tensor larger than a scalar;
    - a kernel that keeps a tensor larger than a scalar in host memory, such as most of
      those for int32: the device waits while the tensor is copied;
    - a constant larger than a scalar that is copied to the device on every call.

    Shapes, and whatever else is known without the data, belong in host memory and are no
    finding; neither are the copies of the function's own arguments and results. What XLA
    compiles (`jit_compile=True`) is one program on the device and is not looked into: the
    report names it in `compiled`. To look at the steps as they run without XLA, as under
    `tf.distribute`, compile the model with `jit_compile=False`, or give a bound method:
    `device_report(model.train_step, (x, y))`.

    Args:
        fn_or_model: A compiled Keras model, whose train, test and predict steps are
            traced; another Keras model or layer, traced in training, with the gradients
            to its weights and inputs, and at inference; or a function of tensors.
        example: For a compiled model a batch as `fit` gets it, `x` or a tuple `(x, y)` or
            `(x, y, sample_weight)`, or a dataset of such batches; otherwise the argument of
            the call, a tuple of its arguments, or a dict of them where its keys are their
            names. Arrays, tensors or `tf.TensorSpec`s, of which only shapes
            and dtypes are read.
        device: `"GPU"` or `"CPU"`.

    Returns:
        A `DeviceReport`.

    Example:

    >>> def draw(logits):
    ...     winner = tf.argmax(logits, -1, output_type=tf.int32)[:, tf.newaxis]
    ...     return tf.cast(tf.range(3) == winner, tf.float32)
    >>> report = tfc.diagnostics.device_report(draw, tf.zeros([2, 3]))
    >>> [(finding.op, finding.reason) for finding in report.findings]
    [('StridedSlice(int32, int32, int32, int32)', 'in host memory'),
     ('Equal(int32, int32)', 'in host memory')]
    """
    check_choice(device, "device", DEVICES)
    walks = []
    for name, function, arguments, keywords in _steps(fn_or_model, example):
        walk = Walk(name, device)
        walk.function(_traced(function, arguments, keywords))
        walks.append(walk)
    return DeviceReport(
        device,
        tuple(walk.step for walk in walks),
        tuple(finding for walk in walks for finding in walk.findings),
        tuple(name for walk in walks for name in walk.compiled),
        sum(walk.num_ops for walk in walks),
    )


def _steps(fn_or_model, example):
    """`(name, function, positional arguments, keyword arguments)` of everything to trace."""
    if not callable(fn_or_model) or inspect.isclass(fn_or_model):
        raise invalid_type(
            "fn_or_model", "a function, a Keras layer or a Keras model, no class", fn_or_model
        )
    if isinstance(example, tf.data.Dataset):
        example = example.element_spec
    example = tf.nest.map_structure(_as_spec, example)
    if isinstance(fn_or_model, keras.Model) and fn_or_model.compiled:
        return _model_steps(fn_or_model, example if isinstance(example, tuple) else (example,))
    call = fn_or_model.call if isinstance(fn_or_model, keras.Layer) else fn_or_model
    arguments, keywords = _arguments(call, example)
    if isinstance(fn_or_model, keras.Layer):
        steps = _layer_steps(fn_or_model)
    else:
        steps = [(getattr(fn_or_model, "__name__", type(fn_or_model).__name__), fn_or_model)]
    return [(name, function, arguments, keywords) for name, function in steps]


def _as_spec(x):
    """What stands for an array, a tensor or a spec in a trace; None stands for itself."""
    if x is None or isinstance(x, tf.TypeSpec):
        return x
    try:
        if isinstance(x, tf.__internal__.CompositeTensor):
            return tf.type_spec_from_value(x)
        return tf.TensorSpec.from_tensor(tf.convert_to_tensor(x))
    except (TypeError, ValueError) as error:
        raise invalid_type("example", "arrays, tensors or `tf.TensorSpec`s", x) from error


def _arguments(function, example):
    """Positional and keyword arguments of a call on the example."""
    if isinstance(example, dict) and example and _takes(function, **example):
        return (), example
    if isinstance(example, tuple) and (_takes(function, *example) or not _takes(function, example)):
        return example, {}
    return (example,), {}


def _takes(function, *arguments, **keywords):
    """Whether a function names all these arguments, or does not say what it takes."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin
        return not keywords
    try:
        signature.bind(*arguments, **keywords)
    except TypeError:
        return False
    return set(keywords) <= set(signature.parameters)


def _model_steps(model, batch):
    x = keras.utils.unpack_x_y_sample_weight(batch)[0]
    steps = [("train_step", model.train_step, batch), ("test_step", model.test_step, batch)]
    steps.append(("predict_step", model.predict_step, (x,)))
    return [
        (name, tf.function(step, jit_compile=model.jit_compile or None), (data,), {})
        for name, step, data in steps
    ]


def _layer_steps(layer):
    def training(*inputs, **keywords):
        with tf.GradientTape() as tape:
            floats = [x for x in tf.nest.flatten([inputs, keywords]) if _is_float(x)]
            tape.watch(floats)
            outputs = layer(*inputs, training=True, **keywords)
            # What comes from a loss depends on the data, unlike a gradient of ones.
            upstream = [x for x in tf.nest.flatten(outputs) if _is_float(x)]
        sources = [layer.trainable_weights, floats]
        return outputs, tape.gradient(upstream, sources, output_gradients=upstream)

    def inference(*inputs, **keywords):
        return layer(*inputs, training=False, **keywords)

    return [("training", training), ("inference", inference)]


def _is_float(x):
    return tf.is_tensor(x) and x.dtype.is_floating


def _traced(function, arguments, keywords):
    if not hasattr(function, "get_concrete_function"):
        function = tf.function(function)
    return function.get_concrete_function(*arguments, **keywords)


def _table(findings):
    """Rows of equal columns, under a heading."""
    rows = [("step", "op", "reason", "largest tensor", "bytes", "made in", "name")]
    for f in findings:
        shape = "?" if f.shape is None else ",".join("?" if n is None else str(n) for n in f.shape)
        size = "?" if f.num_bytes is None else f"{f.num_bytes:,}"
        source = os.path.relpath(f.source) if f.source else ""
        rows.append((f.step, f.op, f.reason, f"{f.dtype}[{shape}]", size, source, f.name))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
