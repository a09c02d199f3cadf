"""The discrete distribution behind a relaxed one, for TFP's distributions and ours."""

import math

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfconcrete._dtypes import cast_within
from tfconcrete._floors import log_floor
from tfconcrete.relaxations import codes

_DISCRETE = (tfd.OneHotCategorical, tfd.Bernoulli, tfd.Categorical)


def one_hot_categorical(logits, dtype):
    """The `tfd.OneHotCategorical` of finite logits, which stay finite in `dtype`.

    Where TFP has a logit of -inf, or a probability of 0, the log mass of every class is NaN.
    """
    return tfd.OneHotCategorical(logits=cast_within(logits, dtype), dtype=dtype)


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
    if hasattr(d, "discrete") and getattr(d, "event_space", "simplex") != "logit":
        return d.discrete()
    return None


def in_space_of(d, sample, dtype):
    """A sample of `rounded(d)` as an event of `d`, in `dtype`: its log where those are logs."""
    while isinstance(d, tfd.Independent):
        d = d.distribution
    sample = tf.cast(sample, dtype)
    if getattr(d, "event_space", None) != "log":
        return sample
    floor = tf.cast(log_floor(sample.dtype), dtype)
    # The logarithm of 1, or a NaN.
    return tf.where(sample == 0.0, floor, sample * 0.0)


def nan_where_unknown(d, sample):
    """A float sample of `d`, NaN where `d` is discrete and its parameters are NaN.

    TFP draws a class, and has a mode, whatever the parameters.
    """
    while isinstance(d, tfd.Independent):
        d = d.distribution
    if not isinstance(d, _DISCRETE):
        return sample
    is_nan = tf.math.is_nan(d.logits_parameter())
    if not isinstance(d, tfd.Bernoulli):
        is_one_hot = isinstance(d, tfd.OneHotCategorical)
        is_nan = tf.reduce_any(is_nan, axis=-1, keepdims=is_one_hot)
    return tf.where(is_nan, tf.constant(math.nan, sample.dtype), sample)


def class_indices(d, sample):
    """int32 codes of a float sample of the discrete distribution `d`; -1 where it is NaN."""
    while isinstance(d, tfd.Independent):
        d = d.distribution
    if isinstance(d, tfd.OneHotCategorical):
        return codes(tf.cast(sample, tf.float32))
    return tf.where(tf.math.is_nan(sample), -1, tf.cast(sample, tf.int32))
