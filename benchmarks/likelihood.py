"""L_m of a (200H~784V) model: throughput and memory against the naive `tf.function`.

The naive form is what one writes first: all m samples of an image at once in a
`tf.function`. Memory is the growth of the process's peak, in a fresh process for each m,
from the built model on.
"""

import math

import keras
import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from benchmarks.memory import in_fresh_process, peak_mb
from benchmarks.report import Figure
from benchmarks.timing import interleaved, ratio

UNITS, PIXELS = 200, 784


def make_model():
    encoder = keras.Sequential(
        [keras.Input((PIXELS,)), keras.layers.Dense(UNITS, "tanh"), keras.layers.Dense(UNITS)]
    )
    decoder = keras.Sequential(
        [
            keras.Input((UNITS,)),
            keras.layers.Dense(UNITS, "tanh"),
            keras.layers.Dense(UNITS, "tanh"),
            keras.layers.Dense(PIXELS),
        ]
    )
    latent = tfc.layers.BinConcreteSample(levels=(-1, 1))
    return tfc.models.DiscreteVAE(encoder, decoder, latent)


def make_images(count):
    return (np.random.default_rng(0).random((count, PIXELS)) < 0.2).astype(np.float32)


def make_naive(model, num_samples):
    @tf.function
    def bound(x):
        logits = model.encoder(x[tf.newaxis])
        uniforms = tf.random.uniform([num_samples, UNITS])
        z = tf.cast(uniforms < tf.sigmoid(logits), tf.float32)
        log_q = -tf.nn.sigmoid_cross_entropy_with_logits(
            labels=z, logits=tf.broadcast_to(logits, z.shape)
        )
        outputs = model.decoder(2.0 * z - 1.0)
        log_p = -tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.broadcast_to(x, outputs.shape), logits=outputs
        )
        log_weights = tf.reduce_sum(log_p, -1) - tf.reduce_sum(log_q, -1)
        log_weights -= UNITS * math.log(2.0)
        return tf.reduce_logsumexp(log_weights) - math.log(num_samples)

    return lambda images: np.array([bound(x).numpy() for x in tf.constant(images)])


def throughput(num_samples=50_000, images=12, seconds=30.0):
    """Images per second by the streamed L_m against the naive one."""
    model, x = make_model(), make_images(images)
    naive = make_naive(model, num_samples)
    times = interleaved(
        {
            "streamed": lambda: model.log_likelihood(x, num_samples, seed=0, verbose=0),
            "naive": lambda: naive(x),
        },
        seconds=seconds,
        min_rounds=5,
    )
    note = f"{images / float(np.median(times['streamed'])):.2g} images a second"
    what = f"streamed L_{num_samples:,}, images/s against a naive tf.function"
    yield Figure(what, ratio(times, "streamed", "naive"), 2.0, note=note)


def peak_above_model(num_samples, contestant, images=8):
    """Peak memory above a model that has been built and called, in MB."""
    model, x = make_model(), make_images(images)
    model.predict(x, verbose=0)
    before = peak_mb()
    if contestant == "naive":
        make_naive(model, num_samples)(x[:1])
    else:
        model.log_likelihood(x, num_samples, seed=0, verbose=0)
    return peak_mb() - before


def memory(num_samples=50_000):
    """Peak memory above the model, at m and at a tenth of it; and the naive form's."""
    for contestant, count, goal in (
        ("streamed", num_samples // 10, 150.0),
        ("streamed", num_samples, 150.0),
        ("naive", num_samples, None),
    ):
        found = in_fresh_process("likelihood", "peak_above_model", count, contestant)
        yield Figure(
            f"{contestant} L_{count:,}, peak memory above the model", found, goal, False, " MB"
        )
