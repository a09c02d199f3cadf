"""The REST routes of TF Serving, and its JSON."""

import base64
import http.server
import json
import re
import urllib.parse

import numpy as np
import tensorflow as tf
from google.protobuf import json_format

from tests.export.stand_in.rpc import metadata_of
from tests.export.stand_in.servable import INVALID_ARGUMENT, NOT_FOUND, Refusal

PREDICT = re.compile(r"/v1/models/([^/:]+)(?:/versions/(\d+))?:predict", re.IGNORECASE)
STATUS = re.compile(r"/v1/models/([^/:]+)(?:/versions/(\d+))?(/metadata)?", re.IGNORECASE)
# TensorFlow's codes as HTTP's.
CODES = {INVALID_ARGUMENT: 400, NOT_FOUND: 404, 4: 504, 8: 429, 9: 412, 12: 501, 14: 503}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers GET with a model's status or metadata, POST with a prediction."""

    protocol_version = "HTTP/1.1"
    models = None  # set by `serve_rest`

    def do_GET(self):
        self._answer(STATUS, self._describe)

    def do_POST(self):
        self._answer(PREDICT, self._predict)

    def _answer(self, route, answer):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            matched = route.fullmatch(urllib.parse.urlsplit(self.path).path)
            if not matched:
                text = f"Malformed request: {self.command} {self.path}"
                raise Refusal(INVALID_ARGUMENT, text)
            name, version, *rest = matched.groups()
            content = answer(self.models[name], int(version) if version else None, body, *rest)
            status = 200
        except Refusal as error:
            status = CODES.get(error.code, 500)
            content = json.dumps({"error": error.text})
        content = content.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _describe(self, model, version, _, metadata):
        answer = metadata_of(model, version) if metadata else model.status(version)
        return json_format.MessageToJson(
            answer, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )

    def _predict(self, model, version, body):
        request = parse(body)
        _, servable = model.servable(version)
        signature = request.get("signature_name", "")
        _, definition = servable.definition(signature)
        dtypes = {name: tf.as_dtype(info.dtype) for name, info in definition.inputs.items()}
        by_rows = "instances" in request
        if by_rows == ("inputs" in request):
            raise Refusal(INVALID_ARGUMENT, "Missing 'inputs' or 'instances' key")
        columns = rows_to_columns(request["instances"], dtypes) if by_rows else request["inputs"]
        if not isinstance(columns, dict) or list(columns) == ["b64"]:
            columns = dict.fromkeys(dtypes, columns)
        inputs = {name: to_array(columns.get(name), name, dtype) for name, dtype in dtypes.items()}
        outputs = servable.predict(signature, inputs)
        return json.dumps(to_answer(outputs, by_rows))

    def log_message(self, *_):
        pass


def parse(body):
    try:
        request = json.loads(body)
    except ValueError as error:
        raise Refusal(INVALID_ARGUMENT, f"JSON Parse error: {error}") from error
    if not isinstance(request, dict):
        raise Refusal(INVALID_ARGUMENT, "JSON Value: Is not object")
    return request


def rows_to_columns(rows, dtypes):
    if not isinstance(rows, list) or not rows:
        raise Refusal(INVALID_ARGUMENT, "JSON Value: No values in 'instances' array")
    if not isinstance(rows[0], dict) or list(rows[0]) == ["b64"]:
        if len(dtypes) > 1:
            raise Refusal(INVALID_ARGUMENT, "instances is a plain list, but expecting objects")
        return dict.fromkeys(dtypes, rows)
    for index, row in enumerate(rows):
        if not isinstance(row, dict) or set(row) != set(dtypes):
            names = ",".join(sorted(dtypes))
            text = f"Failed to process element: {index} of 'instances' list: keys must be {names}"
            raise Refusal(INVALID_ARGUMENT, text)
    return {name: [row[name] for row in rows] for name in dtypes}


def to_array(value, name, dtype):
    if value is None:
        raise Refusal(INVALID_ARGUMENT, f"Missing named input: {name} in 'inputs' object.")
    shape, leaf = [], value
    while isinstance(leaf, list):
        shape.append(len(leaf))
        leaf = leaf[0] if leaf else None
    flat = list(leaves(value, len(shape)))
    if len(flat) != np.prod(shape, dtype=int):
        raise Refusal(INVALID_ARGUMENT, "Encountered list at unexpected size")
    array = np.empty(len(flat), object if dtype == tf.string else dtype.as_numpy_dtype)
    for index, part in enumerate(flat):
        array[index] = to_scalar(part, dtype)
    return array.reshape(shape)


def leaves(value, depth):
    if isinstance(value, list) != (depth > 0):
        raise Refusal(INVALID_ARGUMENT, f"JSON Value: {value!r} found at incorrect level")
    if depth:
        for part in value:
            yield from leaves(part, depth - 1)
    else:
        yield value


def to_scalar(value, dtype):
    if dtype == tf.string and isinstance(value, dict) and list(value) == ["b64"]:
        return base64.b64decode(value["b64"])
    kinds = {tf.string: str, tf.bool: bool}.get(dtype, (int, float) if dtype.is_floating else int)
    if not isinstance(value, kinds) or (isinstance(value, bool) and dtype != tf.bool):
        raise wrong_type(value, dtype)
    if dtype == tf.string:
        return value.encode()
    if dtype.is_integer and not dtype.min <= value <= dtype.max:
        raise wrong_type(value, dtype)
    return value


def wrong_type(value, dtype):
    kind = {str: "String", bool: "True", dict: "Object", type(None): "Null"}
    text = f"{json.dumps(value)} Type: {kind.get(type(value), 'Number')}"
    name = {"float32": "float", "float64": "double"}.get(dtype.name, dtype.name)
    return Refusal(INVALID_ARGUMENT, f"JSON Value: {text} is not of expected type: {name}")


def to_json(array, name):
    if array.dtype.kind != "O":
        return array.tolist()
    if name.endswith("_bytes"):
        flat = [{"b64": base64.b64encode(text).decode()} for text in array.flat]
    else:
        flat = [text.decode(errors="replace") for text in array.flat]
    result = np.empty(len(flat), object)
    result[:] = flat
    return result.reshape(array.shape).tolist()


def to_answer(outputs, by_rows):
    columns = {name: to_json(array, name) for name, array in outputs.items()}
    if len(columns) == 1:
        (columns,) = columns.values()
    elif by_rows:
        names = list(columns)
        columns = [
            dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ]
    return {"predictions" if by_rows else "outputs": columns}


def serve_rest(models, port):
    """A server on a port of this machine, in threads of its own."""
    handler = type("BoundHandler", (Handler,), {"models": models})
    return http.server.ThreadingHTTPServer(("localhost", port), handler)
