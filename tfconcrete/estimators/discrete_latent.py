"""What score-function estimators share: exact draws, their log q, and the objective's values.

A latent is everything in `logits` after the batch dimensions: independent categorical
variables with their classes along `axis`, or, with `axis=None`, independent binary units
with one logit each.
"""

import tensorflow as tf

from tfconcrete._checks import check_count, invalid_type, invalid_value
from tfconcrete._seeds import as_seed
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.noise import logistic
from tfconcrete.objectives.mass import bernoulli_log_mass, categorical_log_mass
from tfconcrete.relaxations.bin_concrete import prepare_binary_logits
from tfconcrete.relaxations.discretize import draw, step
from tfconcrete.relaxations.masking import prepare_logits, zero_masked


def prepare_latent(logits, class_mask, axis, batch_ndims):
    """Checks the arguments that describe a latent and brings its logits to working form.

    Returns:
        `(logits, mask, axis)`: at least float32 and finite; boolean of the same shape or
        None; the class axis counted from the end, or None for binary units.
    """
    batch_ndims = check_count(batch_ndims, "batch_ndims", minimum=0)
    if axis is None:
        working, mask = prepare_binary_logits(logits, class_mask)
    else:
        working, mask = prepare_logits(logits, class_mask, axis)
    rank = working.shape.rank
    if rank is None:
        raise invalid_value("logits", "a tensor of known rank", logits)
    if axis is not None:
        axis = axis - rank if axis >= 0 else axis
        if axis + rank < batch_ndims:
            raise invalid_value("axis", f"an axis after the {batch_ndims} batch dimensions", axis)
    elif rank < batch_ndims:
        raise ValueError(
            "Invalid value received for argument `logits`. Expected at least "
            f"{batch_ndims} batch dimensions. Received: logits of shape {tuple(working.shape)}"
        )
    return working, mask, axis


def sum_latent(value, rank, batch_ndims):
    """Sums over the dimensions after the batch, of `logits` of that rank."""
    return tf.reduce_sum(value, axis=list(range(batch_ndims - rank, 0)))


def latent_log_prob(sample, working, mask, axis, batch_ndims):
    """log q of exact samples `[..., *logits.shape]` under prepared logits: `[..., *batch]`."""
    if axis is None:
        terms, rank = bernoulli_log_mass(sample, working, mask), working.shape.rank
    else:
        terms, rank = categorical_log_mass(sample, working, mask, axis), working.shape.rank - 1
    return sum_latent(terms, rank, batch_ndims)


def sample_and_log_prob(
    logits: TensorLike,
    num_samples: int | None = None,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    batch_ndims: int = 1,
    seed: Seed = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Exact draws of a discrete latent, and the log probability of each.

    What a model with several stochastic layers calls once per layer: the sum of the log
    probabilities over the layers is the `log_q` of `reinforce_surrogate` and the others.

    Args:
        logits: float tensor `[*batch, ..., num_classes]`, the latent's variables and their
            classes after `batch_ndims` batch dimensions; with `axis=None`, `[*batch, ...]`.
        num_samples: If given, the results have this leading dimension.
        class_mask: boolean, broadcast against `logits`; True keeps the class. A masked
            binary unit is 0.
        axis: The class axis; None for binary units with one logit each.
        batch_ndims: How many leading dimensions of `logits` are the batch.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        `(sample, log_q)`. `sample`: one-hot along `axis` (or 0 and 1), of the shape of
        `logits` after `[num_samples]` where given, and of its dtype; no gradient passes.
        `log_q`: `[num_samples, *batch]`, at least float32, differentiable in `logits`.

    Example:

    >>> logits = tf.zeros([5, 2, 3])
    >>> sample, log_q = tfc.estimators.sample_and_log_prob(logits, num_samples=4, seed=0)
    >>> sample.shape, log_q.shape
    (TensorShape([4, 5, 2, 3]), TensorShape([4, 5]))
    """
    logits = tf.convert_to_tensor(logits)
    working, mask, axis = prepare_latent(logits, class_mask, axis, batch_ndims)
    seed = as_seed(seed)
    many = tf.stop_gradient(working)
    if num_samples is not None:
        num_samples = check_count(num_samples, "num_samples")
        many = tf.broadcast_to(many, tf.concat([[num_samples], tf.shape(working)], 0))
        many.set_shape([num_samples] + working.shape)
    if axis is None:
        noise = tf.cast(logistic(tf.shape(many), seed), many.dtype)
        sample = step(many + noise)
    else:
        sample = draw(many, axis, seed)
    sample = zero_masked(sample, mask)
    log_q = latent_log_prob(sample, working, mask, axis, batch_ndims)
    return tf.cast(sample, logits.dtype), log_q


def check_objective(objective):
    """A callable of a sample and its log probability."""
    if not callable(objective):
        raise invalid_type("objective", "a callable `(sample, log_q) -> values`", objective)
    return objective


def evaluate_objective(objective, sample, log_q):
    """The objective's values `[num_samples, *batch]`, in the dtype of `log_q`."""
    values = tf.convert_to_tensor(objective(sample, log_q))
    if not values.dtype.is_floating or not values.shape.is_compatible_with(log_q.shape):
        raise ValueError(
            "Invalid value received for argument `objective`. Expected a callable that "
            "returns one float per sample and example, [num_samples, *batch], here "
            f"{tuple(log_q.shape)}. Received: {values.dtype.name} values of shape "
            f"{tuple(values.shape)}"
        )
    return tf.cast(values, log_q.dtype)
