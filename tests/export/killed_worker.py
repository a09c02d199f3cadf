"""Exports one prepared model again and again, until it is killed.

Reads lines: for each, a child is forked that makes a model, prints its process id and
exports for ever. Only the import of TensorFlow is shared (no op has run before the fork),
so that twenty children cost one start.
"""

import os
import pathlib
import sys

import keras
import tensorflow as tf  # noqa: F401

import tfconcrete as tfc
from tfconcrete.export.save import _write
from tfconcrete.export.signatures import make_endpoints
from tfconcrete.export.versions import new_version


def export_for_ever(path):
    inputs = keras.Input([64], name="x")
    hidden = keras.layers.Dense(2_000)(inputs)
    z = tfc.ConcreteSample(name="z")(keras.layers.Dense(200)(hidden))
    endpoints = make_endpoints(keras.Model(inputs, z))
    print(os.getpid(), flush=True)
    while True:
        # What `save_discrete` does once the model is traced.
        with new_version(path) as (folder, _):
            _write(endpoints, folder)


def main(path):
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            export_for_ever(pathlib.Path(path))
        os.waitpid(child, 0)
        print("gone", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
