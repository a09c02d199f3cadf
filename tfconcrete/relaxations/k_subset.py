"""Subsets of exactly k classes with p(z) proportional to exp(z . logits): everything exact.

Where a mask keeps fewer than k classes, all of them are taken. A NaN in a kept logit makes
a row of NaN.

Ahmed, Zeng, Niepert & Van den Broeck (2023), "SIMPLE: A Gradient Estimator for k-Subset
Sampling", give the law and its gradient.
"""

import math

import tensorflow as tf

from tfconcrete._checks import check_temperature
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.relaxations.conditional_bernoulli import (
    covariance_product,
    log_mass,
    log_sigmoids,
    marginal_pair,
    marginals,
    tilt,
)
from tfconcrete.relaxations.count_tree import draw_given_sum
from tfconcrete.relaxations.masking import zero_masked
from tfconcrete.relaxations.subset_rows import (
    from_rows,
    inverse_rows,
    prepare_subset,
)
from tfconcrete.relaxations.top_k import gumbel_keys, hot_rows


def k_subset(
    logits: TensorLike,
    k: int,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    seed: Seed = None,
) -> tf.Tensor:
    """An exact k-hot draw, p(z) proportional to exp(z . logits) on {sum z = k}.

    For k = 1 this is the law of `categorical`. It is not that of the k largest of
    logits + Gumbel, which draws one class after another without replacement.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        k: whole number from 1 to `num_classes - 1`.
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        Tensor of the shape and dtype of `logits`: k ones along `axis`. Where fewer than k
        classes are kept, these; NaN in a row with a NaN in a kept logit. No gradient
        passes.

    Example:

    >>> draw = tfc.relaxations.k_subset(tf.zeros([4, 5]), k=2, seed=0)
    >>> tf.reduce_sum(draw, -1).numpy()
    array([2., 2., 2., 2.], dtype=float32)
    """
    logits = tf.stop_gradient(tf.convert_to_tensor(logits))
    subset = prepare_subset(logits, k, class_mask, axis)
    drawn = draw_rows(subset, tilt(subset), k, seed)
    return tf.cast(from_rows(drawn, logits, axis), logits.dtype)


def draw_rows(subset, log_odds, k, seed):
    """`k_subset` on `SubsetRows` and their tilted log odds."""
    drawn = draw_given_sum(tf.transpose(log_odds), subset.count[:, 0], k, subset.lead, seed)
    return nan_rows(tf.transpose(drawn), subset)


def nan_rows(value, subset):
    """`value` with NaN in the rows of NaN logits, and zeros where the class is masked."""
    has_nan = tf.reduce_any(tf.math.is_nan(subset.logits), axis=-1, keepdims=True)
    return zero_masked(tf.where(has_nan, tf.cast(math.nan, value.dtype), value), subset.mask)


def k_subset_marginals(
    logits: TensorLike, k: int, class_mask: TensorLike | None = None, axis: int = -1
) -> tf.Tensor:
    """P(z_i = 1), the probability of each class to be among the k.

    Forward and gradient are exact; the Jacobian is the covariance of z.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        k: whole number from 1 to `num_classes - 1`.
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.

    Returns:
        Tensor of the shape and dtype of `logits` that sums to k along `axis`.

    Example:

    >>> tfc.relaxations.k_subset_marginals(tf.zeros([4]), k=1).numpy()
    array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    logits = tf.convert_to_tensor(logits)
    subset = prepare_subset(logits, k, class_mask, axis)
    return tf.cast(from_rows(marginal_rows(subset, k), logits, axis), logits.dtype)


def marginal_rows(subset, k):
    """`k_subset_marginals` on `SubsetRows`."""
    return zero_masked(marginals(tilt(subset), subset.count, k), subset.mask)


def k_subset_covariance(
    logits: TensorLike, k: int, class_mask: TensorLike | None = None
) -> tf.Tensor:
    """The covariance matrix of z, which is also the Jacobian of the marginals.

    Args:
        logits: float tensor `[..., num_classes]`.
        k: whole number from 1 to `num_classes - 1`.
        class_mask: boolean, broadcast against `logits`; True keeps the class.

    Returns:
        Tensor `[..., num_classes, num_classes]` of the dtype of `logits`.

    Example:

    >>> covariance = tfc.relaxations.k_subset_covariance(tf.zeros([3]), k=1)
    >>> np.round(covariance[0].numpy(), 4)
    array([ 0.2222, -0.1111, -0.1111], dtype=float32)
    """
    logits = tf.convert_to_tensor(logits)
    subset = prepare_subset(logits, k, class_mask)
    size = logits.shape[-1]
    log_odds, count = (tf.repeat(x, size, axis=0) for x in (tilt(subset), subset.count))
    units = tf.tile(tf.eye(size, dtype=log_odds.dtype), [tf.shape(subset.logits)[0], 1])
    matrix = covariance_product(log_odds, count, k, units)
    matrix = tf.reshape(matrix, tf.concat([tf.shape(logits), [size]], 0))
    matrix.set_shape(logits.shape.concatenate([size]))
    return tf.cast(matrix, logits.dtype)


def relaxed_k_subset(
    logits: TensorLike,
    k: int,
    temperature: TensorLike,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    seed: Seed = None,
) -> tf.Tensor:
    """A relaxed k-hot sample: the marginals of (logits + Gumbel) / temperature.

    For k = 1 this is `concrete`. As the temperature goes to 0 it goes to the k largest of
    logits + Gumbel.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        k: whole number from 1 to `num_classes - 1`.
        temperature: positive number or tensor that broadcasts against `logits`.
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        Tensor of the shape and dtype of `logits`, in [0, 1], that sums to k along `axis`.

    Example:

    >>> x = tfc.relaxations.relaxed_k_subset(tf.zeros([2, 5]), k=2, temperature=0.5, seed=0)
    >>> bool(tf.reduce_all((x > 0.0) & (x < 1.0)))
    True
    """
    logits = tf.convert_to_tensor(logits)
    subset = prepare_subset(logits, k, class_mask, axis)
    check_temperature(temperature, logits.shape)
    scores = gumbel_keys(subset, seed) * inverse_rows(
        temperature, logits, axis, subset.logits.dtype
    )
    # The noise and the temperature may have moved other classes to the k-th place.
    scores = from_rows(scores, logits, axis)
    subset = prepare_subset(scores, k, class_mask, axis)
    return tf.cast(from_rows(marginal_rows(subset, k), logits, axis), logits.dtype)


def k_subset_log_partition(
    logits: TensorLike, k: int, class_mask: TensorLike | None = None, axis: int = -1
) -> tf.Tensor:
    """log sum over all subsets z of k classes of exp(z . logits).

    The logarithm of the elementary symmetric polynomial of degree k of exp(logits).

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        k: whole number from 1 to `num_classes - 1`.
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.

    Returns:
        Tensor of the shape of `logits` without `axis`, at least float32. Its gradient is
        the marginals.

    Example:

    >>> log_count = tfc.relaxations.k_subset_log_partition(tf.zeros([5]), k=2)
    >>> round(float(tf.exp(log_count)), 4)
    10.0
    """
    logits = tf.convert_to_tensor(logits)
    law = _Law(logits, k, class_mask, axis)
    # z . logits - log p(z) of any subset z; of the likeliest, nothing cancels.
    hot = law.likeliest()
    score = tf.reduce_sum(tf.where(hot > 0.0, tf.cast(logits, hot.dtype), 0.0), axis=axis)
    return score - law.log_prob(hot)


def k_subset_log_prob(
    sample: TensorLike,
    k: int,
    logits: TensorLike,
    class_mask: TensorLike | None = None,
    axis: int = -1,
) -> tf.Tensor:
    """log p(z) = z . logits - log partition.

    Args:
        sample: float tensor `[..., num_classes]`, k-hot along `axis` (all kept classes
            where fewer than k are). This is not checked: of anything else the result is
            the linear extension.
        k: whole number from 1 to `num_classes - 1`.
        logits: float tensor that broadcasts against `sample`.
        class_mask: boolean, broadcast against `logits`; True keeps the class. What lies on
            a masked class has a log probability of -inf.
        axis: The class axis, counted from the end if `sample` has more dimensions.

    Returns:
        Tensor of the shape of `sample` without `axis`, at least float32.

    Example:

    >>> z = tf.constant([1.0, 0.0, 1.0])
    >>> log_prob = tfc.relaxations.k_subset_log_prob(z, 2, tf.zeros([3]))
    >>> round(float(tf.exp(log_prob)), 4)
    0.3333
    """
    logits = tf.convert_to_tensor(logits)
    log_prob = _Law(logits, k, class_mask, axis).log_prob(sample)
    if class_mask is None:
        return log_prob
    off = tf.logical_and(tf.logical_not(class_mask), tf.convert_to_tensor(sample) > 0.0)
    outside = tf.reduce_any(off, axis=axis)
    return tf.where(outside, tf.cast(-math.inf, log_prob.dtype), log_prob)


def k_subset_entropy(
    logits: TensorLike, k: int, class_mask: TensorLike | None = None, axis: int = -1
) -> tf.Tensor:
    """The entropy, -E[log p(z)], in nats.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        k: whole number from 1 to `num_classes - 1`.
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.

    Returns:
        Tensor of the shape of `logits` without `axis`, at least float32; log of the number
        of subsets at most.

    Example:

    >>> entropy = tfc.relaxations.k_subset_entropy(tf.zeros([5]), k=2)
    >>> round(float(tf.exp(entropy)), 4)
    10.0
    """
    logits = tf.convert_to_tensor(logits)
    law = _Law(logits, k, class_mask, axis)
    return -law.log_prob(*law.marginals())


def k_subset_kl(
    logits: TensorLike,
    other_logits: TensorLike,
    k: int,
    class_mask: TensorLike | None = None,
    axis: int = -1,
) -> tf.Tensor:
    """The Kullback-Leibler divergence between two laws on the same subsets.

    E[log p(z) - log other(z)], linear in z, is the same at the marginals of the first law.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        other_logits: float tensor that broadcasts against `logits`.
        k: whole number from 1 to `num_classes - 1`.
        class_mask: boolean, broadcast against both; True keeps the class.
        axis: The class axis, counted from the end if the two differ in rank.

    Returns:
        Tensor of the broadcast shape without `axis`, at least float32.

    Example:

    >>> logits = tf.constant([0.0, 1.0, 2.0])
    >>> abs(float(tfc.relaxations.k_subset_kl(logits, logits + 5.0, k=2))) < 1e-6
    True
    """
    logits = tf.convert_to_tensor(logits)
    law = _Law(logits, k, class_mask, axis)
    other = _Law(tf.convert_to_tensor(other_logits, logits.dtype), k, class_mask, axis)
    means = law.marginals()
    return law.log_prob(*means) - other.log_prob(*means)


class _Law:
    """The law of given logits, in their layout; all numbers at least float32."""

    def __init__(self, logits, k, class_mask, axis):
        self.subset = prepare_subset(logits, k, class_mask, axis)
        self.like, self.k, self.axis = logits, k, axis
        self.log_odds = tilt(self.subset)

    def _restore(self, rows):
        return from_rows(rows, self.like, self.axis)

    def marginals(self):
        """The probabilities to be taken and to be left."""
        pair = marginal_pair(self.log_odds, self.subset.count, self.k)
        return [self._restore(part) for part in pair]

    def likeliest(self):
        return self._restore(hot_rows(self.subset.logits, self.subset, self.k))

    def log_prob(self, sample, complement=None):
        """That of independent variables minus that of their sum; linear in the sample.

        `complement` is 1 - sample, where that has more digits.
        """
        log_p, log_q = (self._restore(part) for part in log_sigmoids(self.log_odds))
        log_sum = self._restore(log_mass(self.log_odds, self.subset.count, self.k))
        sample = tf.cast(sample, log_p.dtype)
        complement = 1.0 - sample if complement is None else complement
        terms = sample * log_p + complement * log_q
        return tf.reduce_sum(terms, axis=self.axis) - tf.squeeze(log_sum, self.axis)
