"""Gumbel-Rao: straight-through Gumbel-Softmax, averaged over the noise given the draw."""

import tensorflow as tf

from tfconcrete._checks import check_count
from tfconcrete._dtypes import cast
from tfconcrete._seeds import Stream, as_seed, fold_in
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.estimators.gradients import softmax_vjp
from tfconcrete.noise.gumbel import exponential, exponential_blocks, perturbed_given_winner
from tfconcrete.relaxations.cooling import match_temperature
from tfconcrete.relaxations.discretize import draw
from tfconcrete.relaxations.masking import prepare_logits, zero_masked

# Noises in memory at a time, whatever `num_samples` is. So many hide the cost of a step of the
# loop, for as many times the memory of the logits. A multiple of four: whole blocks of words.
_CHUNK = 8


def _sum_over_noise(terms, like, num_samples, seed):
    """The sum of `terms(noise)`, themselves sums over some noises, over `num_samples` of them.

    Args:
        terms: From some noises, along the first dimension, to two tensors.
        like: Tensor of the shape of a noise and a term.
        num_samples: Python int.
        seed: int32 `[2]` tensor.

    Returns:
        A list of two tensors.
    """

    def shape(size):
        return tf.concat([[size], tf.shape(like)], 0)

    def chunk_seed(index):
        return fold_in(seed, index, Stream.GIVEN_DRAW)

    def add(totals, noise):
        return [total + term for total, term in zip(totals, terms(noise), strict=True)]

    num_chunks, rest = divmod(num_samples, _CHUNK)
    if num_chunks < 3:  # XLA makes no loop of fewer, and no loop stores anything
        return terms(exponential(shape(num_samples), chunk_seed(0)))
    size = tf.size(like) if like.shape.num_elements() is None else like.shape.num_elements()

    # The noise of a step is drawn in the one before it: what a loop carries is stored, and XLA
    # on CPU then computes each block of words once.
    def next_noise(index):
        return exponential_blocks(_CHUNK // 4 * size, chunk_seed(index))

    def step(index, totals, noise):
        return index + 1, add(totals, tf.reshape(noise, shape(_CHUNK))), next_noise(index + 1)

    totals = [tf.zeros_like(like), tf.zeros_like(like)]
    _, totals, noise = tf.while_loop(
        lambda index, *_: index < num_chunks - 1,
        step,
        (tf.constant(0), totals, next_noise(0)),
        parallel_iterations=1,
    )
    totals = add(totals, tf.reshape(noise, shape(_CHUNK)))
    return add(totals, exponential(shape(rest), chunk_seed(num_chunks))) if rest else totals


def gumbel_rao(
    logits: TensorLike,
    temperature: TensorLike = 1.0,
    num_samples: int = 100,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    seed: Seed = None,
) -> tf.Tensor:
    """A one-hot draw with the Rao-Blackwellised Gumbel-Softmax gradient (GST, Eq. 11).

    Forward: D, an exact one-hot draw from softmax(logits).
    Backward: the mean over `num_samples` noises G given D of the gradient of
    softmax((logits + G) / temperature), with G held fixed. The noises are drawn in the
    backward pass only, a few at a time.
    Bias: that of `straight_through_gumbel_softmax`, whose mean it has with less
    variance; with `num_samples=1` the two are the same in distribution.

    GR-MCK of Paulus, Maddison & Krause (2021), "Rao-Blackwellizing the Straight-Through
    Gumbel-Softmax Gradient Estimator".

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        temperature: positive number, or tensor that broadcasts against `logits`.
        num_samples: K, the number of noises averaged; costs time and no memory.
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        One-hot tensor of the shape and dtype of `logits`. A row whose classes are all
        masked is zero.

    Example:

    >>> logits = tf.Variable([[0.0, 1.0, 2.0]])
    >>> with tf.GradientTape() as tape:
    ...     draw = tfc.estimators.gumbel_rao(logits, 0.5, num_samples=10, seed=0)
    >>> tape.gradient(draw, logits, tf.constant([[1.0, 0.0, 0.0]])).shape
    TensorShape([1, 3])
    """
    num_samples = check_count(num_samples, "num_samples")
    logits = tf.convert_to_tensor(logits)
    working, mask = prepare_logits(logits, class_mask, axis)
    temperature = match_temperature(temperature, working)
    temperature = tf.broadcast_to(cast(temperature, working.dtype), tf.shape(working))
    if mask is not None:
        temperature = tf.where(mask, temperature, 1.0)  # masked classes are not warmed up
    seed = as_seed(seed)
    one_hot = draw(working, axis, seed)
    order = _classes_to_front(working, axis)

    @tf.custom_gradient
    def estimate(working, temperature):
        def backward(upstream):
            inputs = (working, one_hot, upstream, 1.0 / temperature)
            rows = [_flatten(x, order) for x in inputs]
            totals = _sum_over_noise(
                lambda noise: _score_gradients(*rows, noise), rows[0], num_samples, seed
            )
            # scores = perturbed / temperature, and perturbed = logits + a constant.
            to_scores, to_inverse = [_unflatten(x, order, working) for x in totals]
            scale = 1.0 / (num_samples * temperature)
            return to_scores * scale, -to_inverse * scale / temperature

        return one_hot, backward

    return tf.cast(zero_masked(estimate(working, temperature), mask), logits.dtype)


def _score_gradients(logits, one_hot, upstream, inverse_temperature, noise):
    """Sums over some noises of the gradient to the scores, alone and times `perturbed`.

    All tensors but the noise `[size, num_classes, rows]` are `[num_classes, rows]`: sums over
    the classes then run over whole rows at once, twice as fast as over a short last axis.
    """
    perturbed = perturbed_given_winner(logits, one_hot, noise, axis=0)
    scores = perturbed * inverse_temperature
    # By hand: `tf.nn.softmax` transposes unless the classes come last.
    weights = tf.exp(scores - tf.reduce_max(scores, axis=1, keepdims=True))
    soft = weights / tf.reduce_sum(weights, axis=1, keepdims=True)
    to_scores = softmax_vjp(soft, upstream, axis=1)
    return [tf.reduce_sum(to_scores, axis=0), tf.reduce_sum(to_scores * perturbed, axis=0)]


def _classes_to_front(x, axis):
    """The permutation of dimensions that puts the class axis first."""
    rank = tf.rank(x) if x.shape.rank is None else x.shape.rank
    axis = axis % rank
    if x.shape.rank is None:
        return tf.concat([[axis], tf.range(axis), tf.range(axis + 1, rank)], 0)
    # A list: in the gradient of a `tf.while_loop` XLA would not know a tensor's value.
    return [axis, *range(axis), *range(axis + 1, rank)]


def _flatten(x, order):
    transposed = tf.transpose(x, order)
    return tf.reshape(transposed, [tf.shape(transposed)[0], -1])


def _unflatten(rows, order, like):
    shape = tf.gather(tf.shape(like), order)
    return tf.transpose(tf.reshape(rows, shape), tf.math.invert_permutation(order))
