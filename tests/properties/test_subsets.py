"""Subsets of every kind of logits: k ones, masks, NaN rows, marginals, codes, gradients."""

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

import tfconcrete as tfc
from tests.properties.cases import HALF, cases, settings

e, r = tfc.estimators, tfc.relaxations

HARD = {
    "k_subset": lambda x, k, t, **kw: r.k_subset(x, k, **kw),
    "straight_through_k_subset": lambda x, k, t, **kw: e.straight_through_k_subset(x, k, **kw),
    "straight_through_gumbel_top_k": e.straight_through_gumbel_top_k,
    "top_k_hot": lambda x, k, t, class_mask, axis, seed: r.top_k_hot(x, k, axis, class_mask),
}
SOFT = {
    "k_subset_marginals": lambda x, k, t, class_mask, axis, seed: r.k_subset_marginals(
        x, k, class_mask, axis
    ),
    "relaxed_k_subset": r.relaxed_k_subset,
    "relaxed_top_k": r.relaxed_top_k,
}


def rows_of(case, k):
    """Which rows hold a NaN, and how many classes each of them takes; classes last."""
    logits, kept = (np.moveaxis(x, case.axis, -1) for x in (case.logits, case.kept))
    is_nan = np.any(np.isnan(logits) & kept, -1)
    return logits, kept, is_nan, np.minimum(kept.sum(-1), k)


def examine(check, max_examples):
    """`check(case, share)` on drawn cases; `share` says how large k is."""
    drawn = hypothesis.given(case=cases(), share=st.floats(0.0, 1.0))
    settings(max_examples)(drawn(check))()


@pytest.mark.parametrize("name", [*HARD, *SOFT])
def test_a_few_values(name):
    examine(lambda case, share: check_values(name, case, share), 8)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*HARD, *SOFT])
def test_many_values(name):
    examine(lambda case, share: check_values(name, case, share), 150)


def test_a_few_codes():
    examine(lambda case, share: check_codes_and_numbers(case, share), 10)


@pytest.mark.slow
def test_many_codes():
    examine(lambda case, share: check_codes_and_numbers(case, share), 200)


def check_values(name, case, share):
    size = case.logits.shape[case.axis]
    k = 1 + int(share * (size - 2))
    logits, temperature, mask = case.tensors()
    function = {**HARD, **SOFT}[name]
    arguments = {"class_mask": mask, "axis": case.axis, "seed": case.seed}
    with tf.GradientTape() as tape:
        tape.watch(logits)
        output = function(logits, k, temperature, **arguments)
    assert output.dtype == logits.dtype and output.shape == logits.shape
    gradient = tape.gradient(output, logits)
    value = np.moveaxis(tf.cast(output, tf.float64).numpy(), case.axis, -1)
    raw, kept, is_nan, count = rows_of(case, k)
    assert np.all(value[~kept] == 0.0)
    assert np.all(np.isnan(value[is_nan][kept[is_nan]]))
    value, kept, count = value[~is_nan], kept[~is_nan], count[~is_nan]
    assert np.all(np.isfinite(value))
    if name in HARD:
        assert set(np.unique(value)) <= {0.0, 1.0}
        np.testing.assert_array_equal(value.sum(-1), count)
    else:
        assert np.all(value >= 0.0)
        tolerance = 0.02 * size if case.dtype in HALF else 1e-4
        np.testing.assert_allclose(value.sum(-1), count, atol=tolerance * max(k, 1))
        forced = kept.sum(-1) <= k
        np.testing.assert_array_equal(value[forced], kept[forced])
    if gradient is not None:
        gradient = np.moveaxis(tf.cast(gradient, tf.float64).numpy(), case.axis, -1)
        finite = np.isfinite(raw) | ~np.moveaxis(case.kept, case.axis, -1)
        assert np.all(gradient[~np.moveaxis(case.kept, case.axis, -1)] == 0.0)
        good = ~is_nan & np.all(finite, -1)
        assert np.all(np.isfinite(gradient[good]))


def check_codes_and_numbers(case, share):
    size = case.logits.shape[case.axis]
    k = 1 + int(share * (size - 2))
    logits, _, mask = case.tensors()
    codes = r.top_k_codes(logits, k, case.axis, mask)
    hot = r.top_k_hot(logits, k, case.axis, mask)
    rebuilt = r.k_hot(codes, size, case.axis, hot.dtype)
    found = np.moveaxis(codes.numpy(), case.axis, -1)
    raw, kept, is_nan, count = rows_of(case, k)
    np.testing.assert_array_equal((found >= 0).sum(-1), np.where(is_nan, 0, count))
    plain = tf.cast(hot, tf.float64).numpy()
    np.testing.assert_array_equal(
        tf.cast(rebuilt, tf.float64), np.where(np.isnan(plain), 0.0, plain)
    )
    for row, classes in zip(raw[~is_nan], found[~is_nan], strict=True):
        chosen = row[classes[classes >= 0]]
        assert np.all(chosen[:-1] >= chosen[1:])
        assert len(set(classes[classes >= 0])) == np.sum(classes >= 0)
    entropy = r.k_subset_entropy(logits, k, mask, case.axis).numpy()
    log_prob = r.k_subset_log_prob(hot, k, logits, mask, case.axis).numpy()
    assert entropy.dtype == (np.float64 if case.dtype == "float64" else np.float32)
    assert np.all(np.isnan(entropy) == is_nan)
    assert np.all(entropy[~is_nan] > -1e-3)
    assert np.all(log_prob[~is_nan] < 1e-3) and np.all(np.isfinite(log_prob[~is_nan]))
    assert np.all(log_prob[~is_nan] > -np.log(2.0) * size - 1e-2)
