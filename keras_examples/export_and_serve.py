"""Train a discrete VAE, export it, put it behind TF Serving and ask it for digits.

Title: From Keras to TF Serving
Reference: Maddison, Mnih & Teh (2017), for the model.

A variational autoencoder with 20 variables of 8 classes learns MNIST in under a minute.
`tfc.export.save_discrete` writes it as a SavedModel whose sampling layer is an argmax, with
the signatures `serving_default`, `encode`, `decode` and `generate`, and
`write_serving_config` the files that a server is started with. Where
`tensorflow_model_server` is on PATH it is started, and asked by REST and by gRPC.
Elsewhere the same requests go through TensorFlow's C++ loader, the one that the server
uses, in a process of its own, and the command that serves the model with Docker is shown.
"""

import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import keras
import matplotlib.pyplot as plt
import numpy as np

import tfconcrete as tfc
from keras_examples import common, datasets

NAME = "mnist_vae"
VARIABLES, CLASSES = 20, 8


def build_model(seed):
    """784-256-160 and back, at the Concrete paper's temperatures for 8 classes."""
    encoder = keras.Sequential(
        [
            keras.Input([28, 28], name="image"),
            keras.layers.Flatten(),
            keras.layers.Dense(256, "relu"),
            keras.layers.Dense(VARIABLES * CLASSES),
            keras.layers.Reshape([VARIABLES, CLASSES]),
        ]
    )
    decoder = keras.Sequential(
        [
            keras.Input([VARIABLES, CLASSES]),
            keras.layers.Flatten(),
            keras.layers.Dense(256, "relu"),
            keras.layers.Dense(28 * 28),
            keras.layers.Reshape([28, 28]),
        ]
    )
    latent = tfc.ConcreteSample(temperature=2 / 3, seed=seed, name="z")
    return tfc.models.DiscreteVAE(encoder, decoder, latent, prior_temperature=2 / 5)


def make_requests(images):
    """What is asked: encode the digits, and draw new ones (decoding needs the codes first)."""
    seeds = np.stack([np.arange(len(images)), np.zeros(len(images))], 1).astype(np.int32)
    return {"codes": ("encode", {"image": images}), "new": ("generate", {"seeds": seeds})}


def ask_c_loader(version, images):
    """The requests through the C++ loader, in a process without TensorFlow or Keras."""
    run = tfc.export.c_loader.run_separately
    answers = run(version, make_requests(images))
    codes = answers["codes"]["codes"]
    decoded = run(version, {"digits": ("decode", {"codes": codes})})["digits"]["images"]
    return codes, decoded, answers["new"]["images"]


class Server:
    """A running `tensorflow_model_server` for one model.

    Args:
        program: path of the server.
        model: folder with the model's versions.
    """

    def __init__(self, program, model):
        self._folder = tempfile.TemporaryDirectory()
        files = tfc.export.write_serving_config(self._folder.name, {NAME: model})
        rest, grpc = free_port(), free_port()
        self.rest, self.grpc = f"localhost:{rest}", f"localhost:{grpc}"
        self._process = subprocess.Popen(
            [program, f"--rest_api_port={rest}", f"--port={grpc}", *server_flags(files)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self):
        end = time.monotonic() + 60
        while not self._is_ready():
            if time.monotonic() > end or self._process.poll() is not None:
                self.__exit__()
                common.fail("tensorflow_model_server did not come up with the model")
            time.sleep(0.2)
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def _is_ready(self):
        try:
            url = f"http://{self.rest}/v1/models/{NAME}"
            with urllib.request.urlopen(url, timeout=5) as answer:
                status = json.load(answer)["model_version_status"]
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False
        return any(version["state"] == "AVAILABLE" for version in status)

    def ask_rest(self, signature, inputs, output):
        """One predict request by REST."""
        predict = tfc.export.client.predict
        return predict(self.rest, inputs, signature, model=NAME, outputs=output)[output]

    def ask_grpc(self, signature, inputs, output):
        """One predict request by gRPC."""
        predict = tfc.export.client.predict
        return predict(f"grpc://{self.grpc}", inputs, signature, model=NAME)[output]


def ask_server(program, model, images):
    """The requests to a real server, by REST and by gRPC, which must agree."""
    requests = make_requests(images)
    with Server(program, model) as server:
        signature, inputs = requests["codes"]
        codes = server.ask_rest(signature, inputs, "codes")
        if not np.array_equal(codes, server.ask_grpc(signature, inputs, "codes")):
            common.fail("REST and gRPC gave different codes")
        decoded = server.ask_rest("decode", {"codes": codes}, "images")
        new = server.ask_grpc(*requests["new"], "images")
    return codes, decoded, new


def free_port():
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def server_flags(files):
    # Without batching: on a few cores, with a small model, it gains nothing.
    return [
        f"--model_config_file={files['models.config']}",
        f"--monitoring_config_file={files['monitoring.config']}",
    ]


def docker_command(output):
    """The command that serves the output folder, with the same files, from a container."""
    names = ("models.config", "monitoring.config")
    flags = server_flags({name: f"/models/{name}" for name in names})
    ports = "-p 127.0.0.1:8500:8500 -p 127.0.0.1:8501:8501"
    start = f'docker run --rm {ports} -v "{output.resolve()}":/models'
    return " \\\n    ".join([start, "tensorflow/serving:2.21.0", *flags])


def draw(images, decoded, new, path):
    """Digits, what was decoded from their codes, and new digits."""
    rows = {"digits": images, "decoded from their codes": decoded, "new": new}
    figure, axes = plt.subplots(3, 1, figsize=(10, 4.2), layout="constrained")
    for ax, (title, row) in zip(axes, rows.items(), strict=True):
        ax.imshow(np.concatenate(list(row), axis=1), cmap="gray_r", vmin=0, vmax=1)
        ax.set_title(title, loc="left", fontsize=9)
        ax.axis("off")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def main(arguments=None):
    options = common.parser(__doc__, epochs=10, data=True)
    settings = common.parse(options, arguments)
    keras.utils.set_random_seed(settings.seed)
    (x, _), (x_test, _) = datasets.load_images(
        "binarized_mnist",
        data_dir=datasets.data_directory(settings.data_dir),
        smoke=settings.smoke,
    )

    model = build_model(settings.seed)
    model.compile(keras.optimizers.Adam(1e-3), jit_compile=True)
    epochs = 1 if settings.smoke else settings.epochs
    model.fit(x, batch_size=64, epochs=epochs, verbose=2)
    logs = model.evaluate(x_test, verbose=0, return_dict=True)
    print(f"discrete bound on {len(x_test):,} test digits: {logs['loss']:.1f} nats")

    folder = settings.output / NAME
    version = tfc.export.save_discrete(model, folder, warmup=x_test[:4])
    tfc.export.write_serving_config(settings.output, {NAME: folder}, base_path="/models")
    print(tfc.export.inspect(version))

    images = x_test[:16]
    program = shutil.which("tensorflow_model_server")
    if program:
        print(f"asking {program} by REST and gRPC")
        codes, decoded, new = ask_server(program, folder, images)
    else:
        print(
            "tensorflow_model_server is not on PATH: the same requests go through "
            "TensorFlow's C++ loader, in a separate process"
        )
        print(f"with Docker:\n{docker_command(settings.output)}")
        codes, decoded, new = ask_c_loader(version, images)
    if not np.array_equal(codes, model.encode(images)):
        common.fail("the served codes differ from the Keras model's")
    np.savez_compressed(version.parent / "recorded_codes.npz", image=images, codes=codes)
    print(f"the first digit is the code {' '.join(map(str, codes[0]))}")
    picture = settings.output / "export_and_serve.png"
    draw(images, decoded, new, picture)
    print(f"wrote {picture}; the model is in {version}")


if __name__ == "__main__":
    main()
