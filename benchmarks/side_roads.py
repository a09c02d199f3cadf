"""What users do beside the fastest way, each against what it need not cost more than."""

import functools
import time

import keras
import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from benchmarks.report import Figure
from benchmarks.timing import interleaved
from benchmarks.training import BATCH, CLASSES, PIXELS, STEPS, VARIABLES, make_model

EPOCH = 600  # steps


def _images(steps=EPOCH):
    return np.random.default_rng(0).random([steps * BATCH, PIXELS], np.float32)


def _compiled(latent=None):
    model = make_model(latent or tfc.GapStraightThrough(0.5, seed=0))
    model.compile(keras.optimizers.Adam(1e-3), jit_compile=True, steps_per_execution=STEPS)
    return model


def _ratio(times, ours, other):
    return float(np.median(times[ours]) / np.median(times[other]))


def arrays():
    """NumPy arrays against a dataset of ready batches, MNIST's size: `fit` shuffles them, and
    a call copies them once."""
    x = _images()
    data = tf.data.Dataset.from_tensor_slices(x.reshape([EPOCH, BATCH, PIXELS])).cache()
    model = _compiled()
    runs = {
        "arrays": lambda: model.fit(x, batch_size=BATCH, epochs=3, verbose=0),
        "dataset": lambda: model.fit(data, epochs=3, verbose=0, shuffle=False),
    }
    times = interleaved(runs, seconds=60.0, min_rounds=5)
    value = _ratio(times, "arrays", "dataset")
    yield Figure("three epochs of fit with arrays, time against a dataset", value, 1.05, False)
    runs = {
        "arrays": lambda: model.evaluate(x, batch_size=BATCH, verbose=0),
        "dataset": lambda: model.evaluate(data, verbose=0),
    }
    times = interleaved(runs, seconds=30.0, min_rounds=7)
    value = _ratio(times, "arrays", "dataset")
    yield Figure("evaluate with arrays, time against a dataset", value, 1.05, False)


def _autoencoder(layer):
    """The networks of the paper's VAE in a functional model."""
    inputs = keras.Input([PIXELS])
    hidden = keras.layers.Dense(256, "relu")(keras.layers.Dense(512, "relu")(inputs))
    logits = keras.layers.Dense(VARIABLES * CLASSES)(hidden)
    code = layer(keras.layers.Reshape([VARIABLES, CLASSES])(logits))
    hidden = keras.layers.Dense(256, "relu")(keras.layers.Flatten()(code))
    outputs = keras.layers.Dense(PIXELS)(keras.layers.Dense(512, "relu")(hidden))
    model = keras.Model(inputs, outputs)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=True, steps_per_execution=STEPS)
    return model


def functional():
    """A functional model in Keras' own `fit`: a sampling layer in the place of a softmax."""
    x = _images(STEPS)
    data = tf.data.Dataset.from_tensor_slices((x, x)).batch(BATCH).cache()
    layers = {
        "softmax": keras.layers.Softmax(),
        "ConcreteSample": tfc.ConcreteSample(seed=0),
        "GapStraightThrough": tfc.GapStraightThrough(seed=0),
    }
    models = {name: _autoencoder(layer) for name, layer in layers.items()}
    options = {"verbose": 0, "shuffle": False}
    runs = {name: functools.partial(m.fit, data, **options) for name, m in models.items()}
    times = interleaved(runs, seconds=30.0, min_rounds=21)
    for name in list(layers)[1:]:
        value = _ratio(times, name, "softmax")
        yield Figure(f"functional model in `fit`, {name} against softmax", value, 1.05, False)


def generation():
    """Images of codes drawn from the prior, against images of given codes."""
    model = _compiled()
    for rows in (256, 1000):
        codes = np.random.default_rng(0).integers(CLASSES, size=[rows, VARIABLES])
        seeds = np.random.default_rng(1).integers(1000, size=[rows, 2])
        runs = {
            "generate": functools.partial(model.generate, rows, seed=1),
            "decode": functools.partial(model.decode, codes),
        }
        times = interleaved(runs, seconds=5.0)
        value = _ratio(times, "generate", "decode")
        yield Figure(f"generate({rows}), time against decode", value, 1.5, False)
        signatures = model.signatures()
        inputs = {"generate": seeds.astype(np.int32), "decode": codes.astype(np.int32)}
        served = {}
        for name, value in inputs.items():
            signature = signatures[name]
            key = next(iter(signature.inputs))
            function = tf.function(signature.call, [dict(signature.inputs)])
            served[name] = functools.partial(function, {key: tf.constant(value)})
        times = interleaved(served, seconds=5.0)
        value = _ratio(times, "generate", "decode")
        yield Figure(f"its signature, {rows} rows, against decode's", value, 1.5, False)


def igr_bound():
    """Class probabilities of a rounded IGR, 64 x 30 variables of 10 classes."""
    rng = np.random.default_rng(0)
    loc, log_scale = (
        tf.constant(rng.normal(0, s, [64, VARIABLES, CLASSES - 1]), tf.float32) for s in (2, 0.5)
    )
    run = tf.function(lambda *params: tfc.relaxations.igr_probs(*params, 0.5))
    run(loc, log_scale)
    taken = []
    for _ in range(7):
        begin = time.process_time()
        run(loc, log_scale)
        taken.append(time.process_time() - begin)
    what = "IGR's class probabilities, 64 x 30 x 10, CPU time"
    yield Figure(what, float(np.median(taken)), 0.25, False, " s")


def _decoded(tuned):
    """A pipeline that decodes and augments: files read in parallel, JPEG, flips, crops."""
    content = tf.io.encode_jpeg(np.random.default_rng(0).integers(0, 255, [64, 64, 1], np.uint8))

    def file(_):
        return tf.data.Dataset.from_tensors(content).repeat(16 * BATCH)

    def augmented(content):
        image = tf.image.random_flip_left_right(tf.io.decode_jpeg(content, 1))
        image = tf.image.random_crop(image, [56, 56, 1])
        image = tf.image.resize(image, [28, 28]) / 255.0
        return tf.clip_by_value(tf.reshape(image, [PIXELS]), 0.0, 1.0)

    data = tf.data.Dataset.range(8).interleave(file, num_parallel_calls=tf.data.AUTOTUNE)
    data = data.map(augmented, num_parallel_calls=tf.data.AUTOTUNE)
    data = data.batch(BATCH).prefetch(tf.data.AUTOTUNE)
    if tuned:
        options = tf.data.Options()
        options.autotune.enabled = True
        data = data.with_options(options)
    return data


def pipelines():
    """`fit` on a pipeline of work, without tf.data's tuning thread against with it."""
    model = _compiled()
    runs = {
        name: functools.partial(model.fit, _decoded(name == "tuned"), verbose=0, shuffle=False)
        for name in ("ours", "tuned")
    }
    times = interleaved(runs, seconds=30.0, min_rounds=5)
    value = float(np.median(times["tuned"]) / np.median(times["ours"]))
    yield Figure("fit on a decoding pipeline, throughput against tf.data's tuning", value, 0.95)


def first_step(peers):
    """Tracing and compiling the VAE's first steps, against JAX's scan of them."""
    what = "first execution of fit, time against JAX's first scan"
    if "jax" not in peers:
        yield Figure(what, None, 1.5, False, note="no jax here: set JAX_PYTHON")
        return
    x = _images(STEPS)
    data = tf.data.Dataset.from_tensor_slices(x.reshape([STEPS, BATCH, PIXELS])).cache()
    mine, theirs = [], []
    for _ in range(5):
        model = _compiled()
        begin = time.perf_counter()
        model.fit(data, verbose=0, shuffle=False)
        mine.append(time.perf_counter() - begin)
        theirs.append(peers["jax"].make("vae_scan", BATCH, "gst", STEPS))
    note = f"{np.median(mine):.2f} s against {np.median(theirs):.2f} s"
    yield Figure(what, float(np.median(mine) / np.median(theirs)), 1.5, False, note=note)
