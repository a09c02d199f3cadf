"""Keras' backend is read before anything else: only TensorFlow's will do."""

import os


def _wrong(received):
    return ImportError(
        "tfconcrete runs on Keras 3 with the TensorFlow backend. Received: the "
        f'{received}. Set the environment variable KERAS_BACKEND=tensorflow (or "backend": '
        '"tensorflow" in keras.json) before Keras is first imported.'
    )


def check_backend():
    """Raises an `ImportError` unless Keras is there and runs on TensorFlow."""
    try:
        import keras
    except (ImportError, ValueError) as error:
        # Without the library of its backend Keras stops before it can be asked its name.
        if getattr(error, "name", None) in ("keras", "tensorflow"):
            raise
        backend = os.environ.get("KERAS_BACKEND", "of keras.json")
        raise _wrong(f'backend "{backend}", which Keras cannot import ({error})') from error
    if keras.backend.backend() != "tensorflow":
        raise _wrong(f'backend "{keras.backend.backend()}"')


check_backend()
