"""The multi-sample bound L_m, at once and streamed (Concrete, Eq. 8)."""

import math
from typing import Any

import tensorflow as tf

from tfconcrete._checks import check_count, check_floating, invalid_type
from tfconcrete._seeds import as_seed, fold_in
from tfconcrete._streams import Stream
from tfconcrete._typing import Seed


def multi_sample_bound(log_weights: Any, axis: int = 0) -> tf.Tensor:
    """L_m = log((1/m) sum_i w_i) from the log weights (Concrete, Eq. 8).

    With log w = log p(x, z) - log q(z | x) and z from q this is a lower bound of log p(x)
    on average, tighter for larger m; with log w = log p(x | z) and z from the prior it is
    L_m^SP of section 5.3. Its gradient weights each sample by its share of the sum.

    Args:
        log_weights: float tensor with the m samples along `axis`.
        axis: The axis of the samples.

    Returns:
        Tensor without `axis`.

    Example:

    >>> round(float(tfc.objectives.multi_sample_bound(tf.math.log([1.0, 3.0]))), 4)
    0.6931
    """
    check_floating(log_weights, "log_weights")
    log_weights = tf.convert_to_tensor(log_weights)
    count = tf.cast(tf.shape(log_weights)[axis], log_weights.dtype)
    return tf.reduce_logsumexp(log_weights, axis=axis) - tf.math.log(count)


def streamed_bound(log_weights: Any, num_samples: int, chunk: int, seed: Seed = None) -> tf.Tensor:
    """L_m of any m in the memory of one chunk: a running log-sum-exp in one loop.

    Args:
        log_weights: callable `(chunk, seed) -> [chunk, batch]`, fresh log weights for an
            int32 `[2]` seed. Under `tf.function` it is run in one loop only.
        num_samples: m.
        chunk: Samples of each round; m need not be a multiple of it.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        Tensor `[batch]`, no gradient.

    Example:

    >>> def log_weights(chunk, seed):
    ...     return tfc.noise.uniform([chunk, 3], seed)
    >>> tfc.objectives.streamed_bound(log_weights, 1_000, chunk=64, seed=0).shape
    TensorShape([3])
    """
    if not callable(log_weights):
        raise invalid_type("log_weights", "a callable `(chunk, seed) -> weights`", log_weights)
    num_samples = check_count(num_samples, "num_samples")
    chunk = min(check_count(chunk, "chunk"), num_samples)
    seed = as_seed(seed)
    rounds = -(-num_samples // chunk)
    surplus = rounds * chunk - num_samples

    # For its shape and dtype alone: in a graph nothing else of it is kept.
    like = log_weights(chunk, seed)
    lowest = tf.constant(like.dtype.min, like.dtype)
    batch = like.shape[1:]
    batch = batch if batch.is_fully_defined() else tf.shape(like)[1:]
    index = tf.reshape(tf.range(chunk), [-1] + [1] * (like.shape.rank - 1))

    def body(step, top, total):
        values = log_weights(chunk, fold_in(seed, step, Stream.STEP))
        # What the rounds draw beyond m is left out of the first.
        values = tf.where((step > 0) | (index >= surplus), values, lowest)
        new_top = tf.maximum(top, tf.reduce_max(values, axis=0))
        total *= tf.exp(top - new_top)
        return step + 1, new_top, total + tf.reduce_sum(tf.exp(values - new_top), axis=0)

    _, top, total = tf.while_loop(
        lambda step, top, total: step < rounds,
        body,
        [0, tf.fill(batch, lowest), tf.zeros(batch, like.dtype)],
        parallel_iterations=1,
    )
    return tf.stop_gradient(top + tf.math.log(total) - math.log(num_samples))
