"""Latents small enough to enumerate: 2 variables of 3 classes (or 4 bits) and 6 pixels."""

import itertools

import keras
import numpy as np
from scipy.integrate import trapezoid
from scipy.special import log_expit, log_softmax, logsumexp
from scipy.stats import norm

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


def log_posterior(model, states, x):
    """log q(state | x) of what the model's layer draws, `[examples, states]`, in float64."""
    params, layer = model.encoder(x), model.latent
    if isinstance(layer, layers.IGRSample):
        loc, log_scale = (np.asarray(value, np.float64) for value in params)
        log_q = np.log(largest_of_two(loc, np.exp(log_scale)))
    elif isinstance(layer, layers.BinConcreteSample):
        logits = np.asarray(params, np.float64)
        signs = np.where(states == layer.levels[1], 1.0, -1.0)
        return log_expit(logits[:, None] * signs).sum(-1)
    else:
        log_q = log_softmax(np.asarray(params, np.float64), -1)
    return np.einsum("bvk,svk->bs", log_q, states)


def largest_of_two(loc, scale):
    """P(argmax of [y_1, y_2, 0] = k) for Gaussians `[..., 2]`, by the trapezoidal rule."""
    y = np.linspace(0.0, 1.0, 20_001) * (np.abs(loc) + 10.0 * scale).max()
    standard = (y - loc[..., None]) / scale[..., None]
    below, density = norm.cdf(standard), norm.pdf(standard) / scale[..., None]
    first, second = (
        trapezoid(density[..., i, :] * below[..., 1 - i, :], y, axis=-1) for i in (0, 1)
    )
    return np.stack([first, second, norm.cdf(-loc / scale).prod(-1)], -1)


def log_likelihood_error(log_joint, log_q, num_samples):
    """The standard error of log mean p(x, z) / q(z), for that many draws z of q.

    To first order that of the mean over its expectation, p(x); both by enumeration.

    Args:
        log_joint: log p(x, z), `[examples, states]`.
        log_q: log q(z | x), `[examples, states]`.
        num_samples: The number of draws.

    Returns:
        `[examples]`.
    """
    mean, square = logsumexp(log_joint, 1), logsumexp(2.0 * log_joint - log_q, 1)
    return np.sqrt(np.expm1(square - 2.0 * mean) / num_samples)
