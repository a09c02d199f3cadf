"""Straight-through estimators for subsets of exactly k classes."""

import tensorflow as tf

from tfconcrete._checks import check_temperature
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.relaxations.conditional_bernoulli import covariance_product, tilt
from tfconcrete.relaxations.k_subset import draw_rows
from tfconcrete.relaxations.masking import zero_masked
from tfconcrete.relaxations.subset_rows import from_rows, inverse_rows, prepare_subset
from tfconcrete.relaxations.top_k import gumbel_keys, hot_rows, relax_rows


def straight_through_k_subset(
    logits: TensorLike,
    k: int,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    seed: Seed = None,
) -> tf.Tensor:
    """A k-hot draw that is differentiated as its exact marginals: SIMPLE.

    Forward: z, an exact draw with p(z) proportional to exp(z . logits) on {sum z = k}.
    Backward: the gradient of the marginals P(z_i = 1), Cov(z) applied to the incoming one,
    whatever was drawn.
    Bias: none for linear objectives.

    Reference: K. Ahmed, Z. Zeng, M. Niepert, G. Van den Broeck, "SIMPLE: A Gradient
    Estimator for k-Subset Sampling", ICLR 2023.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        k: whole number from 1 to `num_classes - 1`.
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        Tensor of the shape and dtype of `logits`, k ones along `axis`; where fewer than k
        classes are kept, these.

    Example:

    >>> logits = tf.Variable([0.0, 1.0, 2.0, 3.0])
    >>> with tf.GradientTape() as tape:
    ...     z = tfc.estimators.straight_through_k_subset(logits, k=2, seed=0)
    ...     loss = tf.reduce_sum(z * [1.0, 2.0, 3.0, 4.0])
    >>> float(tf.reduce_sum(z)), tape.gradient(loss, logits).shape
    (2.0, TensorShape([4]))
    """
    logits = tf.convert_to_tensor(logits)
    subset = prepare_subset(logits, k, class_mask, axis)
    log_odds = tf.stop_gradient(tilt(subset))
    drawn = draw_rows(subset, log_odds, k, seed)

    @tf.custom_gradient
    def estimate(rows):
        def backward(upstream):
            return covariance_product(log_odds, subset.count, k, upstream)

        return tf.identity(drawn), backward

    hard = zero_masked(estimate(subset.logits), subset.mask)
    return tf.cast(from_rows(hard, logits, axis), logits.dtype)


def straight_through_gumbel_top_k(
    logits: TensorLike,
    k: int,
    temperature: TensorLike,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    seed: Seed = None,
) -> tf.Tensor:
    """A k-hot draw without replacement, differentiated as Xie & Ermon's relaxation of it.

    Forward: the k largest of logits + Gumbel, that is k classes drawn one after another
    from softmax(logits) without replacement. For k > 1 this is not the law of `k_subset`.
    Backward: the gradient of `relaxations.relaxed_top_k`, same noise.
    Bias: less at low temperatures, where the variance grows.

    Reference: S. M. Xie, S. Ermon, "Reparameterizable Subset Sampling via Continuous
    Relaxations", IJCAI 2019.

    Args:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        k: whole number from 1 to `num_classes - 1`.
        temperature: positive number, or tensor that broadcasts against `logits`. It gets no
            gradient.
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        axis: The class axis.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        Tensor of the shape and dtype of `logits`, k ones along `axis`; where fewer than k
        classes are kept, these.

    Example:

    >>> z = tfc.estimators.straight_through_gumbel_top_k(tf.zeros([4, 5]), 2, 0.5, seed=0)
    >>> tf.reduce_sum(z, -1).numpy()
    array([2., 2., 2., 2.], dtype=float32)
    """
    logits = tf.convert_to_tensor(logits)
    subset = prepare_subset(logits, k, class_mask, axis)
    check_temperature(temperature, logits.shape)
    sharpness = inverse_rows(temperature, logits, axis, subset.logits.dtype)

    @tf.custom_gradient
    def estimate(keys):
        def backward(upstream):
            with tf.GradientTape() as tape:
                tape.watch(keys)
                relaxed = relax_rows(keys, subset, k, sharpness)
            return tape.gradient(relaxed, keys, output_gradients=upstream)

        return hot_rows(keys, subset, k), backward

    hard = zero_masked(estimate(gumbel_keys(subset, seed)), subset.mask)
    return tf.cast(from_rows(hard, logits, axis), logits.dtype)
