"""A checkout of this package as a peer of another one; `versions.py` starts it."""

import pathlib
import tempfile

import numpy as np
import tensorflow as tf
from serve import serve

import tfconcrete as tfc
from benchmarks import sampling, serving, training
from tfconcrete.export.c_loader import CSavedModel

_REQUESTS = 200


def fit(estimator, jit_compile):
    """50 steps of the GST paper's VAE by one call of `fit`."""
    latent, _ = training.ESTIMATORS[estimator]
    return training.fitter(latent(), jit_compile)


def sample(shape):
    """A relaxed sample with its gradient, under XLA."""
    rng = np.random.default_rng(0)
    logits, weight = (tf.constant(rng.normal(size=shape), tf.float32) for _ in range(2))

    def concrete(logits, seed):
        return tfc.relaxations.concrete(logits, 0.5, seed=seed)

    run = tf.function(sampling.with_gradient(concrete, weight), jit_compile=True)
    return lambda: run(logits, sampling.SEED)


def requests(batch):
    """Some requests to the exported encoder, through TensorFlow's C API."""
    with tempfile.TemporaryDirectory() as folder:
        path, _, _ = serving.export_both(pathlib.Path(folder))
        model = CSavedModel(path, xla=True)
    image = np.random.default_rng(0).random([batch, 784], np.float32)
    signature = model.signatures["serving_default"]
    ask = model.repeater("serving_default", dict.fromkeys(signature.inputs, image))

    def several():
        for _ in range(_REQUESTS):
            ask()

    return several


serve({"fit": fit, "sample": sample, "requests": requests})
