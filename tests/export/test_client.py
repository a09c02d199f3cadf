"""Requests and answers as TF Serving writes and reads them."""

import http.server
import json
import socket
import threading
from concurrent import futures

import numpy as np
import pytest
import tensorflow as tf

from tfconcrete.export import client

pytest.importorskip("tensorflow_serving")
import grpc
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


def test_urls():
    assert client.rest_url("vae", "host:1") == "http://host:1/v1/models/vae:predict"
    assert client.rest_url("vae", version=3).endswith("/v1/models/vae/versions/3:predict")


@pytest.mark.parametrize(
    ("host", "start"),
    [
        ("host:1", "http://host:1/v1"),
        ("http://host:1/", "http://host:1/v1"),
        ("https://host/prefix", "https://host/prefix/v1"),
    ],
)
def test_hosts(host, start):
    assert client.rest_url("vae", host) == f"{start}/models/vae:predict"


def test_names_are_quoted():
    assert client.rest_url("a b/c?\u00fc").endswith("/v1/models/a%20b%2Fc%3F%C3%BC:predict")


@pytest.mark.parametrize("name", ["", None, 3])
def test_names_that_are_none(name):
    with pytest.raises(TypeError, match="`model`"):
        client.rest_url(name)


@pytest.mark.parametrize("host", ["", "ftp://host", 8501])
def test_hosts_that_are_none(host):
    with pytest.raises((TypeError, ValueError), match="`host`"):
        client.rest_url("vae", host)


def test_rest_numbers_arrive_as_sent():
    x = np.random.default_rng(0).standard_normal([4, 3]).astype(np.float32)
    body = json.loads(client.rest_body({"image": x, "n": np.array([1, 2])}, "encode"))
    assert body["signature_name"] == "encode"
    np.testing.assert_array_equal(np.float32(body["inputs"]["image"]), x)
    assert body["inputs"]["n"] == [1, 2]


def test_rest_strings():
    body = json.loads(client.rest_body({"words": np.array([[b"ab"]]), "text": ["c"]}))
    assert body["inputs"] == {"words": [[{"b64": "YWI="}]], "text": ["c"]}


LARGE = [
    2**31 - 1,
    -(2**31),
    2**31,
    2**40,
    4294967299,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    2**63,
    2**64 - 1,
]


def whole_numbers(values):
    return np.array(values, np.uint64 if max(values) >= 2**63 else np.int64)


@pytest.mark.parametrize("number", LARGE)
@pytest.mark.parametrize("make", [list, whole_numbers])
def test_large_numbers_go_and_come_whole(number, make):
    inputs = {"ids": make([number, 1])}
    sent = json.loads(client.rest_body(inputs))["inputs"]["ids"]
    assert sent == [number, 1]
    read = client.read_rest({"outputs": sent})["outputs"]
    assert read.tolist() == [number, 1] and read.dtype in (np.int32, np.int64, np.uint64)
    proto = client.grpc_request("m", inputs).inputs["ids"]
    assert tf.make_ndarray(proto).tolist() == [number, 1]


def test_dtypes_of_ones_own_are_kept():
    for dtype in ("int8", "uint8", "int16", "int64", "uint32", "uint64", "bool", "float16"):
        proto = client.grpc_request("m", {"x": np.ones([1], dtype)}).inputs["x"]
        assert tf.make_ndarray(proto).dtype == dtype


BYTES = [b"nul\0\0", b"", b"\xff\0", b"plain"]


@pytest.mark.parametrize("make", [list, lambda value: np.array(value, object)])
def test_bytes_go_and_come_whole(make):
    inputs = {"words": make(BYTES)}
    sent = json.loads(client.rest_body(inputs))["inputs"]["words"]
    read = client.read_rest({"outputs": {"words_bytes": [sent], "n": [1]}})["words_bytes"]
    assert read.shape == (1, 4) and read[0].tolist() == BYTES
    proto = client.grpc_request("m", inputs).inputs["words"]
    assert tf.make_ndarray(proto).tolist() == BYTES


def test_base64_of_a_single_output_and_in_rows():
    for answer in ({"outputs": [{"b64": "YWI="}]}, {"predictions": [{"b64": "YWI="}]}):
        assert client.read_rest(answer, "x_bytes")["x_bytes"].tolist() == [b"ab"]
    rows = client.read_rest({"predictions": [{"a_bytes": {"b64": "YWI="}, "b": "\u00fc\0"}]})
    assert rows["a_bytes"].tolist() == [b"ab"] and rows["b"].tolist() == ["\u00fc\0"]


def test_nan_and_infinity_as_the_server_writes_and_reads_them():
    x = np.array([[np.nan, np.inf, -np.inf, 1.5]], np.float32)
    body = client.rest_body({"x": x})
    assert '"x": [[NaN, Infinity, -Infinity, 1.5]]' in body
    answer = client.read_rest('{"outputs": [[NaN, Infinity, -Infinity, 1.5]]}')["outputs"]
    np.testing.assert_array_equal(answer, x)
    assert answer.dtype == np.float32


def test_floats_too_large_for_float32():
    assert client.read_rest({"outputs": [1e300]})["outputs"].tolist() == [1e300]
    with pytest.raises(ValueError, match="float32 holds"):
        client.rest_body({"x": [1e300]})


def test_rest_answers():
    columns = client.read_rest('{"outputs": {"z_codes": [[1, 2]], "out": [[0.5, 1.0]]}}')
    assert columns["z_codes"].dtype == np.int32 and columns["out"].dtype == np.float32
    assert client.read_rest(b'{"outputs": [1, 2]}', "codes")["codes"].tolist() == [1, 2]
    np.testing.assert_array_equal(client.read_rest({"outputs": [1.5]})["outputs"], [1.5])
    rows = client.read_rest({"predictions": [{"a": 1, "b": [0.5]}, {"a": 2, "b": [1.5]}]})
    assert rows["a"].tolist() == [1, 2] and rows["b"].tolist() == [[0.5], [1.5]]
    assert client.read_rest({"predictions": [[1], [2]]}, ["z"])["z"].tolist() == [[1], [2]]


def test_rest_errors():
    with pytest.raises(RuntimeError, match="no such model"):
        client.read_rest('{"error": "no such model"}')
    with pytest.raises(ValueError, match="`answer`"):
        client.read_rest("{}")
    with pytest.raises(TypeError, match="`answer`"):
        client.read_rest("[]")


@pytest.mark.parametrize(
    "answer",
    [
        "<html>",
        b"\xff\xfe",
        "",
        '{"outputs": [[1], [1, 2]]}',
        '{"outputs": [null]}',
        '{"outputs": [1, "a"]}',
        '{"outputs": {"a": {"b": 1}}}',
        '{"predictions": [{"a": 1}, {}]}',
        '{"outputs": [{"b64": "?"}]}',
        '{"predictions": [{"a": 1}, 3]}',
        f'{{"outputs": [{2**70}]}}',
        '{"outputs": [-1, 9223372036854775808]}',
        f'{{"outputs": {"[" * 500}1{"]" * 500}}}',
    ],
)
def test_answers_that_make_no_sense(answer):
    with pytest.raises(ValueError, match="`answer`"):
        client.read_rest(answer)


def test_numbers_beyond_64_bits_are_said_to_be_so():
    for number in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match="64 bits"):
            client.rest_body({"x": [1, number]})


def test_whole_numbers_in_an_array_of_objects():
    request = client.grpc_request("m", {"x": np.array([[1, 2**40]], object)})
    sent = tf.make_ndarray(request.inputs["x"])
    assert sent.dtype == np.int64 and sent.tolist() == [[1, 2**40]]


def test_floats_of_more_than_double_precision():
    x = np.array([1.5, -2.25], np.longdouble)
    assert json.loads(client.rest_body({"x": x}))["inputs"]["x"] == [1.5, -2.25]
    sent = tf.make_ndarray(client.grpc_request("m", {"x": x}).inputs["x"])
    assert sent.dtype == np.float32 and sent.tolist() == [1.5, -2.25]


def test_grpc_round_trip():
    x = np.random.default_rng(0).standard_normal([4, 3])
    inputs = {"image": x, "codes": [[1, 2]], "ids": np.array([5], np.int64)}
    request = client.grpc_request("vae", inputs, "decode", version=7)
    request = predict_pb2.PredictRequest.FromString(request.SerializeToString())
    spec = request.model_spec
    assert (spec.name, spec.signature_name, spec.version.value) == ("vae", "decode", 7)
    arrays = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
    assert [arrays[name].dtype.name for name in ("image", "codes", "ids")] == [
        "float32",
        "int32",
        "int64",
    ]
    answer = predict_pb2.PredictResponse()
    answer.outputs["image"].CopyFrom(request.inputs["image"])
    np.testing.assert_array_equal(client.read_grpc(answer)["image"], x.astype(np.float32))


@pytest.mark.parametrize("make", [client.rest_body, lambda x: client.grpc_request("m", x)])
@pytest.mark.parametrize(
    "inputs",
    [
        [1.0],
        {},
        {"x": 3.0},
        {"x": []},
        {"x": np.zeros([0, 3])},
        {"x": [None]},
        {"x": [1j]},
        {"x": [[1], [1, 2]]},
        {"x": [2**70]},
        {"x": [-1, 2**63]},
        {"x": [1, "a"]},
        {"x": np.array(["2020-01-01"], "M8[D]")},
        {3: [1]},
    ],
)
def test_wrong_inputs(make, inputs):
    with pytest.raises((TypeError, ValueError), match="`inputs`"):
        make(inputs)


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers by the model's name: what a server, or a proxy before it, may say."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind = self.path.split("/")[3].split(":")[0]
        if kind == "echo":
            self._send(200, json.dumps({"outputs": {**body["inputs"], "path": [self.path]}}))
        elif kind == "refusal":
            self._send(400, '{ "error": "Serving signature name: \\"x\\" not found" }')
        elif kind == "page":
            self._send(502, "<html><h1>Bad Gateway</h1></html>", "text/html")
        elif kind == "login":
            self._send(200, "<html>Log in</html>", "text/html")
        elif kind == "other":
            self._send(500, '{"message": "not ours"}')
        elif kind == "deep":
            self._send(200, "[" * 100_000)
        elif kind == "nested":
            self._send(200, f'{{"outputs": {"[" * 500}1{"]" * 500}}}')
        else:
            self._send(
                200, {"nothing": "null", "list": "[1]", "ragged": '{"outputs": [[1], 2]}'}[kind]
            )

    def _send(self, status, text, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def host():
    with http.server.ThreadingHTTPServer(("localhost", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"localhost:{server.server_port}"
        server.shutdown()


@pytest.fixture(autouse=True)
def _without_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "localhost")


def test_predict_over_rest(host):
    x = np.random.default_rng(0).random([2, 3], np.float32)
    answer = client.predict(host, {"x": x, "n": [2**40]}, "encode", model="echo", version=3)
    np.testing.assert_array_equal(answer["x"], x)
    assert answer["n"].tolist() == [2**40]
    assert answer["path"].tolist() == ["/v1/models/echo/versions/3:predict"]
    url = client.rest_url("echo", host)
    np.testing.assert_array_equal(client.predict(url, {"x": x})["x"], x)
    with pytest.raises(ValueError, match="`url_or_host`"):
        client.predict(url, {"x": x}, model="echo")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("refusal", 'Serving signature name: "x" not found'),
        ("page", "status 502.*not in JSON.*Bad Gateway"),
        ("login", "status 200.*not in JSON.*Log in"),
        ("other", "status 500.*not ours"),
        ("deep", r"status 200.*not in JSON.*\[\["),
        ("nested", r"status 200, and not as TF Serving does: .*\[\["),
        ("nothing", "status 200, and not as TF Serving does: 'null'"),
        ("list", r"status 200, and not as TF Serving does: '\[1\]'"),
        ("ragged", "status 200, and not as TF Serving does: .*outputs"),
    ],
)
def test_refusals_in_the_servers_own_words(host, model, words):
    with pytest.raises(client.ServerError, match=words):
        client.predict(host, {"x": [1.0]}, "x", model=model)


def free_port():
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


@pytest.mark.parametrize("scheme", ["", "http://", "grpc://"])
def test_nobody_answers(scheme):
    with pytest.raises(OSError, match="No answer"):
        client.predict(f"{scheme}localhost:{free_port()}", {"x": [1]}, model="m", timeout=10)


def test_nobody_has_that_name():
    with pytest.raises(ConnectionError, match="No answer"):
        client.predict("grpc://nowhere.invalid:8500", {"x": [1]}, model="m", timeout=10)


class TooBusy(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers as TF Serving does when the queue of its batching is full."""

    def Predict(self, request, context):
        text = "The batch scheduling queue to which this task was submitted is full"
        context.abort(grpc.StatusCode.UNAVAILABLE, text)


def test_a_server_that_is_too_busy_has_answered():
    server = grpc.server(futures.ThreadPoolExecutor(1))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(TooBusy(), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    with pytest.raises(client.ServerError, match="UNAVAILABLE: The batch scheduling queue"):
        client.predict(f"grpc://localhost:{port}", {"x": [1]}, model="m", timeout=10)
    server.stop(None)


@pytest.mark.parametrize("scheme", ["", "grpc://"])
def test_a_server_that_is_too_slow(scheme):
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        listener.listen()
        where = f"{scheme}localhost:{listener.getsockname()[1]}"
        with pytest.raises(TimeoutError, match="within 0.2 s"):
            client.predict(where, {"x": [1]}, model="m", timeout=0.2)


@pytest.mark.parametrize(
    "arguments",
    [
        {"model": None},
        {"timeout": 0},
        {"url_or_host": 3},
        {"inputs": {"x": []}},
        {"signature": None},
        {"signature": 3},
        {"outputs": 3},
        {"outputs": [3]},
    ],
)
def test_wrong_arguments_ask_nobody(arguments):
    given = {"url_or_host": "localhost:1", "inputs": {"x": [1]}, "model": "m", **arguments}
    with pytest.raises((TypeError, ValueError), match=f"`{next(iter(arguments))}`"):
        client.predict(**given)
