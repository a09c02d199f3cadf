"""log q - log p of discrete variables and their relaxations (Concrete, Eq. 20-22; IGR, Eq. 19).

Every function returns one value for each variable, to be summed over the variables of a
latent. `density` and `mass` forms are estimates from one sample; the others expectations.
"""

import tensorflow as tf

from tfconcrete._checks import check_floating
from tfconcrete._dtypes import cast
from tfconcrete._typing import TensorLike
from tfconcrete.objectives.mass import bernoulli_log_mass, log_probs
from tfconcrete.relaxations.bin_concrete import logit_bin_concrete_log_prob
from tfconcrete.relaxations.concrete import exp_concrete_log_prob


def concrete_density_kl(
    log_sample: TensorLike,
    logits: TensorLike,
    prior_logits: TensorLike | None,
    temperature: TensorLike,
    prior_temperature: TensorLike | None = None,
    axis: int = -1,
) -> tf.Tensor:
    """log q(z) - log p(z) with Concrete densities, in log space (Eq. 20, 25).

    The only relaxed KL that makes the objective a lower bound of the relaxed model. It is
    the same number on the simplex and on its logarithm, where nothing underflows.

    Args:
        log_sample: float tensor `[..., num_classes]`, from `exp_concrete` with `logits` and
            `temperature`.
        logits: float tensor that broadcasts against it, the posterior's.
        prior_logits: likewise, the prior's.
        temperature: positive number, the posterior's.
        prior_temperature: positive number; by default `temperature`.
        axis: The class axis.

    Returns:
        Tensor of the shape of `log_sample` without `axis`.

    Example:

    >>> logits = tf.constant([1.0, 0.0, -1.0])
    >>> y = tfc.relaxations.exp_concrete(logits, 2 / 3, seed=0)
    >>> float(tfc.objectives.concrete_density_kl(y, logits, logits, 2 / 3))
    0.0
    """
    prior_temperature = temperature if prior_temperature is None else prior_temperature
    return exp_concrete_log_prob(
        log_sample, temperature, logits, axis=axis
    ) - exp_concrete_log_prob(log_sample, prior_temperature, prior_logits, axis=axis)


def categorical_mass_kl(
    sample: TensorLike, logits: TensorLike, prior_logits: TensorLike | None, axis: int = -1
) -> tf.Tensor:
    """sum_i z_i (log Q_i - log P_i), the relaxed log mass ratio (Eq. 21).

    Exact for a one-hot sample; not the KL of anything for a relaxed one.

    Args:
        sample: float tensor `[..., num_classes]` on the simplex along `axis`.
        logits, prior_logits: float tensors that broadcast against it.
        axis: The class axis.

    Returns:
        Tensor of the shape of `sample` without `axis`.

    Example:

    >>> ratio = tfc.objectives.categorical_mass_kl(
    ...     tf.constant([1.0, 0.0]), tf.math.log([0.5, 0.5]), tf.math.log([0.25, 0.75])
    ... )
    >>> round(float(ratio), 4)
    0.6931
    """
    ratio = log_probs(logits, axis=axis) - log_probs(prior_logits, axis=axis)
    return tf.reduce_sum(cast(sample, ratio.dtype) * ratio, axis=axis)


def categorical_kl(
    logits: TensorLike, prior_logits: TensorLike | None, axis: int = -1
) -> tf.Tensor:
    """KL(Q, P) = sum_i Q_i (log Q_i - log P_i) of the discrete variables (Eq. 22).

    Args:
        logits: float tensor `[..., num_classes]`, of Q.
        prior_logits: float tensor that broadcasts against it, of P.
        axis: The class axis.

    Returns:
        Tensor of the common shape without `axis`.

    Example:

    >>> kl = tfc.objectives.categorical_kl(tf.constant([50.0, 0.0]), tf.zeros([2]))
    >>> round(float(kl), 4)
    0.6931
    """
    log_q = log_probs(logits, axis=axis)
    return tf.reduce_sum(tf.exp(log_q) * (log_q - log_probs(prior_logits, axis=axis)), axis=axis)


def bin_concrete_density_kl(
    logit_sample: TensorLike,
    logits: TensorLike,
    prior_logits: TensorLike | None,
    temperature: TensorLike,
    prior_temperature: TensorLike | None = None,
) -> tf.Tensor:
    """`concrete_density_kl` of Binary Concrete variables, on their logits (Eq. 27).

    Args:
        logit_sample: float tensor, from `logit_bin_concrete`.
        logits, prior_logits: float tensors that broadcast against it, log odds of 1.
        temperature: positive number, the posterior's.
        prior_temperature: positive number; by default `temperature`.

    Returns:
        Tensor of the shape of `logit_sample`.

    Example:

    >>> y = tfc.relaxations.logit_bin_concrete(tf.zeros([3]), 0.5, seed=0)
    >>> tfc.objectives.bin_concrete_density_kl(y, 0.0, 0.0, 0.5).numpy()
    array([0., 0., 0.], dtype=float32)
    """
    prior_temperature = temperature if prior_temperature is None else prior_temperature
    return logit_bin_concrete_log_prob(
        logit_sample, temperature, logits
    ) - logit_bin_concrete_log_prob(logit_sample, prior_temperature, prior_logits)


def bernoulli_mass_kl(
    sample: TensorLike, logits: TensorLike, prior_logits: TensorLike | None
) -> tf.Tensor:
    """z log(Q/P) + (1 - z) log((1-Q)/(1-P)), Eq. 21 of binary variables.

    Args:
        sample: float tensor in [0, 1].
        logits, prior_logits: float tensors that broadcast against it, log odds of 1.

    Returns:
        Tensor of the common shape.

    Example:

    >>> float(tfc.objectives.bernoulli_mass_kl(tf.constant(1.0), 2.0, 2.0))
    0.0
    """
    return bernoulli_log_mass(sample, logits) - bernoulli_log_mass(sample, prior_logits)


def bernoulli_kl(logits: TensorLike, prior_logits: TensorLike | None) -> tf.Tensor:
    """KL(Q, P) of binary variables (Eq. 22).

    Args:
        logits, prior_logits: float tensors that broadcast, log odds of 1.

    Returns:
        Tensor of the common shape.

    Example:

    >>> round(float(tfc.objectives.bernoulli_kl(tf.constant(50.0), tf.constant(0.0))), 4)
    0.6931
    """
    check_floating(logits, "logits")
    return bernoulli_mass_kl(tf.sigmoid(tf.convert_to_tensor(logits)), logits, prior_logits)


def gaussian_density_kl(
    sample: TensorLike,
    loc: TensorLike,
    log_scale: TensorLike,
    prior_loc: TensorLike = 0.0,
    prior_log_scale: TensorLike = 0.0,
) -> tf.Tensor:
    """log q(y) - log p(y) of one sample y of N(loc, scale), for each coordinate.

    What a bound of several samples needs in place of `gaussian_kl` (IGR, Eq. 14).

    Args:
        sample: float tensor, y of IGR's Eq. 16.
        loc, log_scale, prior_loc, prior_log_scale: as in `gaussian_kl`.

    Returns:
        Tensor of the common shape.

    Example:

    >>> float(tfc.objectives.gaussian_density_kl(tf.constant(0.3), 0.0, 0.0))
    0.0
    """
    sample = tf.convert_to_tensor(sample)
    loc, log_scale, prior_loc, prior_log_scale = (
        cast(value, sample.dtype) for value in (loc, log_scale, prior_loc, prior_log_scale)
    )
    standard = (sample - loc) * tf.exp(-log_scale)
    prior_standard = (sample - prior_loc) * tf.exp(-prior_log_scale)
    return prior_log_scale - log_scale + 0.5 * (tf.square(prior_standard) - tf.square(standard))
