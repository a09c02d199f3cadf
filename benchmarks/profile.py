"""Where a training step's time goes: `python -m benchmarks.profile`.

Trains the GST paper's MNIST-VAE (see `training.py`) under `tf.profiler` and sums the time of
XLA's kernels over all threads, by what the kernel belongs to. Which that is, the compiled
program's own metadata say.
"""

import collections
import glob
import re
import tempfile

import keras
import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from benchmarks.training import BATCH, PIXELS, STEPS, make_model

# The first pattern that an operation's name contains decides.
KINDS = (
    ("matrix products", r"MatMul"),
    ("Adam", r"adam"),
    ("biases and activations", r"functional|sequential"),
    ("Gumbel noise", r"StatelessRandom|Log1p|^Log$"),
)
REST = "draw, softmax, KL, likelihood, metrics"


def kernel_names(hlo):
    """dict from the name of a kernel of the compiled program to its operation's name."""
    entries = re.findall(r"^\s*(?:ROOT )?%(\S+) = .*?metadata=\{([^}]*)\}", hlo, re.MULTILINE)
    names = {}
    for name, metadata in entries:
        found = re.search(r'op_name="([^"]*)"', metadata)
        names[name] = found[1] if found else name
    return names


def kind_of(kernel, names):
    operation = names.get(kernel)
    if operation is None:
        return None
    for kind, pattern in KINDS:
        if re.search(pattern, operation):
            return kind
    return REST


def traced(run):
    """Seconds of every event of a run, by name, over all threads."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        options = tf.profiler.experimental.ProfilerOptions(
            host_tracer_level=3, python_tracer_level=0
        )
        tf.profiler.experimental.start(folder, options)
        run()
        tf.profiler.experimental.stop()
        path = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)[0]
        with open(path, "rb") as file:
            space = xplane_pb2.XSpace.FromString(file.read())
    seconds = collections.Counter()
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                seconds[name] += event.duration_ps * 1e-12
    return seconds


def main():
    model = make_model(tfc.ConcreteSample(0.5, hard=True, seed=0))
    model.compile(keras.optimizers.Adam(1e-3), jit_compile=True, steps_per_execution=STEPS)
    x = np.random.default_rng(0).random([STEPS, BATCH, PIXELS], np.float32)
    data = tf.data.Dataset.from_tensor_slices(x)
    model.fit(data, epochs=2, verbose=0)
    step = tf.function(lambda batch: model.train_step((batch,)), jit_compile=True)
    hlo = step.experimental_get_compiler_ir(tf.constant(x[0]))(stage="optimized_hlo")
    names = kernel_names(hlo)

    totals, kernels = collections.Counter(), collections.Counter()
    for name, seconds in traced(lambda: model.fit(data, verbose=0)).items():
        kind = kind_of(name, names)
        if kind is not None:
            totals[kind] += seconds / STEPS
            kernels[kind, name] += seconds / STEPS
    everything = sum(totals.values())
    print("| kernels | ms a step, over all threads | share |\n|---|---|---|")
    for kind, seconds in totals.most_common():
        print(f"| {kind} | {seconds * 1e3:.2f} | {seconds / everything:.0%} |")
    print("\nLargest kernels:")
    for (kind, name), seconds in kernels.most_common(12):
        print(f"  {seconds * 1e3:6.2f} ms  {kind}: {name} ({names[name]})")


if __name__ == "__main__":
    main()
