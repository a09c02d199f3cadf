"""Models small enough to enumerate, and the exact gradients of their objectives in float64."""

import itertools

import numpy as np
import tensorflow as tf

NUM_DRAWS = 60_000
PIXELS = np.array([1.0, 0.0, 1.0, 1.0])


def one_hot_states(num_variables, num_classes):
    """All states of factored categoricals, `[num_states, num_variables, num_classes]`."""
    codes = itertools.product(range(num_classes), repeat=num_variables)
    return np.eye(num_classes)[np.array(list(codes))]


def binary_states(units):
    """All states of binary units, `[2**units, units]`."""
    return np.array(list(itertools.product([0.0, 1.0], repeat=units)))


def log_joint(sample, weights):
    """log p(x, z) of Bernoulli pixels and a uniform prior, `[m, n]`.

    sample: `[m, n, ...]`; weights: one decoder for each n, `[n, latent size, pixels]`.
    """
    m, n, size = tf.shape(sample)[0], tf.shape(sample)[1], weights.shape[1]
    flat = tf.reshape(sample, [m, n, size])
    pixel_logits = tf.einsum("mns,nsp->mnp", flat, weights)
    x = tf.cast(PIXELS, sample.dtype)
    log_likelihood = -tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.zeros_like(pixel_logits) + x, logits=pixel_logits
    )
    return 3.0 * tf.reduce_sum(log_likelihood, axis=-1) - 2.0


def log_q_of_states(states, logits):
    """log q of `[s, ...]` states under `logits` of shape `[...]`, written out by hand."""
    if states.ndim == 3:
        log_p = logits - tf.math.log(tf.reduce_sum(tf.exp(logits), -1, keepdims=True))
        return tf.reduce_sum(states * log_p, axis=[1, 2])
    p = 1.0 / (1.0 + tf.exp(-logits))
    return tf.reduce_sum(tf.math.log(states * p + (1 - states) * (1 - p)), axis=1)


def exact_gradients(states, logits, weights, num_samples=None):
    """Exact value and gradients of E[ELBO], or of E[L_m] where `num_samples` is given."""
    logits = tf.Variable(logits, dtype=tf.float64)
    weights = tf.Variable(weights, dtype=tf.float64)
    with tf.GradientTape() as tape:
        log_q = log_q_of_states(states, logits)
        joint = log_joint(tf.constant(states)[:, None], weights[None])[:, 0]
        log_weights = joint - log_q
        if num_samples is None:
            value = tf.reduce_sum(tf.exp(log_q) * log_weights)
        else:
            tuples = np.array(list(itertools.product(range(len(states)), repeat=num_samples)))
            log_probability = tf.reduce_sum(tf.gather(log_q, tuples), axis=1)
            bound = tf.reduce_logsumexp(tf.gather(log_weights, tuples), axis=1)
            bound -= np.log(num_samples)
            value = tf.reduce_sum(tf.exp(log_probability) * bound)
    gradients = tape.gradient(value, [logits, weights])
    return value.numpy(), [gradient.numpy() for gradient in gradients]


def draw_gradients(estimator, logits, weights, seed, stop_log_q=False, num_draws=NUM_DRAWS):
    """Independent draws of an estimator's value and gradients, one for each batch entry."""
    logits = tf.constant(np.repeat(logits[None], num_draws, 0), tf.float32)
    weights = tf.constant(np.repeat(weights[None], num_draws, 0), tf.float32)

    def objective(sample, log_q):
        log_q = tf.stop_gradient(log_q) if stop_log_q else log_q
        return log_joint(sample, weights) - log_q

    with tf.GradientTape() as tape:
        tape.watch([logits, weights])
        surrogate = estimator(objective, logits, seed=seed)
        total = tf.reduce_sum(surrogate)
    gradients = tape.gradient(total, [logits, weights])
    return surrogate.numpy(), [gradient.numpy() for gradient in gradients]


def assert_mean(draws, exact, sigmas=4.0, resolution=None):
    """The mean over axis 0 is `exact` within standard errors, which are small enough."""
    draws = np.asarray(draws, np.float64)
    error = draws.std(axis=0) / np.sqrt(len(draws))
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - exact), sigmas * error + 1e-6)
    if resolution is not None:
        assert np.linalg.norm(error) < resolution * np.linalg.norm(exact)
