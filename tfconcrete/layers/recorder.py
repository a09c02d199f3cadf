"""Collects the class indices that sampling layers choose, while a model is called."""

import contextlib
import threading

_active = threading.local()


@contextlib.contextmanager
def record_codes():
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
    previous = getattr(_active, "records", None)
    _active.records = []
    try:
        yield _active.records
    finally:
        _active.records = previous


def is_recording():
    """Whether this thread is inside `record_codes`."""
    return getattr(_active, "records", None) is not None


def record(name, make_codes):
    """Appends `(name, make_codes())` where somebody listens; costs nothing elsewhere."""
    if is_recording():
        _active.records.append((name, make_codes()))
