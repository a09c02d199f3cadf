"""Listening to the sampling layers while a model is called: their codes, their calls."""

import collections
import contextlib
import threading
from collections.abc import Iterator

from tfconcrete.layers.calls import is_in_keras_loop

_active = threading.local()


@contextlib.contextmanager
def record_codes() -> Iterator:
    """Records the codes of every sampling layer called in argmax mode inside.

    Works eagerly and while a `tf.function` is traced, for layers at any depth of
    functional, sequential and subclassed models. Only the calling thread is recorded.

    Yields:
        A list that fills, in call order, with pairs of the layer's name and its int32
        codes (of the shape of the layer's output without the class axis).

    Example:

    >>> z = tfc.layers.ConcreteSample(name="z")
    >>> with tfc.layers.record_codes() as records:
    ...     _ = z(tf.constant([[0.0, 2.0, 1.0]]))
    >>> [(name, codes.numpy().tolist()) for name, codes in records]
    [('z', [1])]
    """
    with _recording("codes") as records:
        yield records


@contextlib.contextmanager
def record_calls() -> Iterator:
    """Records every call of a sampling layer inside, in any mode.

    Yields:
        A list that fills, in call order, with `(layer, logits, sample)`, the tensors (or
        for `logits` the structure of tensors) that the layer received and made. They
        are on the path from input to output, so gradients can be taken at them.

    Example:

    >>> z = tfc.ConcreteSample(name="z")
    >>> with tfc.layers.record_calls() as records:
    ...     _ = z(tf.zeros([2, 3]), training=True)
    >>> [(layer.name, logits.shape) for layer, logits, _ in records]
    [('z', TensorShape([2, 3]))]
    """
    with _recording("calls") as records:
        yield records


@contextlib.contextmanager
def _recording(what):
    previous = getattr(_active, what, None)
    records = []
    setattr(_active, what, records)
    try:
        yield records
    finally:
        setattr(_active, what, previous)


class CodeRecord(collections.namedtuple("CodeRecord", ["name", "codes"])):
    """The codes of one call of a layer.

    Attributes:
        name: The layer's name.
        codes: int32 tensor.
        is_step: Whether a Keras layer called it for one time step of several.
    """

    def __new__(cls, name, codes, is_step=False):
        record = super().__new__(cls, name, codes)
        record.is_step = is_step
        return record


def note_codes(name, codes):
    """Appends a `CodeRecord` where somebody listens."""
    records = getattr(_active, "codes", None)
    if records is not None:
        records.append(CodeRecord(name, codes, is_in_keras_loop()))


def note_call(layer, logits, sample):
    """Appends `(layer, logits, sample)` where somebody listens."""
    records = getattr(_active, "calls", None)
    if records is not None:
        records.append((layer, logits, sample))
