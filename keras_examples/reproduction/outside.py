"""The GST protocol in another framework: `pytorch_vae.py` as cells of a table.

`TORCH_PYTHON` names an interpreter that has PyTorch, where this one has none.
"""

import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np

from benchmarks.peers import process
from keras_examples import common, estimator_comparison
from keras_examples.reproduction.data import mnist_images
from keras_examples.reproduction.tables import Experiment, Row, Table

SCRIPT = pathlib.Path(__file__).with_name("pytorch_vae.py")


def train_outside(cell, context):
    """Runs the script on the same images and reads what it prints."""
    python = process.interpreter("torch")
    if python is None:
        common.fail("TORCH_PYTHON must name an interpreter that has PyTorch and NumPy")
    train, test = mnist_images(context.data_dir, context.smoke)
    settings = {**cell.settings, "epochs": cell.length, "seed": cell.seed}
    options = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mnist.npz")
        np.savez(path, x_train=_bytes(train), x_test=_bytes(test))
        command = [python, str(SCRIPT), path, *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
            for line in program.stdout:
                if line.startswith("epoch ") and context.progress:
                    epoch, loss = line.removeprefix("epoch ").split(": ")
                    context.progress.say(int(epoch), {"val_loss": float(loss)})
        if program.returncode:
            common.fail(f"{SCRIPT.name} ended with {program.returncode}")
    losses = json.loads(line)["val_loss"]
    return {
        "discrete": losses[-1],
        "relaxed": losses[-1],
        "steps": cell.length * -(-len(train) // 100),
        "images": len(train),
        "history": {"val_loss": losses},
    }


def _bytes(images):
    return np.uint8(np.round(255 * images))


EXPERIMENTS = {"gst_pytorch": Experiment(train_outside)}
STARTS = {"pytorch": "PyTorch's initial weights", "glorot": "Keras' initial weights"}


def _rows():
    values = estimator_comparison.PLANS["3"].paper
    for temperature in (0.5, 1.0):
        for key, label in (("stgs", "STGS"), ("gst-1.0", "GST-1.0")):
            for start, name in STARTS.items():
                options = {"estimator": key, "temperature": temperature, "start": start}
                yield Row(f"{label} {temperature:g}: {name}", options, values[temperature][key])


TABLES = (
    Table(
        "gst-pytorch",
        "The same protocol outside of this project",
        "gst_pytorch",
        tuple(_rows()),
        {"short": 10, "paper": 40},
        about="A program in plain PyTorch, written from the paper, trains rows of gst-table3: "
        "nothing of this package takes part. `TORCH_PYTHON` names an interpreter that has PyTorch.",
    ),
)
