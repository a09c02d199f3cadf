"""A running server: `tensorflow_model_server` where it is on PATH, else the stand-in."""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import tfconcrete as tfc

ROOT = pathlib.Path(__file__).parents[2]
REAL = shutil.which("tensorflow_model_server")
STAND_IN = (sys.executable, "-m", "tests.export.stand_in")


def free_port():
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


class Server:
    """Addresses and states of a running server.

    Attributes:
        rest: Host and port of REST.
        grpc: Address of gRPC, as `client.predict` takes it.
    """

    def __init__(self, rest, grpc):
        self.rest, self.grpc = f"localhost:{rest}", f"grpc://localhost:{grpc}"

    def get(self, path):
        """A GET request's answer, as a dict."""
        with urllib.request.urlopen(f"http://{self.rest}/v1/models/{path}", timeout=10) as answer:
            return json.load(answer)

    def states(self, model):
        """The states of a model's versions, by number."""
        try:
            found = self.get(model)["model_version_status"]
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return {}
        return {int(entry["version"]): entry["state"] for entry in found}

    def wait_for(self, model, version, state="AVAILABLE", seconds=180):
        end = time.monotonic() + seconds
        while self.states(model).get(version) != state:
            assert time.monotonic() < end, f"{model} {version}: {self.states(model)}"
            time.sleep(0.2)


@contextlib.contextmanager
def serving(folder, batching=True, poll=1, **settings):
    """Serves every model in a folder.

    Args:
        folder: Where the models are; the server's files go there too.
        batching: Whether the server batches.
        poll: Seconds between two looks at the folders.
        **settings: For `write_serving_config`.

    Yields:
        A `Server` whose models are all available.
    """
    files = tfc.export.write_serving_config(folder, **settings)
    rest, grpc = free_port(), free_port()
    command = [
        *([REAL] if REAL else STAND_IN),
        f"--rest_api_port={rest}",
        f"--port={grpc}",
        f"--model_config_file={files['models.config']}",
        f"--monitoring_config_file={files['monitoring.config']}",
        f"--file_system_poll_wait_seconds={poll}",
    ]
    if batching:
        batching_file = files["batching_parameters.txt"]
        command += ["--enable_batching", f"--batching_parameters_file={batching_file}"]
    server = Server(rest, grpc)
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(ROOT), "no_proxy": "localhost"},
        ) as process,
    ):
        try:
            for path in filter(pathlib.Path.is_dir, pathlib.Path(folder).iterdir()):
                numbers = [int(entry.name) for entry in path.iterdir() if entry.name.isdigit()]
                if numbers:
                    server.wait_for(path.name, max(numbers))
            yield server
        except BaseException:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace")[-10_000:])
            raise
        finally:
            process.terminate()
