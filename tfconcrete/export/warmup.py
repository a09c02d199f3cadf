"""TF Serving's warm-up file: requests that a server runs before it takes traffic."""

import numpy as np
import tensorflow as tf

from tfconcrete._checks import invalid_type, invalid_value

FILE = "assets.extra/tf_serving_warmup_requests"


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


def check_examples(examples, specs):
    """Warm-up examples as arrays by input name, in the dtypes of the signature.

    Args:
        examples: A batch as the model takes it: an array for one input, a list in the
            order of the inputs, or a dict by name.
        specs: The signature's input specs by name.

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
        raise invalid_type("warmup", expected, examples)
    if set(given) != set(specs):
        raise invalid_value("warmup", expected, sorted(given))
    arrays = {}
    for name, spec in specs.items():
        array = np.asarray(given[name])
        if not _fits(array, spec):
            shown = f"`{name}` of shape {array.shape} and dtype {array.dtype}"
            raise ValueError(
                f"Invalid value received for argument `warmup`. Expected {expected}. "
                f"Received: {shown}"
            )
        arrays[name] = array.astype(spec.dtype.as_numpy_dtype)
    sizes = {name: len(array) for name, array in arrays.items()}
    if len(set(sizes.values())) != 1 or 0 in sizes.values():
        raise invalid_value("warmup", "the same number of examples, at least 1, for each input",
                            sizes)  # fmt: skip
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
    """Writes one `PredictionLog` for each signature.

    Args:
        folder: The SavedModel's folder.
        name: The model's name.
        requests: Arrays by input name, by signature.
    """
    log = serving_protos("prediction_log_pb2")
    path = folder / FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, inputs in requests.items():
            record = log.PredictionLog()
            request = record.predict_log.request
            request.model_spec.name = name
            request.model_spec.signature_name = signature
            for key, value in inputs.items():
                request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
            writer.write(record.SerializeToString())
