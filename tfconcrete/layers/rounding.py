"""The discrete distribution behind a relaxed one, for TFP's distributions and ours."""

import tensorflow as tf
import tensorflow_probability as tfp

from tfconcrete.layers.kl import is_log, is_real
from tfconcrete.relaxations import codes
from tfconcrete.relaxations.masking import log_floor

tfd = tfp.distributions

_DISCRETE = (tfd.OneHotCategorical, tfd.Bernoulli, tfd.Categorical)


def rounded(d):
    """The distribution that rounding a sample of `d` gives, or None where none does."""
    if isinstance(d, tfd.Independent):
        inner = rounded(d.distribution)
        return None if inner is None else tfd.Independent(inner, d.reinterpreted_batch_ndims)
    if isinstance(d, _DISCRETE):
        return d
    if isinstance(d, tfd.RelaxedOneHotCategorical):
        logits = d.distribution.logits_parameter()
        return tfd.OneHotCategorical(logits=logits, dtype=d.dtype)
    if isinstance(d, tfd.RelaxedBernoulli):
        return tfd.Bernoulli(logits=d.logits_parameter(), dtype=d.dtype)
    if hasattr(d, "discrete") and not is_real(d):
        return d.discrete()
    return None


def in_space_of(d, sample, dtype):
    """A sample of `rounded(d)` as an event of `d`, in `dtype`: its log where those are logs."""
    while isinstance(d, tfd.Independent):
        d = d.distribution
    sample = tf.cast(sample, dtype)
    if not is_log(d):
        return sample
    return tf.where(sample > 0, tf.zeros_like(sample), tf.cast(log_floor(sample.dtype), dtype))


def class_indices(d, sample):
    """int32 codes of a sample of the discrete distribution `d`."""
    while isinstance(d, tfd.Independent):
        d = d.distribution
    if isinstance(d, tfd.OneHotCategorical):
        return codes(sample)
    return tf.cast(sample, tf.int32)
