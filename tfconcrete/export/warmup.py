"""TF Serving's warm-up file: requests that a server runs before it takes traffic."""

import os

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from tfconcrete._checks import invalid_type, invalid_value
from tfconcrete.export.c_loader import run_separately

FILE = "assets.extra/tf_serving_warmup_requests"
# A server reads no more, and fails to load a version with one record above its limit of
# rows: records are cut to what it runs at once as `write_serving_config` sets it.
MAX_RECORDS = 1000
MAX_ROWS = 128


def serving_protos(module):
    """A module of `tensorflow_serving.apis`, or an error that names the extra."""
    try:
        package = __import__("tensorflow_serving.apis", fromlist=[module])
        return __import__(f"{package.__name__}.{module}", fromlist=["*"])
    except ImportError as error:
        raise ImportError(
            "This needs the protos of TF Serving. Install them with "
            '`pip install "tfconcrete[serving]"` (or `pip install tensorflow-serving-api`).'
        ) from error


def check_examples(examples, specs, argument="warmup"):
    """Examples as arrays by input name, in the dtypes of the signature.

    Args:
        examples: A batch as the model takes it: an array for one input, a list in the
            order of the inputs, or a dict by name.
        specs: The signature's input specs by name.
        argument: The name of the argument that they came in, for errors.

    Returns:
        dict of arrays, all with the same batch size.
    """
    expected = "a batch for each input: " + ", ".join(
        f"{name} {spec.dtype.name}{[*spec.shape]}" for name, spec in specs.items()
    )
    if isinstance(examples, dict):
        given = dict(examples)
    elif len(specs) == 1:
        given = dict(zip(specs, [examples], strict=True))
    elif isinstance(examples, (list, tuple)) and len(examples) == len(specs):
        given = dict(zip(specs, examples, strict=True))
    else:
        raise invalid_type(argument, expected, examples)
    if set(given) != set(specs):
        raise invalid_value(argument, expected, sorted(given))
    arrays = {}
    for name, spec in specs.items():
        array = np.asarray(given[name])
        if not _fits(array, spec):
            shown = f"`{name}` of shape {array.shape} and dtype {array.dtype}"
            raise ValueError(
                f"Invalid value received for argument `{argument}`. Expected {expected}. "
                f"Received: {shown}"
            )
        arrays[name] = array.astype(spec.dtype.as_numpy_dtype)
    sizes = {name: len(array) for name, array in arrays.items()}
    if len(set(sizes.values())) != 1 or 0 in sizes.values():
        raise invalid_value(
            argument, "the same number of examples, at least 1, for each input", sizes
        )
    return arrays


def _fits(array, spec):
    if not spec.shape.is_compatible_with(array.shape):
        return False
    if spec.dtype == tf.string:
        return array.dtype.kind in "OSU"
    if spec.dtype.is_floating:
        return array.dtype.kind in "fiu"
    return np.can_cast(array.dtype, spec.dtype.as_numpy_dtype, "same_kind")


def write_warmup(folder, name, requests):
    """Writes `PredictionLog`s of at most `MAX_ROWS` rows, and tries every one of them.

    Args:
        folder: The finished SavedModel's folder.
        name: The model's name.
        requests: Arrays by input name, by signature.
    """
    log = serving_protos("prediction_log_pb2")
    records = [
        (signature, part) for signature, inputs in requests.items() for part in _split(inputs)
    ]
    if len(records) > MAX_RECORDS:
        raise ValueError(
            "Invalid value received for argument `warmup`. Expected examples for at most "
            f"{MAX_RECORDS} records of {MAX_ROWS} rows, all signatures together. Received: "
            f"examples for {len(records)} records"
        )
    path = folder / FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, inputs in records:
            record = log.PredictionLog()
            request = record.predict_log.request
            request.model_spec.name = name
            request.model_spec.signature_name = signature
            for key, value in inputs.items():
                request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
            writer.write(record.SerializeToString())
    replay(folder)


def _split(inputs):
    rows = len(next(iter(inputs.values())))
    for start in range(0, rows, MAX_ROWS):
        yield {name: value[start : start + MAX_ROWS] for name, value in inputs.items()}


def read_warmup(folder):
    """The predict requests in a warm-up file.

    Args:
        folder: The SavedModel's folder.

    Returns:
        List of pairs of the signature's name and the arrays by input name.
    """
    log = serving_protos("prediction_log_pb2")
    found = []
    for record in tf.data.TFRecordDataset(os.fsencode(folder / FILE)):
        request = log.PredictionLog.FromString(record.numpy()).predict_log.request
        arrays = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        found.append((request.model_spec.signature_name or "serving_default", arrays))
    return found


def warmup_rows(folder):
    """The rows of the largest warm-up record; 0 without a file, or one that is unreadable."""
    if not (folder / FILE).is_file():
        return 0
    try:
        records = read_warmup(folder)
    except (ImportError, DecodeError, tf.errors.OpError, TypeError, ValueError):
        return 0
    return max((len(value) for _, arrays in records for value in arrays.values()), default=0)


def replay(folder):
    """Runs every record of a warm-up file through the C++ loader, as a server will."""
    requests = {str(index): request for index, request in enumerate(read_warmup(folder))}
    try:
        run_separately(folder, requests)
    except RuntimeError as error:
        raise RuntimeError(
            "Not exported: TF Serving would fail to load this version, because a warm-up "
            f"request made from `warmup` fails. {error}"
        ) from error
