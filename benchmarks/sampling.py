"""Sampling side by side with TFP: forward and backward, densities, loops, hard draws."""

import time

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc
from benchmarks.memory import in_fresh_process, peak_mb
from benchmarks.report import Figure
from benchmarks.timing import interleaved, ratio, wait

tfd = tfp.distributions

SHAPES = ((100, 30, 10), (200, 32, 64), (64, 200, 2), (256, 1, 1000), (32, 1, 32000))
BINARY_SHAPES = ((64, 200), (64, 8000))
SEED = tf.constant([1, 2])
MODES = {
    "XLA": lambda f: tf.function(f, jit_compile=True),
    "graph": tf.function,
    "eager": lambda f: f,
}


def with_gradient(sample, weight):
    """Forward and backward: d(sum weight * sample)/d logits."""

    def run(logits, seed):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            loss = tf.reduce_sum(weight * sample(logits, seed))
        return tape.gradient(loss, logits)

    return run


def _pair(shape, ours, theirs, mode, seconds=1.5):
    rng = np.random.default_rng(0)
    logits = tf.constant(rng.normal(size=shape), tf.float32)
    weight = tf.constant(rng.normal(size=shape), tf.float32)
    runs = {
        name: MODES[mode](with_gradient(sample, weight))
        for name, sample in (("ours", ours), ("peer", theirs))
    }
    times = interleaved(
        {name: lambda run=run: run(logits, SEED) for name, run in runs.items()}, seconds
    )
    return ratio(times, "ours", "peer")


def relaxed(shapes=SHAPES, modes=tuple(MODES)):
    """`relaxations.concrete` against TFP's RelaxedOneHotCategorical."""

    def ours(logits, seed):
        return tfc.relaxations.concrete(logits, 0.5, seed=seed)

    def theirs(logits, seed):
        return tfd.RelaxedOneHotCategorical(0.5, logits=logits).sample(seed=seed)

    for mode in modes:
        for shape in shapes:
            size = int(np.prod(shape))
            if mode == "XLA":
                goal = 10.0 if size < 250_000 else 25.0
            else:
                goal = 1.1 if size >= 250_000 else None
            value = _pair(shape, ours, theirs, mode)
            yield Figure(f"relaxed sample, forward and backward, {mode}, {shape}", value, goal)


def binary(shapes=BINARY_SHAPES, modes=tuple(MODES)):
    """`relaxations.bin_concrete` against TFP's RelaxedBernoulli."""

    def ours(logits, seed):
        return tfc.relaxations.bin_concrete(logits, 0.5, seed=seed)

    def theirs(logits, seed):
        return tfd.RelaxedBernoulli(0.5, logits=logits).sample(seed=seed)

    goals = {"XLA": None, "graph": 1.5, "eager": 1.8}
    for mode in modes:
        for shape in shapes:
            goal = goals[mode] if np.prod(shape) >= 250_000 else None
            value = _pair(shape, ours, theirs, mode)
            yield Figure(f"binary sample, forward and backward, {mode}, {shape}", value, goal)


def log_prob(shapes=SHAPES):
    """Sample and log density under XLA against TFP's ExpRelaxedOneHotCategorical."""
    for shape in shapes:
        logits = tf.constant(np.random.default_rng(0).normal(size=shape), tf.float32)

        @tf.function(jit_compile=True)
        def ours(logits, seed):
            law = tfc.distributions.ExpConcrete(0.5, logits=logits)
            return law.experimental_sample_and_log_prob(seed=seed)

        @tf.function(jit_compile=True)
        def theirs(logits, seed):
            law = tfd.ExpRelaxedOneHotCategorical(0.5, logits=logits)
            sample = law.sample(seed=seed)
            return sample, law.log_prob(sample)

        runs = {"ours": ours, "peer": theirs}
        times = interleaved(
            {n: lambda f=f, x=logits: f(x, SEED) for n, f in runs.items()}, seconds=1.5
        )
        goal = 8.0 if np.prod(shape) < 250_000 else 25.0
        yield Figure(f"sample and log_prob, XLA, {shape}", ratio(times, "ours", "peer"), goal)


def loops(shape=(100, 30, 100), steps=20):
    """Sampling inside `tf.while_loop` under XLA, per step, against outside."""
    logits = tf.constant(np.random.default_rng(0).normal(size=shape), tf.float32)

    def once(logits, seed):
        return tf.reduce_sum(tfc.relaxations.concrete(logits, 0.5, seed=seed), [0, 1])

    @tf.function(jit_compile=True)
    def inside(logits):
        def body(i, total):
            return i + 1, total + once(logits, tf.stack([7, i]))

        return tf.while_loop(
            lambda i, _: i < steps, body, (0, tf.zeros(shape[-1:])), maximum_iterations=steps
        )[1]

    outside = tf.function(once, jit_compile=True)
    times = interleaved(
        {
            "inside": lambda: inside(logits),
            "outside": lambda: [outside(logits, tf.constant([7, i])) for i in range(steps)],
        },
        seconds=3.0,
    )
    value = float(np.median(times["inside"]) / np.median(times["outside"]))
    yield Figure("inside tf.while_loop under XLA, time against outside", value, 1.5, False)


def hard(classes=(32_000, 1_000_000)):
    """Exact draws against `tf.random.categorical`, both under XLA, and time to compile."""
    for num_classes in classes:
        batch = max(2, 1_000_000 // num_classes)
        logits = tf.constant(np.random.default_rng(0).normal(size=[batch, num_classes]), tf.float32)
        # No constant folding: the logits are an argument, as in a model.
        draw = tf.function(lambda x, s: tfc.relaxations.categorical(x, seed=s), jit_compile=True)
        start = time.perf_counter()
        draw(logits, SEED).numpy()
        compiling = time.perf_counter() - start
        peer = tf.function(lambda x: tf.random.categorical(x, 1), jit_compile=True)
        times = interleaved({"ours": lambda: draw(logits, SEED), "peer": lambda: peer(logits)})  # noqa: B023
        yield Figure(f"hard draw, XLA, K = {num_classes:,}", ratio(times, "ours", "peer"), 4.0)
        yield Figure(f"hard draw, compile time, K = {num_classes:,}", compiling, 5.0, False, " s")


def growth(sizes=(1_000_000, 3_000_000, 10_000_000, 30_000_000)):
    """Log-log slope of the cost in the batch and in K, under XLA."""
    sample = tf.function(lambda x, s: tfc.relaxations.concrete(x, 0.5, seed=s), jit_compile=True)
    for along in ("batch", "K"):
        shapes = [(n // 100, 100) if along == "batch" else (10, n // 10) for n in sizes]
        inputs = [tf.zeros(shape) for shape in shapes]
        times = interleaved(
            {shape: lambda x=x: sample(x, SEED) for shape, x in zip(shapes, inputs, strict=True)},
            seconds=6.0,
        )
        medians = [np.median(times[shape]) for shape in shapes]
        slope = float(np.polyfit(np.log(sizes), np.log(medians), 1)[0])
        yield Figure(f"cost growth in {along}, log-log slope (0.9 to 1.1)", slope, 1.1, False, "")


def peak_buffers(shape, gradient):
    """Buffers of the logits' size at the peak of a relaxed sample under XLA, input included."""

    def sample(logits, seed):
        return tfc.relaxations.concrete(logits, 0.5, seed=seed)

    run = tf.function(with_gradient(sample, 1.0) if gradient else sample, jit_compile=True)
    wait(run(tf.zeros([10, 10]), SEED))
    before = peak_mb()
    logits = tf.zeros(shape)
    wait(run(logits, SEED))
    return (peak_mb() - before) * 2**20 / (4 * np.prod(shape))


def memory(shape=(3_000, 10_000)):
    """Peak memory in units of the logits: forward, and forward and backward."""
    for gradient, what in ((False, "forward"), (True, "forward and backward")):
        value = in_fresh_process("sampling", "peak_buffers", shape, gradient)
        what = f"peak memory of a relaxed sample, {what}, in buffers of the logits"
        yield Figure(what, value, 4.0, False, "")
