"""What holds for every sampler and every case."""

import numpy as np
import tensorflow as tf

from tests.properties.cases import HALF
from tests.properties.table import MODES

TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-6}


def plain(tensor):
    return tf.cast(tensor, tf.float64).numpy()


def run(subject, case, mode):
    """The sample, and the gradient of its sum with random weights, as tensors."""
    upstream = np.random.default_rng(case.seed % 2**32).normal(size=case.logits.shape)
    upstream = tf.cast(tf.constant(upstream), case.dtype)
    call = subject.bind(case)

    def both(logits, temperature, mask):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            sample = call(logits, temperature, mask)
        return sample, tape.gradient(sample, logits, output_gradients=upstream)

    return MODES[mode](both)(*case.tensors())


def check(subject, case, mode):
    """Shape, dtype, support, masks, NaN and gradients of one case."""
    sample, gradient = run(subject, case, mode)
    check_sample(subject, case, sample)
    check_gradient(subject, case, gradient)


def unknown_entries(subject, case):
    """The kept entries that a NaN of the logits makes NaN."""
    unknown = np.isnan(case.logits) & case.kept
    return unknown if subject.binary else row_of(unknown, case) & case.kept


def check_sample(subject, case, sample):
    assert sample.shape == case.logits.shape
    assert sample.dtype == tf.as_dtype(case.dtype)
    values, kept = plain(sample), case.kept
    unknown = unknown_entries(subject, case)
    np.testing.assert_array_equal(np.isnan(values), unknown)
    assert np.all(np.isfinite(values[~unknown]))
    check_support(subject, case, values, kept, unknown)


def check_gradient(subject, case, gradient):
    if not subject.gradient:
        assert gradient is None
        return
    assert gradient.shape == case.logits.shape
    slope = plain(gradient)
    np.testing.assert_array_equal(slope[~case.kept], 0.0)
    # A derivative of 1 / temperature has no room in half precision below 1e-3.
    if case.dtype not in HALF or case.temperature.size and case.temperature.min() > 1e-3:
        unknown = row_of(unknown_entries(subject, case), case)
        assert np.all(np.isfinite(slope[~unknown]))


def row_of(unknown, case):
    """The entries of rows in which something is unknown, masked classes included."""
    if case.axis is None:
        return unknown
    return np.broadcast_to(np.any(unknown, case.axis, keepdims=True), unknown.shape)


def check_support(subject, case, values, kept, unknown):
    known = kept & ~unknown
    if subject.kind == "line":
        np.testing.assert_array_equal(values[~kept], 0.0)
        return
    if subject.kind == "log_simplex":
        assert np.all(values <= TOLERANCE[case.dtype] * 10) or unknown.any()
        values = np.exp(values)
    np.testing.assert_array_equal(values[~kept], 0.0)
    inside = values[known]
    slack = 0.0 if subject.kind in ("one_hot", "bits") else TOLERANCE[case.dtype]
    assert np.all((inside >= 0.0) & (inside <= 1.0 + slack))
    if subject.kind in ("one_hot", "bits"):
        assert np.all((inside == 0.0) | (inside == 1.0))
    if subject.binary:
        check_sure_bits(case, values, known)
        return
    rows_known = np.any(known, case.axis)
    total = np.sum(np.where(unknown, 0.0, values), case.axis)
    bound = 0.0 if subject.kind == "one_hot" else TOLERANCE[case.dtype]
    if subject.kind == "log_simplex":
        # A rounded logarithm is off by its own rounding.
        bound *= 10
    np.testing.assert_allclose(total, np.where(rows_known, 1.0, 0.0), atol=bound)
    if subject.kind == "one_hot":
        check_sure_classes(case, values, known)


def check_sure_classes(case, values, known):
    """Nothing is drawn that is a hundred below the largest kept logit."""
    logits = np.where(known, case.logits, -np.inf)
    bounded = np.clip(logits, -1.7e308, 1.7e308)
    top = np.max(bounded, case.axis, keepdims=True)
    hopeless = known & (bounded / 2 < top / 2 - 50.0)
    # An infinite logit counts as the largest finite one of its dtype.
    limit = float(tf.as_dtype(case.dtype).max)
    hopeless &= ~(np.abs(logits) >= limit * 0.999)
    assert not np.any(values[hopeless])


def check_sure_bits(case, values, known):
    if np.all(case.temperature <= 1.0):
        assert np.all(values[known & (case.logits > 200.0)] > 0.99)
        assert np.all(values[known & (case.logits < -200.0)] < 0.01)
