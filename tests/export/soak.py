"""A server under load: `python -m tests.export.soak`.

First the figures: requests a second and their latency, with 8 clients, for an encoder with
discrete codes and for the same one with a plain softmax, with and without batching. Then the
soak: 8 clients for a minute, while another process exports the model again and again into
the served folder and is killed in the middle, again and again. No request may fail, and no
answer may be wrong.

The server is `tensorflow_model_server` where it is on PATH, else the stand-in, whose REST is
written in Python: its figures compare models and settings, and say nothing of TF Serving.
"""

import argparse
import dataclasses
import http.client
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import tfconcrete as tfc
from benchmarks.serving import export_both
from tests.export.clients import Clients
from tests.export.servers import REAL, ROOT, serving
from tests.export.small import images, vae
from tfconcrete.export import client
from tfconcrete.export.versions import versions

CLIENTS = 8


@dataclasses.dataclass
class Soak:
    """What happened: answers, failures, versions that came, exports that were killed."""

    right: int
    wrong: int
    failures: list
    swaps: int
    kills: int


def soak(folder, seconds, seed=0):
    """Asks for a while, as versions come and exports die.

    Args:
        folder: An empty folder.
        seconds: How long.
        seed: For the moments of the kills.
    """
    model, x = vae(), images(5)
    model.save(folder / "model.keras")
    served = folder / "served"
    tfc.export.save_discrete(model, served / "vae")
    moments, kills = random.Random(seed), 0
    with (
        serving(served, max_execution_batch_size=16) as server,
        _exporter(folder / "model.keras", served / "vae") as exporter,
    ):
        url = client.rest_url("vae", server.rest)

        def encode():
            return client.predict(url, {"image": x}, "encode", outputs="codes")["codes"]

        with Clients(encode, model.encode(x), CLIENTS) as clients:
            end = time.monotonic() + seconds
            while time.monotonic() < end or kills < 2:
                _export_and_kill(exporter, served / "vae", moments.uniform(0.0, 1.0))
                kills += 1
        exporter.stdin.close()
    swaps = len(versions(served / "vae")) - 1
    return Soak(clients.right, clients.wrong, clients.failures, swaps, kills)


def _exporter(model, folder):
    script = pathlib.Path(__file__).with_name("exporter.py")
    return subprocess.Popen(
        [sys.executable, str(script), str(model), str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _export_and_kill(exporter, folder, wait):
    """Lets a process export at least once more, then kills it `wait` seconds later."""
    before = len(versions(folder))
    exporter.stdin.write("go\n")
    exporter.stdin.flush()
    process = int(exporter.stdout.readline())
    while len(versions(folder)) == before:
        time.sleep(0.05)
    time.sleep(wait)
    os.kill(process, signal.SIGKILL)
    assert exporter.stdout.readline() == "gone\n"


def _asker(server, model, body):
    """A function that posts a body, over a connection for each thread."""
    here = threading.local()

    def ask():
        if not hasattr(here, "connection"):
            here.connection = http.client.HTTPConnection(server.rest, timeout=60)
        here.connection.request("POST", f"/v1/models/{model}:predict", body)
        answer = here.connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(content.decode())
        return content

    return ask


def figures(folder, rows, seconds):
    """Requests a second and latencies, for both encoders, without and with batching."""
    export_both(folder)
    rng = np.random.default_rng(0)
    for batching in (False, True):
        with serving(folder, batching=batching) as server:
            for model in ("softmax", "discrete", "softmax", "discrete"):
                signature = server.get(f"{model}/metadata")["metadata"]["signature_def"]
                (name,) = signature["signature_def"]["serving_default"]["inputs"]
                inputs = {name: rng.random([rows, 784], np.float32)}
                ask = _asker(server, model, client.rest_body(inputs))
                expected = ask()
                with Clients(ask, expected, CLIENTS) as clients:
                    time.sleep(seconds)
                assert not clients.failures, clients.failures[0]
                yield model, batching, len(clients.seconds) / seconds, clients.seconds


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=60.0, help="of the soak")
    options.add_argument("--rows", type=int, nargs="*", default=[1, 16], help="of a request")
    options.add_argument("--each", type=float, default=10.0, help="seconds for each figure")
    given = options.parse_args()
    print(f"server: {REAL or 'the stand-in'}")
    print("| rows | model | batching | requests/s | median ms | 99% ms |")
    print("|---|---|---|---|---|---|")
    for rows in given.rows:
        with tempfile.TemporaryDirectory() as folder:
            for model, batching, rate, seconds in figures(pathlib.Path(folder), rows, given.each):
                median, high = np.quantile(seconds, [0.5, 0.99]) * 1e3
                on = "on" if batching else "off"
                print(f"| {rows} | {model} | {on} | {rate:.0f} | {median:.1f} | {high:.1f} |")
    with tempfile.TemporaryDirectory() as folder:
        found = soak(pathlib.Path(folder), given.seconds)
    print(f"soak of {given.seconds:.0f} s, {CLIENTS} clients: {found}")
    if found.failures or found.wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
