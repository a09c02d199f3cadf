"""Requests to TF Serving, and its answers, as arrays by name.

REST needs nothing but JSON; gRPC needs the protos of the `serving` extra.
"""

import base64
import json

import numpy as np
import tensorflow as tf

from tfconcrete._checks import check_count, invalid_type, invalid_value
from tfconcrete.export.warmup import serving_protos


def rest_url(model, host="localhost:8501", version=None):
    """The address to post a REST body to.

    Args:
        model: The model's name in `models.config`.
        host: Host and REST port.
        version: A version number; None for the latest.

    Returns:
        str.

    Example:

    >>> tfc.export.client.rest_url("vae", version=2)
    'http://localhost:8501/v1/models/vae/versions/2:predict'
    """
    where = "" if version is None else f"/versions/{check_count(version, 'version', 0)}"
    return f"http://{host}/v1/models/{model}{where}:predict"


def rest_body(inputs, signature="serving_default"):
    """The JSON body of a predict request.

    Args:
        inputs: dict of arrays by input name, each `[batch, ...]`.
        signature: The signature's name.

    Returns:
        str.

    Example:

    >>> tfc.export.client.rest_body({"codes": np.array([[3, 1]])}, "decode")
    '{"signature_name": "decode", "inputs": {"codes": [[3, 1]]}}'
    """
    columns = {name: _to_json(array) for name, array in _arrays(inputs).items()}
    return json.dumps({"signature_name": signature, "inputs": columns})


def read_rest(answer, outputs=None):
    """The arrays in a REST answer.

    JSON has no dtypes: whole numbers are read as int32, others as float32. A server leaves
    out the name of a single output.

    Args:
        answer: The answer's body (str or bytes), or the dict in it.
        outputs: Names of the outputs, where there is only one: a str or a list of one.

    Returns:
        dict of arrays by output name (`"outputs"` for a single one whose name is not
        given).

    Example:

    >>> tfc.export.client.read_rest('{"outputs": [[3, 1]]}', "codes")
    {'codes': array([[3, 1]], dtype=int32)}
    """
    if isinstance(answer, (str, bytes)):
        answer = json.loads(answer)
    if not isinstance(answer, dict):
        raise invalid_type("answer", "a JSON object", answer)
    if "error" in answer:
        raise RuntimeError(f"TF Serving answered with an error: {answer['error']}")
    if "outputs" in answer:
        columns = answer["outputs"]
    elif "predictions" in answer:
        columns = answer["predictions"]
        if columns and isinstance(columns[0], dict) and "b64" not in columns[0]:
            columns = {name: [row[name] for row in columns] for name in columns[0]}
    else:
        raise invalid_value("answer", '"outputs", "predictions" or "error" in it', answer)
    if not isinstance(columns, dict) or "b64" in columns:
        name = outputs if isinstance(outputs, str) else (list(outputs or ["outputs"])[0])
        columns = {name: columns}
    return {name: _from_json(value) for name, value in columns.items()}


def grpc_request(model, inputs, signature="serving_default", version=None):
    """A `PredictRequest`, for `PredictionServiceStub(channel).Predict(request, timeout)`.

    Args:
        model: The model's name in `models.config`.
        inputs: dict of arrays by input name, each `[batch, ...]`. Double precision is sent
            as float32, lists of whole numbers as int32.
        signature: The signature's name.
        version: A version number; None for the latest.

    Returns:
        `tensorflow_serving.apis.predict_pb2.PredictRequest`.

    Example:

    >>> inputs = {"seeds": [[0, 1]]}
    >>> request = tfc.export.client.grpc_request("vae", inputs, "generate")
    >>> request.model_spec.signature_name, request.inputs["seeds"].dtype == 3
    ('generate', True)
    """
    request = serving_protos("predict_pb2").PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = check_count(version, "version", 0)
    for name, array in _arrays(inputs).items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(array))
    return request


def read_grpc(answer):
    """The arrays in a `PredictResponse`.

    Args:
        answer: `tensorflow_serving.apis.predict_pb2.PredictResponse`.

    Returns:
        dict of arrays by output name.

    Example:

    >>> from tensorflow_serving.apis import predict_pb2
    >>> answer = predict_pb2.PredictResponse()
    >>> answer.outputs["codes"].CopyFrom(tf.make_tensor_proto([[3, 1]]))
    >>> tfc.export.client.read_grpc(answer)
    {'codes': array([[3, 1]], dtype=int32)}
    """
    return {name: tf.make_ndarray(answer.outputs[name]) for name in sorted(answer.outputs)}


def _arrays(inputs):
    if not isinstance(inputs, dict) or not inputs:
        raise invalid_type("inputs", "a dict of arrays by input name", inputs)
    return {name: _array(value, name) for name, value in inputs.items()}


def _array(value, name):
    array = np.asarray(value)
    if not array.ndim:
        raise invalid_value("inputs", f"the batch as the first dimension of '{name}'", value)
    if array.dtype == np.float64:
        return array.astype(np.float32)
    if array.dtype == np.int64 and not hasattr(value, "dtype"):
        return array.astype(np.int32)
    return array


def _to_json(array):
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise invalid_value("inputs", "finite numbers (JSON has no others)", array)
    if array.dtype.kind in "SO":
        return _to_base64(array.tolist())
    return array.tolist()


def _to_base64(value):
    if isinstance(value, list):
        return [_to_base64(part) for part in value]
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    return value


def _from_json(value):
    array = np.asarray(value)
    if array.dtype.kind == "f":
        return array.astype(np.float32)
    if array.dtype.kind in "iu":
        return array.astype(np.int32)
    return array
