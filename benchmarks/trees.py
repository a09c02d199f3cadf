"""Training steps of the latent-tree LSTM: XLA, the length of a sequence, the estimators."""

import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from benchmarks.report import Figure
from benchmarks.timing import interleaved, ratio, wait
from keras_examples import listops_data, listops_tree_lstm

BATCH, UNITS = 16, 64


def _step(choice, length, jit_compile=True, units=UNITS):
    """A callable that takes the gradient of a batch of full-length sequences."""
    tree = tfc.layers.LatentTreeLSTM(units, choice, leaf_lstm=True)
    x = tf.random.stateless_normal([BATCH, length, units], [0, length])
    tree.build(x.shape)
    tree.query.assign(tf.random.stateless_normal([units], [0, 0]))

    @tf.function(jit_compile=jit_compile)
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tree(x, training=True)[0] ** 2)
        return tape.gradient(loss, [w.value for w in tree.trainable_variables])

    return lambda: wait(step())


def compiled():
    """`fit` on bucketed ListOps expressions, the small preset, with and without XLA."""
    preset = listops_tree_lstm.PRESETS["small"]
    examples = listops_data.generate(1_600, 0, preset.max_length)
    widths = listops_data.length_buckets([len(x.tokens) for x in examples], preset.buckets)
    data = listops_data.batches(examples, preset.batch_size, widths).cache()
    runs = {}
    for name, jit_compile in (("graph", False), ("XLA", True)):
        choice = listops_tree_lstm.ESTIMATORS["GST-1.0"](1.0, 0)
        model, _ = listops_tree_lstm.build_model(preset, choice)
        listops_tree_lstm.compile_model(model, preset, jit_compile)
        runs[name] = lambda model=model: model.fit(data, verbose=0)
    times = interleaved(runs, seconds=60.0, min_rounds=3)
    yield Figure("ListOps steps a second, XLA against none", ratio(times, "XLA", "graph"), 1.5)


def growth():
    """The cost of a step as sequences get longer: four times for twice the length."""
    for length in (25, 50):
        runs = {n: _step(tfc.GapStraightThrough(1.0, seed=0), n) for n in (length, 2 * length)}
        times = interleaved(runs, seconds=20.0, min_rounds=5)
        value = float(np.median(times[2 * length]) / np.median(times[length]))
        yield Figure(f"a step of {2 * length} tokens against {length}", value, 4.0, False)


def estimators():
    """A step with each estimator against STGS, 25 tokens."""
    runs = {
        name: _step(listops_tree_lstm.ESTIMATORS[name](1.0, 0), 25)
        for name in ("STGS", "GST-1.0", "GR-MC100", "ReinMax")
    }
    times = interleaved(runs, seconds=30.0, min_rounds=5)
    for name in list(runs)[1:]:
        value = float(np.median(times[name]) / np.median(times["STGS"]))
        yield Figure(f"{name} tree step against STGS", value, None, False)
