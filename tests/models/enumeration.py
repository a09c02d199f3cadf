"""Latents small enough to enumerate: 2 variables of 3 classes (or 4 bits) and 6 pixels."""

import itertools

import keras
import numpy as np
from scipy.special import logsumexp

import tfconcrete as tfc

layers = tfc.layers

PIXELS = 6
CATEGORICAL_STATES = np.eye(3, dtype=np.float32)[
    np.array(list(itertools.product(range(3), repeat=2)))
]
BINARY_STATES = np.array(list(itertools.product([0.0, 1.0], repeat=4)), np.float32)


def make_data(count=64):
    """Three kinds of images, with a little noise: more than one state is needed."""
    random = np.random.default_rng(0)
    kinds = np.array([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]])
    x = kinds[random.integers(0, 3, count)]
    return np.where(random.random(x.shape) < 0.05, 1 - x, x).astype(np.float32)


def dense(shape_in, shape_out, seed):
    """A linear map between tensors of these shapes, reproducible."""
    init = keras.initializers.GlorotUniform(seed=seed)
    return keras.Sequential(
        [
            keras.Input(shape_in),
            keras.layers.Flatten(),
            keras.layers.Dense(int(np.prod(shape_out)), kernel_initializer=init),
            keras.layers.Reshape(shape_out),
        ]
    )


def gaussian_encoder(seed=0):
    """x to [loc, log_scale] of two IGR variables with three classes."""
    x = keras.Input((PIXELS,))
    return keras.Model(x, [dense((PIXELS,), (2, 2), seed + i)(x) for i in range(2)])


def make_networks(layer, seed=0):
    """`(encoder, decoder, states)` for a layer."""
    if isinstance(layer, layers.IGRSample):
        encoder, states = gaussian_encoder(seed), CATEGORICAL_STATES
    elif isinstance(layer, layers.BinConcreteSample):
        encoder, states = dense((PIXELS,), (4,), seed), BINARY_STATES
        low, high = layer.levels
        states = low + (high - low) * states
    else:
        encoder, states = dense((PIXELS,), (2, 3), seed), CATEGORICAL_STATES
    return encoder, dense(states.shape[1:], (PIXELS,), seed + 10), states


def log_likelihoods(logits, x):
    """log p(x | state), `[examples, states]`, in float64."""
    logits = np.asarray(logits, np.float64)
    return x.astype(np.float64) @ logits.T - np.logaddexp(0, logits).sum(-1)


def exact_log_likelihood(model, states, x, log_prior=None):
    """log p(x) of each example, by summing over all states."""
    if log_prior is None:
        log_prior = np.full(len(states), -np.log(len(states)))
    return logsumexp(log_likelihoods(model.decoder(states), x) + log_prior, axis=1)
