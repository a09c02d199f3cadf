"""Subsets of every kind of logits: k ones, masks, NaN rows, marginals, codes, gradients."""

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

import tfconcrete as tfc
from tests.properties.cases import HALF, cases, settings
from tests.properties.table import MODES

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
# Layers by their arguments: those of `HARD_LAYERS` give k-hot vectors.
HARD_LAYERS = {
    "exact": {},
    "gumbel": {"estimator": "gumbel"},
    "argmax": {"inference": "argmax"},
    "sample": {"inference": "sample"},
}
SOFT_LAYERS = {
    "exact_soft": {"hard": False},
    "gumbel_soft": {"estimator": "gumbel", "hard": False},
    "probs": {"inference": "probs"},
}
LAYERS = {**HARD_LAYERS, **SOFT_LAYERS}


def function_of(name, case, k):
    """`(logits, temperature, class_mask) -> subset` of a function."""

    def call(logits, temperature, mask):
        arguments = {"class_mask": mask, "axis": case.axis, "seed": case.seed}
        return {**HARD, **SOFT}[name](logits, k, temperature, **arguments)

    return call


def layer_of(name, case, k):
    """The same of a layer, whose temperature is one number."""
    options = LAYERS[name]
    temperature = float(np.ravel(case.temperature)[0]) if case.temperature.size else 1.0
    fixed = {"axis": case.axis, "dtype": case.dtype, "seed": case.seed % 2**31}
    layer = tfc.layers.SubsetSample(k, temperature, **options, **fixed)
    training = "inference" not in options
    return lambda logits, _, mask: layer(logits, class_mask=mask, training=training)


def rows_of(case, k):
    """Which rows hold a NaN, and how many classes each of them takes; classes last."""
    logits, kept = (np.moveaxis(x, case.axis, -1) for x in (case.logits, case.kept))
    is_nan = np.any(np.isnan(logits) & kept, -1)
    return logits, kept, is_nan, np.minimum(kept.sum(-1), k)


def examine(check, max_examples):
    """`check(case, share)` on drawn cases; `share` says how large k is."""
    drawn = hypothesis.given(case=cases(), share=st.floats(0.0, 1.0))
    settings(max_examples)(drawn(check))()


def examine_values(make, name, mode, max_examples):
    hard = name in HARD or name in HARD_LAYERS
    examine(lambda case, share: check_values(make, name, hard, case, share, mode), max_examples)


@pytest.mark.parametrize("name", [*HARD, *SOFT])
def test_a_few_values(name):
    examine_values(function_of, name, "eager", 8)


@pytest.mark.parametrize("name", LAYERS)
def test_a_few_of_a_layer(name):
    examine_values(layer_of, name, "eager", 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*HARD, *SOFT])
def test_many_values(name):
    examine_values(function_of, name, "eager", 150)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_many_of_a_layer(name):
    examine_values(layer_of, name, "eager", 60)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", "xla"])
@pytest.mark.parametrize("name", [*HARD, *SOFT])
def test_many_values_compiled(name, mode):
    examine_values(function_of, name, mode, 10)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", "xla"])
@pytest.mark.parametrize("name", LAYERS)
def test_many_of_a_layer_compiled(name, mode):
    examine_values(layer_of, name, mode, 5)


def test_a_few_of_the_law():
    examine(lambda case, share: check_law(case, share, "eager"), 10)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "max_examples"), [("eager", 100), ("graph", 10), ("xla", 10)])
def test_many_of_the_law(mode, max_examples):
    examine(lambda case, share: check_law(case, share, mode), max_examples)


def test_a_few_codes():
    examine(lambda case, share: check_codes_and_numbers(case, share), 10)


@pytest.mark.slow
def test_many_codes():
    examine(lambda case, share: check_codes_and_numbers(case, share), 200)


def check_values(make, name, hard, case, share, mode):
    size = case.logits.shape[case.axis]
    k = 1 + int(share * (size - 2))
    call = make(name, case, k)

    def run(logits, temperature, mask):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            output = call(logits, temperature, mask)
        return output, tape.gradient(output, logits)

    output, gradient = MODES[mode](run)(*case.tensors())
    assert output.dtype == tf.as_dtype(case.dtype) and output.shape == case.logits.shape
    value = np.moveaxis(tf.cast(output, tf.float64).numpy(), case.axis, -1)
    raw, kept, is_nan, count = rows_of(case, k)
    assert np.all(value[~kept] == 0.0)
    assert np.all(np.isnan(value[is_nan][kept[is_nan]]))
    value, kept, count = value[~is_nan], kept[~is_nan], count[~is_nan]
    assert np.all(np.isfinite(value))
    if hard:
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


def check_law(case, share, mode):
    """`KSubset`: k-hot samples, masses of at most 1, marginals that sum to k."""
    logits = np.moveaxis(case.logits, case.axis, -1)
    size = logits.shape[-1]
    k = 1 + int(share * (size - 2))

    def run(logits):
        law = tfc.distributions.KSubset(k, logits)
        sample = law.sample(2, seed=case.seed)
        return sample, law.log_prob(sample), law.marginals(), law.entropy(), law.mode()

    results = MODES[mode](run)(tf.cast(tf.constant(logits), case.dtype))
    assert {result.dtype for result in results} == {tf.as_dtype(case.dtype)}
    results = [tf.cast(result, tf.float64).numpy() for result in results]
    sample, log_prob, marginals, entropy, top = results
    batch, known = logits.shape[:-1], ~np.any(np.isnan(logits), -1)
    assert sample.shape == (2, *logits.shape) and marginals.shape == top.shape == logits.shape
    assert log_prob.shape == (2, *batch) and entropy.shape == batch
    for hot in (sample[0], sample[1], top):
        np.testing.assert_array_equal(np.isnan(hot).any(-1), ~known)
        assert set(np.unique(hot[known])) <= {0.0, 1.0}
        np.testing.assert_array_equal(hot[known].sum(-1), k)
    assert np.all(log_prob[:, known] < 1e-3) and not np.any(np.isnan(log_prob[:, known]))
    assert np.all(marginals[known] >= 0.0) and np.all(entropy[known] > -1e-2)
    tolerance = 0.02 * size if case.dtype in HALF else 1e-4
    np.testing.assert_allclose(marginals[known].sum(-1), k, atol=tolerance * k)


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
