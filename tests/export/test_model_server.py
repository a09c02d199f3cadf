"""A server with this package's exports: REST, gRPC, batching, warm-up, hot swap.

Runs against `tensorflow_model_server` where that is on PATH, and against the stand-in of
this folder elsewhere.
"""

import json
import time
import urllib.request

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.export.clients import Clients
from tests.export.servers import serving
from tests.export.small import images, vae
from tests.export.soak import soak
from tfconcrete.export import client

pytest.importorskip("grpc")
pytest.importorskip("tensorflow_serving")


@pytest.fixture(autouse=True)
def _without_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "localhost")


def echo(folder):
    """A SavedModel that answers with what it was asked: strings, large and odd numbers."""

    def call(words, ids, x):
        return {"words": words, "words_bytes": words, "ids": ids, "x": x}

    specs = [
        tf.TensorSpec([None], tf.string, name="words"),
        tf.TensorSpec([None, 2], tf.int64, name="ids"),
        tf.TensorSpec([None, 3], tf.float32, name="x"),
    ]
    function = tf.function(call, input_signature=specs).get_concrete_function()
    tf.saved_model.save(tf.Module(), str(folder / "echo" / "1"), signatures=function)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A running server with batching on: the model, its folder, and the server."""
    folder = tmp_path_factory.mktemp("served")
    model = vae()
    tfc.export.save_discrete(model, folder / "vae", warmup=images(200))
    echo(folder)
    with serving(folder, max_batch_size=1_000, max_execution_batch_size=16) as server:
        yield model, folder / "vae", server


def ask(server, inputs, signature, outputs=None, model="vae", **settings):
    return client.predict(server.rest, inputs, signature, model=model, outputs=outputs, **settings)


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 40, 129, 1_000])
def test_rest(served, rows):
    """Also more rows than run together, and more than a warm-up record has."""
    model, _, server = served
    x = images(rows)
    codes = model.encode(x)
    answer = ask(server, {"image": x}, "encode", "codes")
    np.testing.assert_array_equal(answer["codes"], codes)
    answer = ask(server, {"image": x}, "serving_default")
    np.testing.assert_array_equal(answer["z_codes"], codes)
    decoded = ask(server, {"codes": codes}, "decode", "images")["images"]
    np.testing.assert_allclose(decoded, model.decode(codes), atol=1e-6)


@pytest.mark.parametrize("rows", [7, 129])
def test_grpc(served, rows):
    model, _, server = served
    x = images(rows)
    answer = client.predict(server.grpc, {"image": x}, "encode", model="vae")
    np.testing.assert_array_equal(answer["codes"], model.encode(x))
    seeds = np.arange(2 * rows, dtype=np.int32).reshape(rows, 2)
    together = client.predict(server.grpc, {"seeds": seeds}, "generate", model="vae")["images"]
    one = {"seeds": seeds[3:4]}
    alone = client.predict(server.grpc, one, "generate", model="vae", version=1)["images"]
    np.testing.assert_allclose(together[3:4], alone, atol=1e-6)


@pytest.mark.parametrize("transport", ["rest", "grpc"])
def test_odd_values_come_back_as_they_went(served, transport):
    _, _, server = served
    words = [b"plain", b"nul\0\0"] + ([b"\xff\xfe"] if transport == "grpc" else [b""])
    inputs = {
        "words": words,
        "ids": np.array([[2**40, -1], [4294967299, 2**53 + 1], [2**63 - 1, -(2**63)]]),
        "x": np.array([[np.nan, np.inf, -np.inf], [1e-40, 0.1, 3e38], [1, 2, 16777216]], "f"),
    }
    answer = client.predict(getattr(server, transport), inputs, model="echo")
    assert answer["words_bytes"].tolist() == words
    np.testing.assert_array_equal(answer["ids"], inputs["ids"])
    np.testing.assert_array_equal(answer["x"], inputs["x"])


def test_rows_and_columns(served):
    """The row form, as people write it by hand, gives the same."""
    model, _, server = served
    x = images(3)
    body = {"signature_name": "encode", "instances": [{"image": row.tolist()} for row in x]}
    url = client.rest_url("vae", server.rest)
    with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=60) as answer:
        codes = client.read_rest(answer.read(), "codes")["codes"]
    np.testing.assert_array_equal(codes, model.encode(x))


@pytest.mark.parametrize("transport", ["rest", "grpc"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "nobody"}, "not found"),
        ({"version": 77}, "not found"),
        ({"signature": "encoder"}, "not found"),
        ({"inputs": {"picture": images(1)}}, "image|input"),
        ({"inputs": {"image": [["a"] * 12]}}, "(?i)float|type|string"),
    ],
)
def test_refusals_come_in_the_servers_words(served, transport, change, words):
    _, _, server = served
    request = {"inputs": {"image": images(1)}, "signature": "encode", "model": "vae", **change}
    with pytest.raises(client.ServerError, match=words):
        client.predict(getattr(server, transport), **request)


def test_status_and_metadata(served):
    _, _, server = served
    assert server.states("vae")[1] == "AVAILABLE"
    signatures = server.get("vae/metadata")["metadata"]["signature_def"]["signature_def"]
    assert {"serving_default", "encode", "decode", "generate"} <= set(signatures)
    assert signatures["encode"]["outputs"]["codes"]["dtype"] == "DT_INT32"


def test_requests_above_the_limit_are_refused(served):
    _, _, server = served
    with pytest.raises(client.ServerError, match="Task size 1001 is larger"):
        ask(server, {"image": images(1_001)}, "encode")


@pytest.mark.slow
def test_lengths_of_all_kinds_without_batching(tmp_path):
    """No batching file is written for such a model; served without, each length is right."""
    words = keras.Input([None, 3], name="words")
    model = keras.Model(words, tfc.ConcreteSample(name="z")(keras.layers.Dense(4)(words)))
    tfc.export.save_discrete(model, tmp_path / "text")
    rng = np.random.default_rng(0)
    with serving(tmp_path, batching=False) as server:
        for length in (1, 2, 5, 3):
            x = rng.standard_normal([2, length, 3]).astype(np.float32)
            answer = ask(server, {"words": x}, "serving_default", model="text")
            np.testing.assert_array_equal(answer["z"], model(x))


@pytest.mark.slow
def test_a_second_version_is_swapped_in_under_load(served):
    model, folder, server = served
    x = images(3)
    expected = model.encode(x)

    def encode():
        return ask(server, {"image": x}, "encode", "codes")["codes"]

    with Clients(encode, expected, 4) as clients:
        newest = tfc.export.save_discrete(model, folder)
        server.wait_for("vae", int(newest.name))
        time.sleep(2)
    assert not clients.failures and not clients.wrong and clients.right
    server.wait_for("vae", 1, "END")
    np.testing.assert_array_equal(encode(), expected)


@pytest.mark.slow
def test_a_soak_with_swaps_and_killed_exports(tmp_path):
    """What `python -m tests.export.soak` does for a minute, for a few seconds."""
    found = soak(tmp_path, seconds=12)
    assert not found.failures and not found.wrong and found.right > 20
    assert found.swaps >= 2 and found.kills >= 2
