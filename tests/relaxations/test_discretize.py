"""Rounding and exact draws."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

from tests.grids import grid
from tfconcrete import relaxations
from tfconcrete.relaxations.discretize import argmax_and_codes


def test_ties_go_to_the_smallest_index():
    x = tf.constant([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [-0.0, 0.0, -1.0]])
    np.testing.assert_array_equal(relaxations.discretize(x), [[1, 0, 0], [1, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(relaxations.codes(x), [0, 0, 0])
    assert relaxations.codes(x).dtype == tf.int32


def test_no_gradient_passes():
    x = tf.Variable([[0.1, 0.7, 0.2]])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(relaxations.discretize(x) * [1.0, 2.0, 3.0])
    assert tape.gradient(loss, x) is None


MODES = {
    "eager": lambda function: function,
    "graph": lambda function: tf.function(function, autograph=False),
    "xla": lambda function: tf.function(function, autograph=False, jit_compile=True),
}
INF, NAN, BIG = np.inf, np.nan, 3e38


def plain(tensor):
    return tf.cast(tensor, tf.float64).numpy()


def reference(x, mask=None):
    """Codes and one-hot rows of `[rows, classes]`, by Python's own comparisons."""
    mask = np.ones(x.shape, bool) if mask is None else np.broadcast_to(mask, x.shape)
    found, hot = [], np.zeros(x.shape)
    for row, kept, out in zip(x, mask, hot, strict=True):
        classes = [k for k in range(len(row)) if kept[k]]
        if not classes:
            found.append(-1)
        elif any(np.isnan(row[k]) for k in classes):
            found.append(-1)
            out[classes] = np.nan
        else:
            found.append(max(classes, key=lambda k: (row[k], -k)))
            out[found[-1]] = 1.0
    return np.array(found), hot


ROWS = np.array(
    [
        [0.0, 1.0, 2.0, -1.0],
        [-0.0, 0.0, -1.0, -1.0],
        [NAN, 1.0, 2.0, 3.0],
        [3.0, 1.0, 2.0, NAN],
        [INF, 1.0, NAN, 0.0],
        [NAN] * 4,
        [-INF] * 4,
        [INF, INF, 0.0, -INF],
        [-INF, -BIG, BIG, INF],
        [-BIG, -2e9, -3e9, -INF],
        [2e9, 3e9, 2.5e9, 1e9],
        [1e38, BIG, 2e38, -BIG],
        [-INF, -INF, -INF, -1e38],
    ]
)
MASKS = np.array(
    [
        [True] * 4,
        [False] * 4,
        [True, False, True, True],
        [False, True, True, False],
        [False, False, False, True],
    ]
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_rounding_by_the_rule(mode, dtype):
    """NaN, infinities, logits up to the largest, signed zeros."""
    x = tf.cast(ROWS, dtype)
    found, hot = reference(plain(x))
    np.testing.assert_array_equal(plain(MODES[mode](relaxations.discretize)(x)), hot)
    np.testing.assert_array_equal(MODES[mode](relaxations.codes)(x), found)
    across = MODES[mode](lambda x: (relaxations.discretize(x, 0), relaxations.codes(x, 0)))
    np.testing.assert_array_equal(plain(across(tf.transpose(x))[0]), hot.T)
    np.testing.assert_array_equal(across(tf.transpose(x))[1], found)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_rounding_under_a_mask(mode, dtype):
    x = tf.cast(ROWS, dtype)
    run = MODES[mode](lambda x, mask: argmax_and_codes(x, -1, mask))
    for mask in MASKS:
        found, hot = reference(plain(x), mask)
        seen_hot, seen = run(x, tf.constant(mask))
        np.testing.assert_array_equal(seen, found)
        np.testing.assert_array_equal(plain(seen_hot), hot)
        assert seen.dtype == tf.int32 and seen_hot.dtype == x.dtype


@pytest.mark.parametrize("mode", MODES)
def test_one_hot_of_codes(mode):
    found = tf.constant([[0, 2, -1], [3, 1, -7]])
    run = MODES[mode](lambda c: relaxations.one_hot(c, 3, axis=1, dtype=tf.float16))
    expected = np.moveaxis(np.array([[0, 2, -1], [3, 1, -7]])[..., None] == np.arange(3), -1, 1)
    np.testing.assert_array_equal(run(found), expected)
    assert run(found).dtype == tf.float16
    types = {op.type for op in tf.function(run).get_concrete_function(found).graph.get_operations()}
    assert "OneHot" not in types


@pytest.mark.parametrize(
    ("mode", "num_classes", "dtype"),
    grid(
        MODES,
        [4, 63, 64, 65, 300],
        ["float32", "float64", "bfloat16"],
        quick=lambda mode, n, dtype: mode == "eager" or (n in (63, 64) and dtype == "float32"),
    ),
)
def test_draws_from_logits_that_are_no_ordinary_numbers(mode, num_classes, dtype):
    """NaN rows are NaN; a logit far ahead is always drawn; a row of -inf is uniform."""
    x = np.full([5, num_classes], -INF)
    x[0] = 0.0
    x[0, -1] = NAN
    x[1] = np.linspace(-BIG, BIG, num_classes)
    x[2] = np.linspace(-3e9, -2e9, num_classes)
    x[3, [1, -1]] = [INF, BIG / 2]
    draw = MODES[mode](lambda x, mask: relaxations.categorical(x, mask, seed=3))
    for mask in (None, tf.constant(np.arange(num_classes) >= num_classes // 2)):
        drawn = plain(draw(tf.cast(np.repeat(x[:, None], 2_000, 1), dtype), mask))
        kept = np.ones(num_classes, bool) if mask is None else mask.numpy()
        assert np.all(np.isnan(drawn[0][:, kept])) and not np.any(drawn[0][:, ~kept])
        assert not np.any(np.isnan(drawn[1:]))
        np.testing.assert_array_equal(drawn[1].argmax(-1), num_classes - 1)
        np.testing.assert_array_equal(drawn[2].argmax(-1), num_classes - 1)
        np.testing.assert_array_equal(drawn[3].argmax(-1), 1 if mask is None else num_classes - 1)
        counts = drawn[4].sum(0)
        assert counts[~kept].sum() == 0 and counts.sum() == 2_000
        assert scipy.stats.chisquare(counts[kept]).pvalue > 1e-5


@pytest.mark.parametrize("compiled", [False, True])
def test_draws_follow_the_softmax(compiled):
    """Chi-square over 400,000 draws of each of three rows of logits."""
    logits = np.array([[0.0, 0.0, 0.0, 0.0], [3.0, -1.0, 0.5, -4.0], [1e4, 1e4, -1e4, 9999.0]])
    draw = tf.function(
        lambda x: relaxations.categorical(tf.broadcast_to(x, [400_000, 3, 4]), seed=1),
        jit_compile=compiled,
    )
    counts = tf.reduce_sum(draw(tf.constant(logits, tf.float32)), 0).numpy()
    probs = scipy.special.softmax(logits, -1)
    for row in range(3):
        seen = probs[row] > 0
        assert np.all(counts[row][~seen] == 0)
        assert scipy.stats.chisquare(counts[row][seen], 400_000 * probs[row][seen]).pvalue > 1e-5


def test_draw_is_the_rounding_of_the_relaxed_sample():
    """The same seed: Proposition 1 (b) sample by sample."""
    logits = tf.constant(np.random.default_rng(0).normal(size=[100, 7]), tf.float32)
    soft = relaxations.concrete(logits, 0.5, seed=5)
    np.testing.assert_array_equal(
        relaxations.discretize(soft), relaxations.categorical(logits, seed=5)
    )


def test_mask_with_a_dominating_masked_logit():
    logits = tf.constant([1e4, 0.0, 0.0])
    mask = tf.constant([False, True, True])
    draws = relaxations.categorical(tf.broadcast_to(logits, [10_000, 3]), mask, seed=0)
    counts = tf.reduce_sum(draws, 0).numpy()
    assert counts[0] == 0
    assert abs(counts[1] - 5_000) < 5 * 50


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("num_classes", [63, 65, 997])
def test_draws_by_blocks_follow_the_softmax(num_classes, compiled):
    """Chi-square; 64 is where blocks begin, 65 and 997 leave their last block unfilled."""
    logits = np.random.default_rng(num_classes).normal(0, 2, num_classes).astype(np.float32)
    logits[-1] = logits.max()  # the last class must be there
    draw = tf.function(
        lambda x: relaxations.categorical(tf.broadcast_to(x, [20_000, num_classes]), seed=2),
        jit_compile=compiled,
    )
    draws = draw(logits).numpy()
    np.testing.assert_array_equal(draws.sum(-1), 1.0)
    expected = 20_000 * scipy.special.softmax(logits.astype(np.float64))
    counts, often = draws.sum(0), expected > 5
    observed = np.append(counts[often], counts[~often].sum())
    wanted = np.append(expected[often], expected[~often].sum())
    assert scipy.stats.chisquare(observed[wanted > 0], wanted[wanted > 0]).pvalue > 1e-5


def test_a_rare_block_is_drawn_as_often_as_it_should():
    """Classes alone in their block, from 1e-2 down to 1e-5, and one that underflows."""
    logits = np.full(100, -np.inf, np.float32)
    logits[[0, 10, 20, 30, 40]] = np.log([1, 1e-2, 1e-3, 1e-4, 1e-5])
    logits[50] = -150.0
    counts = np.zeros(100)
    for seed in range(10):
        draws = relaxations.categorical(tf.broadcast_to(logits, [40_000, 100]), seed=seed)
        counts += draws.numpy().sum(0)
    probs = scipy.special.softmax(logits.astype(np.float64))
    error = np.sqrt(400_000 * probs * (1 - probs))
    assert np.all(np.abs(counts - 400_000 * probs) <= 5 * error + 5 * (probs > 0))
    assert counts[probs < 1e-12].sum() == 0


def test_masks_reach_into_blocks():
    logits = np.zeros([2_000, 300], np.float32)
    logits[:, 7] = 1e4
    mask = np.arange(300) % 3 == 1
    mask[7] = False
    draws = relaxations.categorical(logits, mask, seed=0).numpy()
    np.testing.assert_array_equal(draws.sum(-1), 1.0)
    assert draws[:, ~mask].sum() == 0
    nothing = relaxations.categorical(logits[:2], np.zeros(300, bool), seed=0)
    np.testing.assert_array_equal(nothing, np.zeros([2, 300]))


@pytest.mark.parametrize("num_classes", grid([200, 32_000, 1_000_000], quick=lambda n: n > 200))
def test_many_classes_under_xla(num_classes):
    """They compile, and the draws of uniform classes are spread over all of them."""
    draw = tf.function(lambda x, seed: relaxations.categorical(x, seed=seed), jit_compile=True)
    logits = tf.zeros([20, num_classes])
    winners = np.concatenate(
        [draw(logits, tf.constant([3, i])).numpy().argmax(-1) for i in range(10)]
    )
    assert scipy.stats.kstest((winners + 0.5) / num_classes, "uniform").pvalue > 1e-4
