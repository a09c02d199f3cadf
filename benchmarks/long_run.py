"""Does a long training run grow? Memory, Python objects and traces, epoch by epoch.

    python -m benchmarks.long_run --minutes 30

trains, each in a process of its own and one after the other, what `CONTESTANTS` lists: a
`DiscreteVAE` with a schedule, its callbacks and an evaluation each epoch, and the same sizes in
plain Keras with as many evaluations, so that growth can be put down to one or the other. Prints
a Markdown table and writes `<output>/long_run.md` and `long_run.json`.
"""

import argparse
import gc
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

ROWS, BATCH, PIXELS = 512, 64, 64
# Epochs before what is traced, compiled and cached once is so, and between two looks.
WARM_UP, EVERY = 20, 10


def discrete(x):
    """A `DiscreteVAE` with a schedule: model and data."""
    import keras

    import tfconcrete as tfc

    encoder = keras.Sequential(
        [keras.Input((PIXELS,)), keras.layers.Dense(64), keras.layers.Reshape((8, 8))]
    )
    decoder = keras.Sequential(
        [keras.Input((8, 8)), keras.layers.Flatten(), keras.layers.Dense(PIXELS)]
    )
    schedule = tfc.schedules.ExponentialAnnealing(1.0, 0.3, rate=1e-4)
    latent = tfc.GapStraightThrough(schedule, seed=0, name="z")
    model = tfc.models.DiscreteVAE(encoder, decoder, latent)
    model.compile("adam", jit_compile=True)
    return model, (x,)


def plain(x):
    """The same sizes without this package."""
    import keras

    model = keras.Sequential(
        [keras.Input((PIXELS,)), keras.layers.Dense(64), keras.layers.Dense(PIXELS)]
    )
    model.compile("adam", "mse", jit_compile=True)
    return model, (x, x)


def diagnostics(x):
    """Everything of this package that runs at the end of an epoch."""
    import tfconcrete as tfc

    gap = tfc.callbacks.DiscretizationGap(x[:64])
    return [gap, tfc.callbacks.GradientDiagnostics(x[:64], num_samples=2)]


def evaluations(x):
    """What `DiscretizationGap` asks of Keras: two evaluations of a batch."""
    import keras

    class Evaluations(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            for _ in range(2):
                self.model.evaluate(x[:64], x[:64], verbose=0)

    return [Evaluations()]


# `{name: (model and data, further callbacks)}`; all but the first pair are validated each epoch.
CONTESTANTS = {
    "Keras, `fit`": (plain, None),
    "tfconcrete, `fit`": (discrete, None),
    "Keras, `fit` with validation": (plain, lambda x: []),
    "tfconcrete, `fit` with validation": (discrete, lambda x: []),
    "Keras, validation and two evaluations": (plain, evaluations),
    "tfconcrete, validation and callbacks": (discrete, diagnostics),
}


def run(name, minutes, epochs=10**9):
    """Trains one contestant; a record of every tenth epoch after the warm-up."""
    import keras
    import psutil
    import tensorflow as tf

    make, callbacks = CONTESTANTS[name]
    x = np.random.default_rng(0).integers(0, 2, [ROWS, PIXELS]).astype("float32")
    model, data = make(x)
    traces = _count_traces(model, ("train_step", "test_step"))
    records, process, end = [], psutil.Process(), time.time() + 60.0 * minutes

    class Watch(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch < WARM_UP or epoch % EVERY:
                return
            gc.collect()
            objects = gc.get_objects()
            records.append(
                {
                    "epoch": epoch,
                    "bytes": _held(process),
                    "objects": len(objects),
                    "graphs": sum(isinstance(each, tf.Graph) for each in objects),
                    "traces": sum(traces.values()),
                }
            )
            del objects
            self.model.stop_training = time.time() > end

    arguments = {} if callbacks is None else {"validation_data": data}
    model.fit(
        *data,
        batch_size=BATCH,
        epochs=epochs,
        verbose=0,
        callbacks=[*([] if callbacks is None else callbacks(x)), Watch()],
        **arguments,
    )
    return records


def _held(process):
    """Resident bytes, and those that the system has swapped out meanwhile."""
    found = process.memory_full_info()
    return found.rss + getattr(found, "swap", 0)


def _count_traces(model, names):
    """`{name: calls}` of Python methods that a compiled step calls only when it is traced."""
    counts = dict.fromkeys(names, 0)

    def counted(name, method):
        def call(*arguments):
            counts[name] += 1
            return method(*arguments)

        return call

    for name in names:
        setattr(model, name, counted(name, getattr(model, name)))
    return counts


def growth(records, key="bytes"):
    """How much `key` grows in an epoch, over the second half, and its standard error.

    The difference of the means of the half's last and first third: memory comes in steps, and
    a step in the middle counts no more than one at an end.
    """
    half = records[len(records) // 2 :]
    third = max(len(half) // 3, 1)
    first, last = half[:third], half[-third:]
    epochs = np.mean([r["epoch"] for r in last]) - np.mean([r["epoch"] for r in first])
    means = [np.mean([float(r[key]) for r in part]) for part in (first, last)]
    errors = [np.std([float(r[key]) for r in part]) / np.sqrt(third) for part in (first, last)]
    if epochs == 0:
        return float("nan"), float("inf")
    return (means[1] - means[0]) / epochs, float(np.hypot(*errors)) / epochs


def in_a_process(name, minutes, epochs=10**9):
    """`run` where nothing ran before."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-m", "benchmarks.long_run", "--minutes", str(minutes)]
        command += ["--only", name, "--epochs", str(epochs), "--records", file.name]
        subprocess.run(command, check=True, cwd=pathlib.Path(__file__).parents[1])
        return json.load(open(file.name))


def markdown(found):
    """One row for each contestant."""
    lines = [
        "| what | epochs | MiB at the end | KiB an epoch | objects an epoch | new graphs, traces |",
        "|---|---|---|---|---|---|",
    ]
    for name, records in found.items():
        slope, error = growth(records)
        objects, _ = growth(records, "objects")
        new = [records[-1][key] - records[0][key] for key in ("graphs", "traces")]
        lines.append(
            f"| {name} | {records[-1]['epoch']} | {records[-1]['bytes'] / 2**20:.0f} | "
            f"{slope / 2**10:.1f} +- {error / 2**10:.1f} | {objects:.2f} | {new[0]}, {new[1]} |"
        )
    return "\n".join(lines)


def main():
    options = argparse.ArgumentParser(prog="python -m benchmarks.long_run", description=__doc__)
    options.add_argument("--minutes", type=float, default=30.0, help="of each contestant")
    options.add_argument("--epochs", type=int, default=10**9, help="at most")
    options.add_argument("--only", choices=CONTESTANTS, help="one of them, in this process")
    options.add_argument("--records", type=pathlib.Path, help="where --only writes its records")
    options.add_argument("--output", type=pathlib.Path, default=pathlib.Path("output"))
    settings = options.parse_args()
    if settings.only and settings.records:
        settings.records.write_text(
            json.dumps(run(settings.only, settings.minutes, settings.epochs))
        )
        return
    names = [settings.only] if settings.only else list(CONTESTANTS)
    found = {name: in_a_process(name, settings.minutes, settings.epochs) for name in names}
    settings.output.mkdir(parents=True, exist_ok=True)
    (settings.output / "long_run.json").write_text(json.dumps(found))
    (settings.output / "long_run.md").write_text(markdown(found) + "\n")
    print(markdown(found))


if __name__ == "__main__":
    main()
