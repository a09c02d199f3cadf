"""KL divergences of TFP distributions: closed form, or Monte Carlo in log space."""

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfconcrete.objectives.kl import bin_concrete_density_kl, concrete_density_kl
from tfconcrete.relaxations import exp_concrete, logit_bin_concrete


def closed_form_kl(q, prior):
    """KL(q, prior) where TFP knows a formula for the two, else None."""
    try:
        return tfd.kl_divergence(q, prior)
    except NotImplementedError:
        return None


def monte_carlo_kl(q, prior, num_samples, seed):
    """Samples of q, and log q - log prior at each of them, whose mean is the KL.

    Relaxed variables that are close to a vertex have lost their logarithm, so that the
    prior's density cannot be read off the sample. Where q and prior are of one relaxed
    family both densities are taken in log space, of the same noise; a KL is the same in
    any coordinates.

    Args:
        q: TFP distribution.
        prior: TFP distribution of the same events.
        num_samples: Python int.
        seed: int32 `[2]` tensor.

    Returns:
        `(samples, log_ratios)`: `[num_samples, ...]` both, the second without the event.
    """
    if isinstance(q, tfd.Independent) and isinstance(prior, tfd.Independent):
        last = [tf.get_static_value(d.reinterpreted_batch_ndims) for d in (q, prior)]
        if last[0] is not None and last[0] == last[1]:
            samples, ratios = monte_carlo_kl(q.distribution, prior.distribution, num_samples, seed)
            return samples, tf.reduce_sum(ratios, list(range(-int(last[0]), 0)))
    both = _relaxed_parameters(q), _relaxed_parameters(prior)
    if all(both) and both[0][0] == both[1][0]:
        return _relaxed_samples(q, both[0], both[1], num_samples, seed)
    samples, log_q = q.experimental_sample_and_log_prob(num_samples, seed=seed)
    return samples, log_q - prior.log_prob(samples)


def _relaxed_parameters(d):
    """`(event rank, temperature, logits)` of a relaxed one-hot or binary variable."""
    if isinstance(d, tfd.RelaxedOneHotCategorical):
        return 1, d.temperature, d.distribution.logits_parameter()
    if isinstance(d, tfd.RelaxedBernoulli):
        return 0, d.temperature, d.logits_parameter()
    if getattr(d, "event_space", None) != "simplex" or not hasattr(d, "logits_parameter"):
        return None
    return d.event_shape.rank, d.temperature, d.logits_parameter()


def _relaxed_samples(q, q_parameters, prior_parameters, num_samples, seed):
    rank, q_temperature, q_logits = q_parameters
    _, prior_temperature, prior_logits = prior_parameters
    shape = tf.concat([[num_samples], q.batch_shape_tensor(), q.event_shape_tensor()], 0)
    logits = tf.broadcast_to(q_logits, shape)
    if rank == 0:
        y = logit_bin_concrete(logits, q_temperature, seed=seed)
        return tf.sigmoid(y), bin_concrete_density_kl(
            y, q_logits, prior_logits, q_temperature, prior_temperature
        )
    q_temperature = tf.convert_to_tensor(q_temperature)[..., tf.newaxis]
    prior_temperature = tf.convert_to_tensor(prior_temperature)[..., tf.newaxis]
    y = exp_concrete(logits, q_temperature, seed=seed)
    return tf.exp(y), concrete_density_kl(
        y, q_logits, prior_logits, q_temperature, prior_temperature
    )
