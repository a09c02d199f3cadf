"""Training steps of the GST paper's MNIST-VAE: estimators, `fit`, and PyTorch's step.

Encoder 784-512-256-300, decoder 300-256-512-784, 30 variables of 10 classes, batch 100,
Adam 1e-3, analytic KL to the uniform prior.
"""

import subprocess
import sys

import keras
import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from benchmarks.memory import in_fresh_process, peak_mb
from benchmarks.report import Figure
from benchmarks.timing import interleaved, ratio, wait

BATCH, PIXELS, VARIABLES, CLASSES = 100, 784, 30, 10
STEPS = 50
EXECUTIONS = 12  # of `STEPS` steps: an epoch of MNIST


def _dense(sizes, last=None):
    layers = [keras.Input([sizes[0]])]
    layers += [keras.layers.Dense(size, "relu") for size in sizes[1:-1]]
    return keras.Sequential([*layers, keras.layers.Dense(sizes[-1], last)])


def make_model(latent):
    """The paper's VAE around a sampling layer."""
    igr = isinstance(latent, tfc.layers.IGRSample)
    width = 2 * VARIABLES * (CLASSES - 1) if igr else VARIABLES * CLASSES
    inputs = keras.Input([PIXELS])
    hidden = _dense([PIXELS, 512, 256, width], None if igr else "relu")(inputs)
    if igr:
        both = keras.layers.Reshape([2, VARIABLES, CLASSES - 1])(hidden)
        params = [both[:, 0], both[:, 1]]
    else:
        params = keras.layers.Reshape([VARIABLES, CLASSES])(hidden)
    codes = keras.Input([VARIABLES, CLASSES])
    flat = keras.layers.Flatten()(codes)
    decoder = keras.Model(codes, _dense([VARIABLES * CLASSES, 256, 512, PIXELS])(flat))
    kl = "gaussian" if igr else "analytic"
    return tfc.models.DiscreteVAE(keras.Model(inputs, params), decoder, latent, kl=kl)


def fitter(latent, jit_compile, steps_per_execution=STEPS, executions=1):
    """A callable that trains `executions` times `STEPS` steps with one call of `fit`."""
    model = make_model(latent)
    model.compile(
        keras.optimizers.Adam(1e-3),
        jit_compile=jit_compile,
        steps_per_execution=steps_per_execution,
    )
    x = np.random.default_rng(0).random([BATCH * STEPS, PIXELS], np.float32)
    data = tf.data.Dataset.from_tensor_slices(x.reshape([STEPS, BATCH, PIXELS])).cache()
    data = data.repeat(executions).apply(
        tf.data.experimental.assert_cardinality(executions * STEPS)
    )
    return lambda: model.fit(data, verbose=0, shuffle=False)


ESTIMATORS = {
    "STGS": (lambda: tfc.ConcreteSample(0.5, hard=True, seed=0), None),
    "GST-1.0": (lambda: tfc.GapStraightThrough(0.5, seed=0), 1.05),
    "IGR": (lambda: tfc.IGRSample(seed=0), 1.1),
    "ExpConcrete": (lambda: tfc.ExpConcreteSample(0.5, seed=0), 1.1),
    "GR-MC100": (lambda: tfc.layers.GumbelRao(0.5, num_samples=100, seed=0), 3.0),
    "GR-MC1000": (lambda: tfc.layers.GumbelRao(0.5, num_samples=1000, seed=0), 15.0),
}


def estimators(modes=(True, False)):
    """Time of a `fit` step with each estimator against STGS in the same mode."""
    for jit_compile in modes:
        mode = "XLA" if jit_compile else "graph"
        names = [n for n in ESTIMATORS if jit_compile or not n.startswith("GR")]
        runs = {name: fitter(ESTIMATORS[name][0](), jit_compile) for name in names}
        times = interleaved(runs, seconds=30.0, min_rounds=5)
        for name in names[1:]:
            value = float(np.median(times[name]) / np.median(times["STGS"]))
            yield Figure(f"{name} step against STGS, {mode}", value, ESTIMATORS[name][1], False)


def _naive_gumbel_rao(logits, temperature, num_samples, seed):
    """Eq. 11 written out for autodiff: all K noises at once."""
    hard = tfc.relaxations.categorical(logits, seed=seed)
    noise = tfc.noise.gumbel_given_winner(logits, hard, num_samples=num_samples, seed=seed)
    perturbed = logits + tf.stop_gradient(noise - logits)
    soft = tf.reduce_mean(tf.nn.softmax(perturbed / temperature), 0)
    return tf.stop_gradient(hard - soft) + soft


def gumbel_rao():
    """GR-MCK, forward and backward under XLA, against plain autodiff; and its memory."""
    logits = tf.constant(
        np.random.default_rng(0).normal(size=[BATCH, VARIABLES, CLASSES]), tf.float32
    )
    for samples in (100, 1000):

        def gradient(estimator, samples=samples):
            @tf.function(jit_compile=True)
            def run(logits):
                with tf.GradientTape() as tape:
                    tape.watch(logits)
                    sample = estimator(logits, 0.5, samples, seed=tf.constant([1, 2]))
                    loss = tf.reduce_sum(sample**2 * tf.range(10.0))
                return tape.gradient(loss, logits)

            return lambda: run(logits)

        times = interleaved(
            {"ours": gradient(tfc.estimators.gumbel_rao), "naive": gradient(_naive_gumbel_rao)},
            seconds=5.0,
        )
        value = ratio(times, "ours", "naive")
        yield Figure(f"GR-MC{samples} against naive autodiff, XLA", value, 2.0)
    extra = in_fresh_process("training", "peak_memory", "GR-MC1000")
    extra -= in_fresh_process("training", "peak_memory", "STGS")
    yield Figure("GR-MC1000 peak memory above STGS", extra, 100.0, False, " MB")


def peak_memory(name):
    """Peak resident megabytes of this process after training with one estimator."""
    wait(fitter(ESTIMATORS[name][0](), True)())
    return peak_mb()


def _handwritten():
    """The same mathematics by hand: a jitted step, and `STEPS` of them as one program."""
    model = make_model(tfc.ConcreteSample(0.5, hard=True, seed=0))
    encoder, decoder = model.encoder, model.decoder
    log_k = float(np.log(CLASSES))

    def loss(batch, seed):
        logits = encoder(batch, training=True)
        z = tfc.estimators.straight_through_gumbel_softmax(logits, 0.5, seed=seed)
        out = decoder(z, training=True)
        fit = tf.nn.sigmoid_cross_entropy_with_logits(labels=batch, logits=out)
        log_q = tf.nn.log_softmax(logits)
        kl = tf.reduce_sum(tf.exp(log_q) * (log_q + log_k), [1, 2])
        return tf.reduce_mean(tf.reduce_sum(fit, -1) + kl)

    return _steps(loss, encoder.trainable_weights + decoder.trainable_weights)


def _floor():
    """What no step of this VAE can do without: its matrix products, and Adam."""
    model = make_model(tfc.ConcreteSample(0.5, hard=True, seed=0))
    encoder, decoder = model.encoder, model.decoder

    def loss(batch, seed):
        return tf.reduce_sum(decoder(encoder(batch, training=True), training=True) * batch)

    return _steps(loss, encoder.trainable_weights + decoder.trainable_weights)


def _steps(loss, weights):
    """Trains on `loss(batch, seed)`: `(by a jitted step, by one jitted loop)`."""
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(weights)
    x = tf.constant(np.random.default_rng(0).random([STEPS, BATCH, PIXELS], np.float32))

    def step(batch, seed):
        with tf.GradientTape() as tape:
            value = loss(batch, seed)
        optimizer.apply(tape.gradient(value, weights), weights)
        return value

    jitted = tf.function(step, jit_compile=True)

    def by_step():
        for i in range(STEPS):
            value = jitted(x[i], tf.constant([3, i]))
        return value

    @tf.function(jit_compile=True)
    def loop(x):
        total = 0.0
        for i in tf.range(STEPS):
            total += step(x[i], tf.stack([3, i]))
        return total

    return by_step, lambda: loop(x)


def framework():
    """`DiscreteVAE.fit` against the same mathematics by hand, and against the floor."""
    by_step, by_loop = _handwritten()
    latent = tfc.ConcreteSample(0.5, hard=True, seed=0)
    times = interleaved(
        {
            "fit": fitter(latent, True, executions=EXECUTIONS),
            "step": by_step,
            "loop": by_loop,
            "floor": _floor()[1],
        },
        seconds=30.0,
        min_rounds=7,
    )
    medians = {name: float(np.median(values)) for name, values in times.items()}
    medians["fit"] /= EXECUTIONS
    note = f"{medians['fit'] / STEPS * 1e3:.1f} ms a step"
    what = "DiscreteVAE.fit, XLA, time against"
    value = medians["fit"] / medians["step"]
    yield Figure(f"{what} a hand-written jitted step", value, 1.25, False, note=note)
    yield Figure(f"{what} {STEPS} steps as one program", medians["fit"] / medians["loop"])
    yield Figure(f"{what} matrix products and Adam alone", medians["fit"] / medians["floor"])
    value = medians["loop"] / medians["floor"]
    yield Figure(f"{STEPS} steps as one program, time against that floor", value)


def import_time():
    """Seconds that importing the package adds to TensorFlow, Keras and TFP."""
    code = (
        "import time, tensorflow, keras, tensorflow_probability as tfp\n"
        "tfp.distributions.Normal, tfp.bijectors.Exp  # loaded on first use\n"
        "start = time.perf_counter(); import tfconcrete; print(time.perf_counter() - start)"
    )
    taken = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        taken.append(float(done.stdout.splitlines()[-1]))
    seconds = float(np.median(taken))
    yield Figure("import beyond TensorFlow, Keras and TFP", seconds, 0.3, False, " s")
