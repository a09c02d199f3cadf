"""Table 5 of the GST paper: what an estimator costs beside STGS, in time and memory."""

import keras
import numpy as np
import tensorflow as tf

from benchmarks import memory, timing, training
from keras_examples.reproduction.tables import Experiment, Row, Table

STEPS = 50


def _fitter(name, jit_compile):
    """A callable that trains `STEPS` steps of the paper's VAE."""
    model = training.make_model(training.ESTIMATORS[name][0]())
    model.compile(keras.optimizers.Adam(1e-3), jit_compile=jit_compile, steps_per_execution=STEPS)
    images = np.random.default_rng(0).random([STEPS, training.BATCH, training.PIXELS], np.float32)
    data = tf.data.Dataset.from_tensor_slices(images).cache()
    return lambda: model.fit(data, shuffle=False, verbose=0)


def measure_cost(cell, context):
    """The ratio to STGS of interleaved steps, and the peaks of processes of their own."""
    name = cell.settings["estimator"]
    runs = {key: _fitter(x, not context.smoke) for key, x in (("STGS", "STGS"), ("this", name))}
    times = timing.interleaved(runs, seconds=0.0, min_rounds=cell.length, max_rounds=cell.length)
    peaks = [memory.in_fresh_process("training", "peak_memory", x) for x in ("STGS", name)]
    return {
        "discrete": None,
        "relaxed": None,
        "time": 1.0 / timing.ratio(times, "this", "STGS"),
        "memory": peaks[1] - peaks[0],
        "process": peaks[1],
        "steps": STEPS * cell.length,
    }


EXPERIMENTS = {"gst_cost": Experiment(measure_cost, unit="rounds", needs_data=False)}
TABLE = Table(
    "gst-table5",
    "GST, Table 5: time and memory",
    "gst_cost",
    tuple(
        Row(name, {"estimator": name}, seconds / 5.03)
        for name, seconds in (("GST-1.0", 5.04), ("GR-MC100", 5.09), ("GR-MC1000", 8.73))
    ),
    {"short": 5, "paper": 20},
    measure="time",
    columns={"time / STGS": "time", "MB above STGS": "memory", "MB of the process": "process"},
    about="Time of a training step as a ratio to STGS, on two CPU cores (the paper: a GPU, which "
    "hides GR-MC100's samples; its memory is 0, 58 and 579 MB above STGS).",
)
