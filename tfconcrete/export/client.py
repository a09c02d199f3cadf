"""Requests to TF Serving, and its answers, as arrays by name.

`predict` does it all. The other functions are its parts, for a program that has its own way
to send a request. REST needs the standard library alone, gRPC the protos of the `serving`
extra.
"""

import contextlib
import http.client
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import numpy as np
import tensorflow as tf

from tfconcrete._checks import check_count, check_number, invalid_type, invalid_value
from tfconcrete.export.warmup import serving_protos
from tfconcrete.export.wire import from_json, is_base64, request_arrays, to_json

_GRPC = "grpc://"
# Answers may be larger than the 4 MB that gRPC takes otherwise.
_CHANNEL = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
# What gRPC itself says with the code of a server that is too busy.
_NO_SERVER = re.compile("connect|resolving|socket|reset by peer|goaway", re.IGNORECASE)


class ServerError(RuntimeError):
    """A server's refusal, in its own words."""


def predict(
    url_or_host: str,
    inputs: Any,
    signature: str = "serving_default",
    *,
    model: str | None = None,
    version: int | None = None,
    outputs: Any = None,
    timeout: float = 60.0,
) -> dict[str, np.ndarray]:
    """Asks a server, and returns its answer as arrays.

    Args:
        url_or_host: For REST a host and port (`"localhost:8501"`, `"https://example.org"`)
            with `model`, or the whole address that `rest_url` makes. For gRPC
            `"grpc://localhost:8500"` with `model`, or a `grpc.Channel` that stays open.
        inputs: dict of arrays by input name, each `[batch, ...]` with at least one row.
        signature: The signature's name.
        model: The model's name in `models.config`; None where the address names it.
        version: A version number; None for the latest.
        outputs: For REST, which leaves out the name of a single output: that name.
        timeout: Seconds to wait for the answer.

    Returns:
        dict of arrays by output name. gRPC answers have the dtypes of the signature; for
        REST see `read_rest`.

    Raises:
        ServerError: The server refused; the message is the server's own. Also where what
            answers is no TF Serving (a proxy's HTML page).
        OSError: No server answered: `ConnectionError`, or `TimeoutError`.

    Example:

    ```python
    from tfconcrete.export import client

    answer = client.predict("localhost:8501", {"image": images}, "encode", model="vae",
                            outputs="codes")
    answer = client.predict("grpc://localhost:8500", {"codes": answer["codes"]}, "decode",
                            model="vae")
    ```
    """
    check_number(timeout, "timeout", "a positive number of seconds", 1e-3)
    _check_outputs(outputs)
    if not isinstance(url_or_host, str):
        if not hasattr(url_or_host, "unary_unary"):
            raise invalid_type("url_or_host", "an address or a `grpc.Channel`", url_or_host)
        return _ask_grpc(url_or_host, _named(model), inputs, signature, version, timeout)
    if url_or_host.startswith(_GRPC):
        serving_protos("prediction_service_pb2_grpc")
        import grpc

        with grpc.insecure_channel(url_or_host.removeprefix(_GRPC), _CHANNEL) as channel:
            return _ask_grpc(channel, _named(model), inputs, signature, version, timeout)
    url = url_or_host
    if not url.endswith(":predict"):
        url = rest_url(_named(model), url_or_host, version)
    elif model is not None or version is not None:
        raise invalid_value(
            "url_or_host", "no address of a model where `model` or `version` is given", url
        )
    return _ask_rest(url, rest_body(inputs, signature), outputs, timeout)


def _named(model):
    if not isinstance(model, str) or not model:
        raise invalid_type("model", "the name of the model to ask", model)
    return model


def _signature_named(signature):
    if not isinstance(signature, str):
        raise invalid_type("signature", "the name of a signature", signature)
    return signature


def _check_outputs(outputs):
    names = [outputs] if isinstance(outputs, str) else outputs or []
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise invalid_type("outputs", "None, or the name of the output", outputs)


def _ask_rest(url, body, outputs, timeout):
    request = urllib.request.Request(
        url, body.encode(), {"Content-Type": "application/json", "Accept": "application/json"}
    )
    try:
        with _opened(request, timeout) as answer:
            status, content = answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            raise TimeoutError(f"No answer from {url} within {timeout} s.") from error
        raise ConnectionError(f"No answer from {url}: {reason}") from error
    said = f"{url} answered with status {status}"
    start = content[:200].decode(errors="replace")
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ServerError(f"{said}, and not in JSON as TF Serving does: {start!r}") from error
    if status != 200 and not (isinstance(answer, dict) and "error" in answer):
        raise ServerError(f"{said}: {start!r}")
    try:
        return read_rest(answer, outputs)
    except (ValueError, TypeError) as error:
        raise ServerError(f"{said}, and not as TF Serving does: {start!r}") from error


def _opened(request, timeout):
    """The answer to a request, whatever its status."""
    try:
        return urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        return error


def _ask_grpc(channel, model, inputs, signature, version, timeout):
    request = grpc_request(model, inputs, signature, version)
    services = serving_protos("prediction_service_pb2_grpc")
    import grpc

    try:
        answer = services.PredictionServiceStub(channel).Predict(request, timeout)
    except grpc.RpcError as error:
        code, details = error.code(), error.details() or ""
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            raise TimeoutError(f"No answer within {timeout} s: {details}") from error
        if code is grpc.StatusCode.UNAVAILABLE and _NO_SERVER.search(details):
            raise ConnectionError(f"No answer: {details}") from error
        raise ServerError(f"TF Serving answered {code.name}: {details}") from error
    return read_grpc(answer)


def rest_url(model: str, host: str = "localhost:8501", version: int | None = None) -> str:
    """The address to post a REST body to.

    Args:
        model: The model's name in `models.config`. What an address cannot hold is quoted.
        host: Host and REST port, with `http://` or `https://` before it or without.
        version: A version number; None for the latest.

    Returns:
        str.

    Example:

    >>> tfc.export.client.rest_url("vae", version=2)
    'http://localhost:8501/v1/models/vae/versions/2:predict'
    """
    where = "" if version is None else f"/versions/{check_count(version, 'version', 0)}"
    if not isinstance(host, str) or not host.strip("/"):
        raise invalid_type("host", "a host and port", host)
    server = host.rstrip("/") if "://" in host else f"http://{host.rstrip('/')}"
    if not server.startswith(("http://", "https://")):
        raise invalid_value("host", "a host and port, or an http address", host)
    return f"{server}/v1/models/{urllib.parse.quote(_named(model), safe='')}{where}:predict"


def rest_body(inputs: Any, signature: str = "serving_default") -> str:
    """The JSON body of a predict request.

    Bytes are sent as base64, NaN and infinities as the words that TF Serving reads (and that
    other JSON readers may not).

    Args:
        inputs: dict of arrays by input name, each `[batch, ...]` with at least one row: a
            server that batches requests never answers one without.
        signature: The signature's name.

    Returns:
        str.

    Example:

    >>> tfc.export.client.rest_body({"codes": np.array([[3, 1]])}, "decode")
    '{"signature_name": "decode", "inputs": {"codes": [[3, 1]]}}'
    """
    columns = {name: to_json(array) for name, array in request_arrays(inputs).items()}
    return json.dumps({"signature_name": _signature_named(signature), "inputs": columns})


def read_rest(answer: Any, outputs: Any = None) -> dict[str, np.ndarray]:
    """The arrays in a REST answer.

    JSON has no dtypes: whole numbers are read as int32, or int64 where one of them is
    larger, others as float32, or float64 where one is larger than that holds; strings as
    arrays of `str`, or of `bytes` where the server sent base64 (it does for outputs whose
    name ends in `_bytes`). A server leaves out the name of a single output.

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
    _check_outputs(outputs)
    if isinstance(answer, (str, bytes)):
        try:
            answer = json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise invalid_value("answer", "JSON, as TF Serving answers", answer) from error
    if not isinstance(answer, dict):
        raise invalid_type("answer", "a JSON object", answer)
    if "error" in answer:
        raise ServerError(f"TF Serving answered with an error: {answer['error']}")
    if "outputs" in answer:
        columns = answer["outputs"]
    elif "predictions" in answer:
        columns = _columns(answer["predictions"])
    else:
        raise invalid_value("answer", '"outputs", "predictions" or "error" in it', answer)
    if not isinstance(columns, dict) or is_base64(columns):
        name = outputs if isinstance(outputs, str) else (list(outputs or ["outputs"])[0])
        columns = {name: columns}
    return {name: from_json(value, name) for name, value in columns.items()}


def _columns(rows):
    """Rows of named values, as one list of values by name; other rows as they are."""
    if not (isinstance(rows, list) and rows and isinstance(rows[0], dict)) or is_base64(rows[0]):
        return rows
    with contextlib.suppress(KeyError, TypeError):
        return {name: [row[name] for row in rows] for name in rows[0]}
    raise invalid_value("answer", "the same names in every row", rows)


def grpc_request(
    model: str, inputs: Any, signature: str = "serving_default", version: int | None = None
) -> Any:
    """A `PredictRequest`, for `PredictionServiceStub(channel).Predict(request, timeout)`.

    Args:
        model: The model's name in `models.config`.
        inputs: dict of arrays by input name, each `[batch, ...]` with at least one row.
            Double precision is sent as float32, lists of whole numbers as int32 (int64
            where one is larger); give an array where the model takes something else.
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
    request.model_spec.name = _named(model)
    request.model_spec.signature_name = _signature_named(signature)
    if version is not None:
        request.model_spec.version.value = check_count(version, "version", 0)
    for name, array in request_arrays(inputs).items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(array))
    return request


def read_grpc(answer: Any) -> dict[str, np.ndarray]:
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
