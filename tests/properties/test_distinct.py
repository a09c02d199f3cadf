"""Choices in turn, no class twice, for every kind of logits."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import tfconcrete as tfc
from tests.properties.cases import DTYPES, HALF, SCALES, SPECIALS, settings
from tests.properties.laws import TOLERANCE, plain
from tests.properties.table import MODES

r = tfc.relaxations


@st.composite
def tables(draw):
    """Logits `[k, num_classes]`, often with one favourite that all rows want."""
    num_classes = draw(st.sampled_from((2, 3, 5, 63, 64, 65)))
    k = draw(st.integers(1, min(num_classes, 5)))
    dtype = draw(st.sampled_from(DTYPES))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    logits = rng.normal(size=[k, num_classes]) * draw(st.sampled_from(SCALES))
    specials = draw(st.sampled_from(SPECIALS))
    if specials:
        chosen = rng.choice(np.array(specials), size=logits.shape)
        logits = np.where(
            rng.random(logits.shape) < draw(st.sampled_from((0.1, 0.9))), chosen, logits
        )
    if draw(st.booleans()):
        logits[:, 0] = draw(st.sampled_from((1e8, 3e38, np.inf)))
    finite = np.clip(logits, -3e38, 3e38) if dtype != "float64" else logits
    logits = plain(tf.cast(np.where(np.isfinite(logits), finite, logits), dtype))
    return logits, dtype, 10.0 ** draw(st.floats(-6.0, 6.0)), draw(st.integers(0, 2**31 - 1))


def examine(mode, max_examples):
    @settings(max_examples)
    @given(tables())
    def holds(drawn):
        values, dtype, temperature, seed = drawn

        def run(logits, temperature):
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(logits)
                hard = r.distinct_concrete(logits, temperature, hard=True, seed=seed)
                soft = r.distinct_concrete(logits, temperature, seed=seed)
            weights = tf.cast(np.random.default_rng(seed).normal(size=values.shape), dtype)
            gradients = [tape.gradient(x, logits, output_gradients=weights) for x in (hard, soft)]
            return r.distinct_argmax(logits), hard, soft, *gradients

        logits = tf.cast(tf.constant(values), dtype)
        results = MODES[mode](run)(logits, tf.constant(temperature, tf.float32))
        assert all(x.shape == values.shape and x.dtype == logits.dtype for x in results)
        top, hard, soft, *gradients = map(plain, results)
        known = ~np.isnan(values).any(-1)
        for rows in (top, hard, soft):
            np.testing.assert_array_equal(np.isnan(rows).all(-1), ~known)
            assert not np.any(np.isnan(rows[known]))
        for rows, slack in ((top[known], 0.0), (hard[known], 50.0)):
            assert set(np.unique(rows)) <= {0.0, 1.0}
            np.testing.assert_array_equal(rows.sum(-1), 1.0)
            assert np.all(rows.sum(0) <= 1.0)
            check_order(values[known], rows, dtype, slack)
        assert np.all(soft[known] >= 0.0)
        np.testing.assert_allclose(soft[known].sum(-1), 1.0, atol=TOLERANCE[dtype])
        taken = np.cumsum(hard[known], 0) - hard[known]
        np.testing.assert_array_equal(soft[known][taken > 0.0], 0.0)
        for gradient in gradients:
            np.testing.assert_array_equal(gradient[known][taken > 0.0], 0.0)
            if dtype not in HALF or temperature > 1e-3:
                assert np.all(np.isfinite(gradient[known]))

    holds()


def check_order(logits, rows, dtype, slack):
    """Each row takes a class within `slack` of the largest that is left."""
    limit = float(tf.as_dtype(dtype).max)
    bounded = np.clip(logits, -limit, limit)
    left = np.ones(logits.shape[-1], bool)
    for row, hot in zip(bounded, rows, strict=True):
        code = int(hot.argmax())
        assert row[code] / 2 >= row[left].max() / 2 - slack
        left[code] = False


def test_a_few():
    examine("eager", 30)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "max_examples"), [("eager", 300), ("graph", 30), ("xla", 30)])
def test_many(mode, max_examples):
    examine(mode, max_examples)
