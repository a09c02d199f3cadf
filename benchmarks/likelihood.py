"""L_m of a (200H~784V) model: throughput and memory against the naive `tf.function`.

    python benchmarks/likelihood.py

The naive form is what one writes first: all m samples of an image at once in a
`tf.function`. Throughput is a ratio of medians, interleaved; memory is the growth of the
process's peak in a fresh process for each m, from the built model on.
"""

import argparse
import json
import math
import pathlib
import re
import subprocess
import sys

import keras
import numpy as np
import tensorflow as tf
from timing import interleaved, ratio

import tfconcrete as tfc

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


def throughput(num_samples, images, seconds):
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
    difference = model.log_likelihood(x, num_samples, seed=0, verbose=0) - naive(x)
    return {
        "num_samples": num_samples,
        "speedup": round(ratio(times, "streamed", "naive"), 2),
        "images_per_second": round(images / float(np.median(times["streamed"])), 2),
        "naive_images_per_second": round(images / float(np.median(times["naive"])), 2),
        "mean_difference_nats": round(float(difference.mean()), 3),
    }


def peak_mb():
    """The process's own peak; `resource.getrusage` would inherit that of its parent."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


def memory(num_samples, contestant):
    """Peak memory above a model that has been built and called, in MB."""
    model, x = make_model(), make_images(4)
    model.predict(x, verbose=0)
    before = peak_mb()
    if contestant == "naive":
        make_naive(model, num_samples)(x[:1])
    else:
        model.log_likelihood(x, num_samples, seed=0, verbose=0)
    return round(peak_mb() - before, 1)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--num-samples", type=int, default=50_000)
    options.add_argument("--images", type=int, default=4)
    options.add_argument("--seconds", type=float, default=30.0)
    options.add_argument("--memory", choices=("streamed", "naive"), help="one measurement")
    settings = options.parse_args()
    if settings.memory:
        print(json.dumps(memory(settings.num_samples, settings.memory)))
        return
    print(json.dumps(throughput(settings.num_samples, settings.images, settings.seconds)))
    for contestant, count in (
        ("streamed", settings.num_samples // 10),
        ("streamed", settings.num_samples),
        ("naive", settings.num_samples),
    ):
        command = [sys.executable, __file__, "--memory", contestant, "--num-samples", str(count)]
        found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        print(json.dumps({"memory": contestant, "num_samples": count, "mb": float(found)}))


if __name__ == "__main__":
    main()
