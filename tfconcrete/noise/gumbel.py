"""Gumbel noise, free and conditioned on the winning class."""

import math

import tensorflow as tf

from tfconcrete._philox import compiled_by_xla
from tfconcrete._seeds import RowSeeds, as_seed, random_blocks, random_words
from tfconcrete._streams import note_law
from tfconcrete._typing import Seed, ShapeLike, TensorLike
from tfconcrete.noise.uniform import open_interval


def gumbel(shape: ShapeLike, seed: Seed = None) -> tf.Tensor:
    """Standard Gumbel noise, -log(-log U) (Concrete, Appendix F).

    The upper tail decides who wins an argmax, so it is the one that gets all 32 bits:
    with V = 1 - U uniform as well, -log U = -log1p(-V) is exact for small V. The values
    lie in about [-2.8, 22.9], and among a million classes the winner is tied in fewer
    than one draw in ten thousand.

    Args:
        shape: Shape of the result; a list or an integer tensor.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        float32 tensor of shape `shape`.

    Example:

    >>> noise = tfc.noise.gumbel([2, 3], seed=0)
    >>> bool(tf.reduce_all(noise == tfc.noise.gumbel([2, 3], seed=0)))
    True
    """
    return -log_exponential(shape, seed)


def log_exponential(shape, seed=None):
    """log E with E standard exponential: minus a Gumbel, one pass cheaper to subtract."""
    sizes = tf.get_static_value(tf.convert_to_tensor(shape, tf.int32))
    size = 1 if sizes is None else math.prod(sizes.tolist())
    if isinstance(seed, RowSeeds) or size % 4:
        return tf.math.log(exponential(shape, seed))
    return tf.reshape(tf.math.log(exponential_blocks(size // 4, seed)), sizes)


def exponential(shape, seed=None):
    """Standard exponential noise, -log U: the Gumbel's other face, G = -log E."""
    note_law("gumbel")
    return _exponential_of(random_words(shape, as_seed(seed)))


def exponential_blocks(num_blocks, seed=None):
    """`exponential([num_blocks, 4], seed)`, where XLA on CPU computes a block once."""
    note_law("gumbel")
    return _exponential_of(random_blocks(num_blocks, as_seed(seed)))


def gumbel_of(words):
    """uint32 words to standard Gumbel noise."""
    return -tf.math.log(_exponential_of(words))


def _exponential_of(words):
    """-log(1 - V), with the relative precision of the uniform V where V is small."""
    v = open_interval(words)
    if not compiled_by_xla():
        return -tf.math.log1p(-v)
    # XLA's log1p costs two logarithms. Here 1 - V loses what V - (1 - u) puts back, to first
    # order; where the second order would count, V is large and nothing is lost.
    u = 1.0 - v
    return (v - (1.0 - u)) - tf.math.log(u)


def add_gumbel(logits, seed=None):
    """`logits + gumbel(shape of logits)`, laid out for XLA.

    A Philox block is four words. Added in rows of four, XLA on CPU computes each block
    once; added in the logits' own shape, it computes the block again for every word.

    Args:
        logits: float32 or float64 tensor.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        Tensor of the shape and dtype of `logits`.
    """
    sizes = logits.shape.as_list() if logits.shape.rank is not None else []
    by_row = isinstance(seed, RowSeeds)
    if by_row or math.prod(size for size in sizes if size is not None) % 4:
        return logits - tf.cast(log_exponential(tf.shape(logits), seed), logits.dtype)
    rows = tf.reshape(logits, [-1, 4])
    noise = tf.math.log(exponential_blocks(tf.shape(rows)[0], seed))
    perturbed = rows - tf.cast(noise, logits.dtype)
    return tf.ensure_shape(tf.reshape(perturbed, tf.shape(logits)), logits.shape)


def gumbel_given_winner(
    logits: TensorLike,
    winner: TensorLike,
    axis: int = -1,
    num_samples: int | None = None,
    seed: Seed = None,
) -> tf.Tensor:
    """Perturbed logits, `logits + Gumbel`, given the class that wins the argmax.

    GST, Fact 1: with E iid standard exponential and Z the partition function, the
    winner i has -log(E_i / Z) and any other class j has -log(E_j / exp(logits_j) +
    E_i / Z). That is a Gumbel at log Z for the maximum, and for the others their own
    Gumbel cut off at the maximum.

    Nothing here is meant to be differentiated: an estimator differentiates the logits
    with the noise held fixed.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        winner: one-hot tensor of the shape of `logits`.
        axis: The class axis.
        num_samples: If given, the result has this leading dimension.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        float tensor of the shape of `logits`, after `[num_samples]` where that is given.
        Its argmax is `winner`.

    Example:

    >>> logits, winner = tf.constant([0.0, 3.0]), tf.constant([1.0, 0.0])
    >>> perturbed = tfc.noise.gumbel_given_winner(logits, winner, seed=0)
    >>> int(tf.argmax(perturbed))
    0
    """
    logits = tf.stop_gradient(tf.convert_to_tensor(logits))
    shape = tf.shape(logits)
    if num_samples is not None:
        shape = tf.concat([[num_samples], shape], 0)
    return perturbed_given_winner(logits, winner, exponential(shape, seed), axis)


def perturbed_given_winner(logits, winner, noise, axis=-1):
    """`gumbel_given_winner` of its noise.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        winner: one-hot tensor of the shape of `logits`.
        noise: standard exponentials of the shape of `logits`, or `[num_samples]` and it.
        axis: The class axis, of the logits.
    """
    winner = tf.cast(winner, tf.bool)
    if axis >= 0:
        axis -= logits.shape.rank  # counted from the end, `num_samples` moves nothing
    noise = tf.cast(noise, logits.dtype)
    log_partition = tf.reduce_logsumexp(logits, axis=axis, keepdims=True)
    log_probs = logits - log_partition
    # With p = exp(logits) / Z the two cases are -log(E_j / p_j + E_i) + log Z, without
    # the first term for the winner. 1 / p_j overflows for classes without a chance: the
    # part of log p_j below -80 is taken out of the logarithm, where E_i no longer counts.
    bounded = tf.maximum(log_probs, -80.0)
    zero = tf.zeros([], logits.dtype)
    inverse = tf.where(winner, zero, tf.exp(-bounded))
    excess = tf.where(winner, zero, log_probs - bounded)
    first = tf.reduce_sum(tf.where(winner, noise, zero), axis=axis, keepdims=True)
    return log_partition + excess - tf.math.log(noise * inverse + first)
