"""Requests and answers as TF Serving writes and reads them."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tfconcrete.export import client

pytest.importorskip("tensorflow_serving")
from tensorflow_serving.apis import predict_pb2


def test_urls():
    assert client.rest_url("vae", "host:1") == "http://host:1/v1/models/vae:predict"
    assert client.rest_url("vae", version=3).endswith("/v1/models/vae/versions/3:predict")


def test_rest_numbers_arrive_as_sent():
    x = np.random.default_rng(0).standard_normal([4, 3]).astype(np.float32)
    body = json.loads(client.rest_body({"image": x, "n": np.array([1, 2])}, "encode"))
    assert body["signature_name"] == "encode"
    np.testing.assert_array_equal(np.float32(body["inputs"]["image"]), x)
    assert body["inputs"]["n"] == [1, 2]


def test_rest_strings():
    body = json.loads(client.rest_body({"words": np.array([[b"ab"]]), "text": ["c"]}))
    assert body["inputs"] == {"words": [[{"b64": "YWI="}]], "text": ["c"]}


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


def test_grpc_round_trip():
    x = np.random.default_rng(0).standard_normal([4, 3])
    inputs = {"image": x, "codes": [[1, 2]], "ids": np.array([5], np.int64)}
    request = client.grpc_request("vae", inputs, "decode", version=7)
    request = predict_pb2.PredictRequest.FromString(request.SerializeToString())
    spec = request.model_spec
    assert (spec.name, spec.signature_name, spec.version.value) == ("vae", "decode", 7)
    arrays = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
    assert [arrays[name].dtype.name for name in ("image", "codes", "ids")] == [
        "float32", "int32", "int64",
    ]  # fmt: skip
    answer = predict_pb2.PredictResponse()
    answer.outputs["image"].CopyFrom(request.inputs["image"])
    np.testing.assert_array_equal(client.read_grpc(answer)["image"], x.astype(np.float32))


@pytest.mark.parametrize("make", [client.rest_body, lambda x: client.grpc_request("m", x)])
@pytest.mark.parametrize("inputs", [[1.0], {}, {"x": 3.0}])
def test_wrong_inputs(make, inputs):
    with pytest.raises((TypeError, ValueError), match="`inputs`"):
        make(inputs)


def test_json_has_no_nan():
    with pytest.raises(ValueError, match="finite"):
        client.rest_body({"x": [np.nan]})
