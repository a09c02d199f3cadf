"""A training step of two replicas: each replica's gradient compiled by XLA, or not at all.

    python -m benchmarks.replicas

trains the GST paper's VAE under `MirroredStrategy` on two logical CPUs, with and without
`jit_compile=True`, in turns. Prints a Markdown table: milliseconds a step, their ratio, and how
far the weights of one step are apart.
"""

import keras
import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from benchmarks.timing import interleaved, ratio
from benchmarks.training import BATCH, PIXELS, make_model

LATENTS = {
    "`GapStraightThrough`": lambda: tfc.GapStraightThrough(0.5, seed=0),
    "`ConcreteSample`": lambda: tfc.ConcreteSample(0.5, seed=0),
    "`GumbelRao`, 100 noises": lambda: tfc.layers.GumbelRao(0.5, num_samples=100, seed=0),
}
STEPS = 20


def model_of(latent, jit_compile, optimizer):
    keras.utils.set_random_seed(0)
    model = make_model(latent)
    model.compile(optimizer, jit_compile=jit_compile)
    return model


def distance(latent, x):
    """The largest difference of a weight after one step of both kinds."""
    weights = []
    for jit_compile in (False, True):
        model = model_of(latent(), jit_compile, keras.optimizers.SGD(0.1))
        model.fit(x[:BATCH], batch_size=BATCH, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    return max(float(np.abs(a - b).max()) for a, b in zip(*weights, strict=True))


def measure(seconds=20.0):
    """Yields `(name, ms without, ms with, ratio, distance)`."""
    x = np.random.default_rng(0).random([BATCH * STEPS, PIXELS], np.float32)
    data = tf.data.Dataset.from_tensor_slices(x).batch(BATCH).cache()
    for name, latent in LATENTS.items():
        models = {
            jit: model_of(latent(), jit, keras.optimizers.Adam(1e-3)) for jit in (False, True)
        }
        runs = {
            jit: lambda model=model: model.fit(data, verbose=0) for jit, model in models.items()
        }
        times = interleaved(runs, seconds, min_rounds=5)
        ms = [1e3 * float(np.median(times[jit])) / STEPS for jit in (False, True)]
        yield name, *ms, ratio(times, True, False), distance(latent, x)


def main():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    print("| latent | ms a step without XLA | with | times as fast | weights differ by |")
    print("|---|---|---|---|---|")
    with strategy.scope():
        for name, without, compiled, gain, apart in measure():
            print(f"| {name} | {without:.1f} | {compiled:.1f} | {gain:.2f} | {apart:.0e} |")


if __name__ == "__main__":
    main()
