"""Gumbel-Rao: straight-through Gumbel-Softmax, averaged over the noise given the draw."""

import tensorflow as tf

from tfconcrete._checks import check_count, check_temperature
from tfconcrete._dtypes import cast
from tfconcrete._seeds import as_seed, fold_in
from tfconcrete.estimators.gradients import softmax_vjp
from tfconcrete.noise import gumbel_given_winner
from tfconcrete.relaxations.discretize import draw
from tfconcrete.relaxations.masking import prepare_logits, zero_masked

# Noises held in memory at a time, whatever `num_samples` is. Ten of them hide the cost
# of a step of the loop (a third faster than one by one, and more gain nothing), for
# ten times the memory of the logits.
_CHUNK = 10


def _sum_over_noise(terms, totals, num_samples, seed):
    """Adds `terms(size, seed)`, sums over `size` noises, until there are `num_samples`.

    Args:
        terms: From a Python int and a seed to a list of tensors.
        totals: list of tensors to add to.
        num_samples: Python int.
        seed: int32 `[2]` tensor.

    Returns:
        The list of the totals.
    """

    def add(index, size, totals):
        new = terms(size, fold_in(seed, index))
        return [total + term for total, term in zip(totals, new, strict=True)]

    num_chunks, rest = divmod(num_samples, _CHUNK)
    if num_chunks:
        _, totals = tf.while_loop(
            lambda index, totals: index < num_chunks,
            lambda index, totals: (index + 1, add(index, _CHUNK, totals)),
            (tf.constant(0), totals),
            parallel_iterations=1,
        )
    return add(num_chunks, rest, totals) if rest else totals


def gumbel_rao(
    logits, temperature=1.0, num_samples=100, class_mask=None, axis=-1, seed=None
):
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
    check_temperature(temperature, working.shape)
    axis = axis if axis < 0 else axis - working.shape.rank  # a sample dimension comes first
    temperature = tf.broadcast_to(cast(temperature, working.dtype), tf.shape(working))
    seed = as_seed(seed)
    one_hot = draw(working, axis, seed)

    @tf.custom_gradient
    def estimate(working, temperature):
        def backward(upstream):
            def terms(size, seed):
                perturbed = gumbel_given_winner(working, one_hot, axis, size, seed)
                soft = tf.nn.softmax(perturbed / temperature, axis=axis)
                to_scores = softmax_vjp(soft, upstream, axis)
                return [
                    tf.reduce_sum(to_scores, axis=0),
                    tf.reduce_sum(to_scores * perturbed, axis=0),
                ]

            # scores = perturbed / temperature, and perturbed = logits + a constant.
            totals = [tf.zeros_like(working), tf.zeros_like(working)]
            by_logits, by_inverse = _sum_over_noise(terms, totals, num_samples, seed)
            scale = 1.0 / (num_samples * temperature)
            return by_logits * scale, -by_inverse * scale / temperature

        return one_hot, backward

    return tf.cast(zero_masked(estimate(working, temperature), mask), logits.dtype)
