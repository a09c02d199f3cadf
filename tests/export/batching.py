"""TF Serving's batching, as the `BatchFunction` op of TensorFlow's wheel has it."""

import itertools
import pathlib
import re

import tensorflow as tf

_NAMES = (f"queue_{index}" for index in itertools.count())


def parameters(files):
    """The numbers in a written `batching_parameters.txt`, by name."""
    text = pathlib.Path(files["batching_parameters.txt"]).read_text()
    return {name: int(value) for name, value in re.findall(r"(\w+) { value: (\d+) }", text)}


def batched(
    call,
    specs,
    max_batch_size,
    max_execution_batch_size,
    batch_timeout_micros,
    max_enqueued_batches,
    num_batch_threads,
):
    """A function of tensors whose rows are run together with those of other callers."""
    inner = tf.function(call, input_signature=specs).get_concrete_function()
    name = next(_NAMES)

    @tf.function(input_signature=specs)
    def outer(*tensors):
        results = tf.raw_ops.BatchFunction(
            in_tensors=tensors,
            captured_tensors=inner.captured_inputs,
            f=inner,
            num_batch_threads=num_batch_threads,
            max_batch_size=max_batch_size,
            batch_timeout_micros=batch_timeout_micros,
            Tout=[output.dtype for output in inner.outputs],
            max_enqueued_batches=max_enqueued_batches,
            # The last one is what runs at most; all of them, so that none is padded.
            allowed_batch_sizes=list(range(1, max_execution_batch_size + 1)),
            shared_name=name,
            batching_queue=name,
            enable_large_batch_splitting=True,
        )
        for result, output in zip(results, inner.outputs, strict=True):
            result.set_shape(output.shape)
        return results

    return outer
