"""Exports a saved model again and again, until it is killed: `exporter.py MODEL FOLDER`.

Reads lines: for each, a child is forked that loads the model, prints its process id and
exports for ever. Only the import of TensorFlow is shared (no op has run before the fork).
"""

import os
import sys

import keras

import tfconcrete as tfc


def export_for_ever(model, folder):
    model = keras.models.load_model(model)
    print(os.getpid(), flush=True)
    while True:
        tfc.export.save_discrete(model, folder)


def main(model, folder):
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            export_for_ever(model, folder)
        os.waitpid(child, 0)
        print("gone", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
