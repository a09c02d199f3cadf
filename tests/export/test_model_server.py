"""A real `tensorflow_model_server`, where there is one: REST, gRPC, batching, hot swap."""

import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

import tfconcrete as tfc
from tests.export.small import images, vae
from tfconcrete.export import client

SERVER = shutil.which("tensorflow_model_server")
pytestmark = pytest.mark.skipif(
    SERVER is None, reason="tensorflow_model_server is not on PATH (no Python package ships it)"
)


def free_port():
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def status(rest):
    """The states of the model's versions, by number."""
    try:
        with urllib.request.urlopen(f"http://{rest}/v1/models/vae", timeout=5) as answer:
            found = json.load(answer)["model_version_status"]
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return {}
    return {int(entry["version"]): entry["state"] for entry in found}


def wait_for(rest, version, seconds=120):
    end = time.monotonic() + seconds
    while status(rest).get(version) != "AVAILABLE":
        assert time.monotonic() < end, f"version {version} did not come up: {status(rest)}"
        time.sleep(0.2)


def post(rest, inputs, signature, outputs=None):
    request = urllib.request.Request(
        client.rest_url("vae", rest), client.rest_body(inputs, signature).encode()
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return client.read_rest(answer.read(), outputs)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A running server with batching on: the model, its folder, and the two addresses."""
    folder = tmp_path_factory.mktemp("served")
    model = vae()
    tfc.export.save_discrete(model, folder / "vae", warmup=images(4))
    files = tfc.export.write_serving_config(folder, max_batch_size=16)
    rest, grpc = free_port(), free_port()
    with subprocess.Popen([
        SERVER, f"--rest_api_port={rest}", f"--port={grpc}",
        f"--model_config_file={files['models.config']}", "--enable_batching",
        f"--batching_parameters_file={files['batching_parameters.txt']}",
        f"--monitoring_config_file={files['monitoring.config']}",
        "--file_system_poll_wait_seconds=1",
    ], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:  # fmt: skip
        try:
            wait_for(f"localhost:{rest}", 1)
            yield model, folder / "vae", f"localhost:{rest}", f"localhost:{grpc}"
        finally:
            process.terminate()


def test_rest(served):
    model, _, rest, _ = served
    x = images(40)  # more than a batch holds: the server splits it
    codes = model.encode(x)
    np.testing.assert_array_equal(post(rest, {"image": x}, "encode", "codes")["codes"], codes)
    answer = post(rest, {"image": x}, "serving_default")
    np.testing.assert_array_equal(answer["z_codes"], codes)
    decoded = post(rest, {"codes": codes}, "decode", "images")["images"]
    np.testing.assert_allclose(decoded, model.decode(codes), atol=1e-6)


def test_grpc(served):
    import grpc
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    model, _, _, address = served
    seeds = np.arange(10, dtype=np.int32).reshape(5, 2)
    with grpc.insecure_channel(address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

        def predict(inputs, signature):
            request = client.grpc_request("vae", inputs, signature)
            return client.read_grpc(stub.Predict(request, timeout=30))

        x = images(7)
        np.testing.assert_array_equal(
            predict({"image": x}, "encode")["codes"], model.encode(x)
        )
        together = predict({"seeds": seeds}, "generate")["images"]
        alone = predict({"seeds": seeds[3:4]}, "generate")["images"]
    np.testing.assert_allclose(together[3:4], alone, atol=1e-6)


def test_a_second_version_is_swapped_in_under_load(served):
    model, folder, rest, _ = served
    x = images(3)
    expected = model.encode(x)
    failures, answers, stop = [], [], threading.Event()

    def ask():
        while not stop.is_set():
            try:
                codes = post(rest, {"image": x}, "encode", "codes")["codes"]
                answers.append(np.array_equal(codes, expected))
            except (OSError, RuntimeError) as error:
                failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        tfc.export.save_discrete(model, folder)
        wait_for(rest, 2)
        time.sleep(2)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures and answers and all(answers)
