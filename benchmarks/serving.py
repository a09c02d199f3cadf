"""What an argmax costs when served: `python -m benchmarks.serving`.

The same encoder is exported twice, with a sampling layer by `save_discrete` and with a
plain softmax by `model.export`, and both run through TensorFlow's C API, as a server would
run them. Requests alternate between the two, the ratio is that of the medians, and its 95%
interval comes from a bootstrap over blocks of requests.
"""

import argparse
import pathlib
import tempfile
import time

import keras
import numpy as np

import tfconcrete as tfc
from benchmarks.report import Figure, markdown
from tfconcrete.export.c_loader import CSavedModel

VARIABLES, CLASSES = 30, 10
BATCHES = (1, 32, 256)


def encoder(last):
    """784-512-256-300, the encoder of the gapped straight-through paper."""
    inputs = keras.Input([784], name="image")
    x = keras.layers.Dense(512, activation="relu")(inputs)
    x = keras.layers.Dense(256, activation="relu")(x)
    x = keras.layers.Dense(VARIABLES * CLASSES)(x)
    x = keras.layers.Reshape([VARIABLES, CLASSES])(x)
    return keras.Model(inputs, last(x))


def export_both(folder):
    """Two SavedModels with the same weights: discrete and softmax."""
    discrete = encoder(tfc.ConcreteSample(name="z"))
    softmax = encoder(keras.layers.Softmax(name="z"))
    softmax.set_weights([w.numpy() for w in discrete.trainable_weights])
    path = tfc.export.save_discrete(discrete, folder / "discrete")
    softmax.export(str(folder / "softmax" / "1"), verbose=False)
    return path, folder / "softmax" / "1", discrete


def alternate(requests, rounds):
    """Seconds of each request, `[rounds, 2]`, the order changing from round to round."""
    seconds = np.empty([rounds, 2])
    for index in range(rounds):
        for which in (0, 1) if index % 2 else (1, 0):
            start = time.perf_counter()
            requests[which]()
            seconds[index, which] = time.perf_counter() - start
    return seconds


def ratio_with_interval(seconds, blocks=50, resamples=2_000):
    """The ratio of the medians, and its 95% interval by a bootstrap over blocks."""
    parts = np.array_split(seconds, blocks)
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(resamples):
        drawn = np.concatenate([parts[i] for i in rng.integers(0, blocks, blocks)])
        first, second = np.median(drawn, axis=0)
        ratios.append(first / second)
    first, second = np.median(seconds, axis=0)
    return tuple(map(float, (first / second, *np.quantile(ratios, [0.025, 0.975]))))


def latency(rounds=2_000):
    """The discrete encoder's latency over that of the softmax one, for each batch size."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        discrete, softmax, _ = export_both(pathlib.Path(folder))
        # Other benchmarks may run in this process: leave them XLA.
        models = [CSavedModel(path, xla=True) for path in (discrete, softmax)]
        for batch in BATCHES:
            image = rng.random([batch, 784], np.float32)
            requests = [
                model.repeater(
                    "serving_default",
                    dict.fromkeys(model.signatures["serving_default"].inputs, image),
                )
                for model in models
            ]
            alternate(requests, 100)
            seconds = alternate(requests, rounds)
            ratio, low, high = ratio_with_interval(seconds)
            micros = np.median(seconds, axis=0) * 1e6
            note = (
                f"95% interval {low:.3f} to {high:.3f}; medians {micros[0]:.0f} and "
                f"{micros[1]:.0f} us"
            )
            what = f"latency against plain softmax, batch {batch}"
            yield Figure(what, ratio, 1.05, at_least=False, note=note)


def size():
    """The variables file over the bytes of the weights."""
    with tempfile.TemporaryDirectory() as folder:
        path, _, model = export_both(pathlib.Path(folder))
        report = tfc.export.inspect(path)
        weights = sum(w.numpy().nbytes for w in model.trainable_weights)
        ratio = report.variables_size / weights
        note = f"{report.variables_size:,} of {weights:,} bytes"
        yield Figure("variables file against the weights", ratio, 1.02, at_least=False, note=note)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=2_000, help="requests for each model")
    settings = options.parse_args()
    print(markdown("serving", [*latency(settings.rounds), *size()]))


if __name__ == "__main__":
    main()
