"""The k largest entries and Xie & Ermon's relaxation, against NumPy transcriptions."""

import numpy as np
import pytest
import tensorflow as tf

from tests.grids import grid
from tfconcrete import noise
from tfconcrete import relaxations as r
from tfconcrete.relaxations import successive_softmax

NAN, INF, BIG = np.nan, np.inf, 3e38
MODES = {
    "eager": lambda function: function,
    "graph": lambda function: tf.function(function, autograph=False),
    "xla": lambda function: tf.function(function, autograph=False, jit_compile=True),
}
ROWS = np.array(
    [
        [0.0, 1.0, 2.0, -1.0, 0.5],
        [-0.0, 0.0, -1.0, 0.0, -0.0],
        [1.0, 2.0, 2.0, 2.0, 1.0],
        [NAN, 1.0, 2.0, 3.0, 4.0],
        [INF, INF, 0.0, -INF, INF],
        [-INF] * 5,
        [-INF, -BIG, BIG, INF, -1e38],
        [NAN] * 5,
    ]
)
MASKS = np.array(
    [
        [True] * 5,
        [False] * 5,
        [True, False, True, True, False],
        [False, True, False, False, True],
        [False, False, False, True, False],
    ]
)


def reference(x, k, mask):
    """Codes and k-hot rows by Python's own sort."""
    found, hot = np.full([len(x), k], -1), np.zeros(x.shape)
    for row, codes, out in zip(x, found, hot, strict=True):
        kept = [i for i in range(len(row)) if mask[i]]
        if any(np.isnan(row[i]) for i in kept):
            out[kept] = NAN
            continue
        order = sorted(kept, key=lambda i: (-row[i], i))[:k]
        codes[: len(order)] = order
        out[order] = 1.0
    return found, hot


@pytest.mark.parametrize(
    ("mode", "dtype"),
    grid(
        MODES,
        ["float16", "bfloat16", "float32", "float64"],
        quick=lambda mode, dtype: mode == "eager" or dtype == "float32",
    ),
)
def test_the_rule(mode, dtype):
    x = tf.cast(ROWS, dtype)
    plain = tf.cast(x, tf.float64).numpy()
    for k in (1, 2, 4):
        run = MODES[mode](
            lambda x, mask, k=k: (
                r.top_k_hot(x, k, class_mask=mask),
                r.top_k_codes(x, k, class_mask=mask),
            )
        )
        for mask in MASKS:
            codes, hot = reference(plain, k, mask)
            seen_hot, seen = run(x, tf.constant(mask))
            np.testing.assert_array_equal(seen, codes)
            np.testing.assert_array_equal(tf.cast(seen_hot, tf.float64), hot)
            assert seen.dtype == tf.int32 and seen_hot.dtype == x.dtype
            rebuilt = r.k_hot(seen, 5)
            np.testing.assert_array_equal(rebuilt, np.nan_to_num(hot, nan=0.0))
        codes, hot = reference(plain, k, MASKS[0])
        np.testing.assert_array_equal(r.top_k_codes(tf.transpose(x), k, axis=0), codes.T)
        np.testing.assert_array_equal(r.top_k_codes(x, k), codes)


def test_k_hot_along_an_axis():
    codes = tf.constant([[[0, 3], [2, -1], [2, 9]]])
    hot = r.k_hot(codes, 4, axis=1, dtype=tf.float16)
    assert hot.shape == [1, 4, 2] and hot.dtype == tf.float16
    np.testing.assert_array_equal(hot[0, :, 0], [1, 0, 1, 0])
    np.testing.assert_array_equal(hot[0, :, 1], [0, 0, 0, 1])


def transcription(keys, k, temperature):
    """Algorithm 2 of the paper, as printed, on keys that are given."""
    result = tf.zeros_like(keys)
    for _ in range(k):
        a = tf.nn.softmax(keys / temperature)
        result += a
        keys += tf.math.log(1.0 - a)
    return result


@pytest.mark.parametrize("mode", grid(MODES, quick=lambda mode: mode != "graph"))
@pytest.mark.parametrize(("k", "temperature"), [(1, 0.5), (2, 0.3), (5, 1.0), (8, 3.0)])
def test_relaxation_and_gradient_are_the_papers(mode, k, temperature):
    rng = np.random.default_rng(0)
    logits, upstream = (tf.constant(rng.normal(size=[6, 9])) for _ in range(2))
    gumbel = tf.cast(noise.gumbel([6, 9], seed=4), tf.float64)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        expected = transcription(logits + gumbel, k, temperature)
    wanted = tape.gradient(expected, logits, output_gradients=upstream)

    def run(logits, upstream):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            value = r.relaxed_top_k(logits, k, temperature, seed=4)
        return value, tape.gradient(value, logits, output_gradients=upstream)

    value, gradient = MODES[mode](run)(logits, upstream)
    # Eager and XLA noise agree to float32's logarithms.
    np.testing.assert_allclose(value, expected, atol=2e-5)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-3, atol=2e-4)
    np.testing.assert_allclose(tf.reduce_sum(value, -1), k, rtol=1e-9)


@pytest.mark.parametrize("mode", MODES)
def test_steps_in_a_loop_are_those_in_line(mode, monkeypatch):
    rng = np.random.default_rng(1)
    scores, upstream = (tf.constant(rng.normal(0, 3, [2, 8])) for _ in range(2))
    results = []
    for longest in (0, 3):
        monkeypatch.setattr(successive_softmax, "_IN_LINE", longest)

        def run(scores, upstream):
            with tf.GradientTape() as tape:
                tape.watch(scores)
                value = r.relaxed_top_k(scores, 3, 0.7, seed=4)
            return value, tape.gradient(value, scores, output_gradients=upstream)

        results.append(MODES[mode](run)(scores, upstream))
    for looped, written_out in zip(*results, strict=True):
        np.testing.assert_allclose(looped, written_out, rtol=1e-9, atol=1e-12)


def test_gradient_where_one_class_is_nearly_certain():
    """1 - a of 1e-12, which float32 cannot tell from 0 as a difference."""
    logits = np.array([[30.0, 2.0, 1.0, 0.0], [60.0, 30.0, 0.5, 0.0]])
    upstream = np.array([[1.0, -2.0, 0.5, 3.0]] * 2)
    results = {}
    for dtype in ("float64", "float32"):
        with tf.GradientTape() as tape:
            x = tf.constant(logits, dtype)
            tape.watch(x)
            value = r.relaxed_top_k(x, 3, 1.0, seed=1)
        results[dtype] = value, tape.gradient(value, x, tf.constant(upstream, dtype))
    for single, double in zip(results["float32"], results["float64"], strict=True):
        np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-5)


def test_temperature_goes_to_zero():
    logits = tf.constant(np.random.default_rng(1).normal(size=[50, 8]))
    cold = r.relaxed_top_k(logits, 3, 1e-4, seed=2)
    np.testing.assert_allclose(cold, r.top_k_hot(cold, 3), atol=1e-6)
    exact = r.relaxed_k_subset(logits, 3, 1e-4, seed=2)
    np.testing.assert_allclose(exact, cold, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_masks(mode):
    mask = tf.constant([[True, True, False, True], [True, False, False, True], [False] * 4])
    logits = tf.constant([[0.0, 1.0, NAN, -1.0], [0.0, INF, NAN, 0.0], [NAN, 0.0, INF, 1.0]])

    def run(logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            value = r.relaxed_top_k(logits, 2, 0.5, mask, seed=1)
        return value, tape.gradient(value, logits, tf.where(mask, [[1.0, 2.0, 3.0, 4.0]], NAN))

    value, gradient = (x.numpy() for x in MODES[mode](run)(logits))
    np.testing.assert_array_equal(value[~mask.numpy()], 0.0)
    np.testing.assert_array_equal(gradient[~mask.numpy()], 0.0)
    np.testing.assert_allclose(value.sum(-1), [2.0, 2.0, 0.0], rtol=1e-6)
    np.testing.assert_array_equal(gradient[1:], 0.0)
    np.testing.assert_array_equal(value[1], [1.0, 0.0, 0.0, 1.0])
    assert np.any(gradient[0] != 0.0)


def test_one_temperature_for_each_row():
    logits = tf.constant(np.random.default_rng(2).normal(size=[2, 3, 5]))
    each = tf.constant([[[0.3]], [[2.0]]], tf.float64)
    for function in (r.relaxed_top_k, r.relaxed_k_subset):
        together = function(logits, 2, each, seed=1)
        for row, temperature in enumerate([0.3, 2.0]):
            alone = function(logits, 2, temperature, seed=1)
            np.testing.assert_allclose(together[row], alone[row], atol=1e-12)
