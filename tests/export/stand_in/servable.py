"""One loaded version of a model: the C++ loader, with or without batching, and its warm-up."""

import re
import threading

import numpy as np
import tensorflow as tf

from tests.export.batching import batched
from tfconcrete.export.c_loader import CApiError, CSavedModel
from tfconcrete.export.saved_model import read_meta_graph, signature_names, tensor_shape
from tfconcrete.export.warmup import FILE, read_warmup

INVALID_ARGUMENT, NOT_FOUND, INTERNAL = 3, 5, 13


class Refusal(Exception):
    """An answer that is an error: its code and its text."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code, self.text = code, text


class Servable:
    """A SavedModel that answers requests until it is closed.

    Args:
        folder: Folder of the version.
        batching: The numbers of `batching_parameters.txt`, or None.
    """

    def __init__(self, folder, batching):
        self.meta_graph, problem = read_meta_graph(folder)
        if self.meta_graph is None:
            raise Refusal(NOT_FOUND, f"Could not find SavedModel in {folder}: {problem}")
        self._model = CSavedModel(folder)
        self._batching = batching
        self._batched, self._lock = {}, threading.Lock()
        self._users, self._idle = 0, threading.Condition()
        if (folder / FILE).is_file():
            for signature, inputs in read_warmup(folder):
                self.predict(signature, inputs)

    def definition(self, signature):
        """The signature's definition, by its name or by default."""
        name = signature or "serving_default"
        if name not in signature_names(self.meta_graph):
            raise Refusal(
                INVALID_ARGUMENT, f'Serving signature name: "{name}" not found in signature def'
            )
        return name, self.meta_graph.signature_def[name]

    def predict(self, signature, inputs):
        """The arrays of the answer by output name."""
        name, definition = self.definition(signature)
        _check(inputs, definition)
        with self._idle:
            self._users += 1
        try:
            if self._batching is None:
                return self._model.run(name, inputs)
            return self._predict_batched(name, definition, inputs)
        except CApiError as error:
            raise Refusal(error.code, error.message) from error
        finally:
            with self._idle:
                self._users -= 1
                self._idle.notify_all()

    def _predict_batched(self, name, definition, inputs):
        keys, outputs = sorted(definition.inputs), sorted(definition.outputs)
        with self._lock:
            if name not in self._batched:
                self._batched[name] = self._batch(name, definition, keys, outputs)
        try:
            results = self._batched[name](*(tf.constant(inputs[key]) for key in keys))
        except tf.errors.OpError as error:
            inner = re.search(r"C API failed with code (\d+): (.*)", error.message, re.DOTALL)
            code, text = inner.groups() if inner else (error.error_code, error.message)
            raise Refusal(int(code), text) from error
        return {key: result.numpy() for key, result in zip(outputs, results, strict=True)}

    def _batch(self, name, definition, keys, outputs):
        dtypes = [definition.outputs[key].dtype for key in outputs]

        def run(*arrays):
            answer = self._model.run(name, dict(zip(keys, arrays, strict=True)))
            return [answer[key] for key in outputs]

        def call(*tensors):
            return tf.numpy_function(run, tensors, [tf.as_dtype(dtype) for dtype in dtypes])

        specs = [
            tf.TensorSpec(tensor_shape(definition.inputs[key]), definition.inputs[key].dtype)
            for key in keys
        ]
        return batched(call, specs, **self._batching)

    def close(self):
        """Frees the session, once every request has its answer."""
        with self._idle:
            self._idle.wait_for(lambda: not self._users)
        self._model.close()


def _check(inputs, definition):
    if set(inputs) != set(definition.inputs):
        raise Refusal(
            INVALID_ARGUMENT,
            f"input size does not match signature: sent {sorted(inputs)}, "
            f"expected {sorted(definition.inputs)}",
        )
    for name, value in inputs.items():
        expected = tf.as_dtype(definition.inputs[name].dtype)
        sent = tf.string if value.dtype.kind in "OSU" else tf.as_dtype(value.dtype)
        if sent != expected:
            raise Refusal(
                INVALID_ARGUMENT,
                f"Expects arg[{name}] to be {expected.name} but {sent.name} is provided",
            )
        shape = tf.TensorShape(tensor_shape(definition.inputs[name]))
        if not shape.is_compatible_with(np.shape(value)):
            raise Refusal(
                INVALID_ARGUMENT,
                f"Tensor {name} has shape {list(np.shape(value))}, expected {shape}",
            )
