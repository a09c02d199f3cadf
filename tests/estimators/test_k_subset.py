"""Both estimators of subsets: their laws, their gradients, and what every estimator owes."""

import functools

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

import tfconcrete as tfc
from tests.subsets import Law, without_replacement

NAN, INF = float("nan"), float("inf")
e, r = tfc.estimators, tfc.relaxations
FAMILY = {
    "exact": e.straight_through_k_subset,
    "gumbel": functools.partial(e.straight_through_gumbel_top_k, temperature=0.5),
}
LAWS = {"exact": lambda logits, k: Law(logits, k).probs, "gumbel": without_replacement}
NAMES = pytest.mark.parametrize("name", list(FAMILY))
# A graph that XLA compiles is one: the other adds little to the quick tests.
JIT_COMPILE = pytest.mark.parametrize(
    "jit_compile", [pytest.param(False, marks=pytest.mark.slow), True]
)


@NAMES
@JIT_COMPILE
def test_draws_follow_the_law(name, jit_compile):
    logits = np.float32([0.5, -1.0, 0.0, 1.5, 0.2])
    num = 40_000
    draw = tf.function(
        lambda x: {k: FAMILY[name](tf.tile(x[None], [num, 1]), k, seed=3) for k in (1, 2, 3)},
        jit_compile=jit_compile,
    )
    for k, draws in draw(logits).items():
        counts = Law(logits, k).counts(draws.numpy())
        assert scipy.stats.chisquare(counts, num * LAWS[name](logits, k)).pvalue > 1e-5


def test_the_two_laws_differ():
    """By 12 standard errors of the test above: it can tell them apart."""
    logits = [0.5, -1.0, 0.0, 1.5, 0.2]
    exact, gumbel = (LAWS[name](logits, 2) for name in FAMILY)
    assert np.max(np.abs(exact - gumbel) / np.sqrt(exact * (1 - exact) / 40_000)) > 12


def test_the_exact_gradient_is_that_of_the_marginals(vjp):
    rng = np.random.default_rng(0)
    logits, upstream = rng.normal(0, 2, [4, 7]), rng.normal(size=[4, 7])
    for k in (1, 3, 6):
        _, gradient = vjp(
            lambda x, k=k: FAMILY["exact"](x, k, seed=1), tf.constant(logits), tf.constant(upstream)
        )
        expected = [Law(row, k).covariance @ u for row, u in zip(logits, upstream, strict=True)]
        np.testing.assert_allclose(gradient, expected, atol=1e-10)


def test_the_gumbel_gradient_is_that_of_the_relaxation(vjp):
    rng = np.random.default_rng(1)
    logits, upstream = (tf.constant(rng.normal(size=[4, 7])) for _ in range(2))
    _, gradient = vjp(lambda x: FAMILY["gumbel"](x, 3, seed=1), logits, upstream)
    soft, expected = vjp(lambda x: r.relaxed_top_k(x, 3, 0.5, seed=1), logits, upstream)
    np.testing.assert_allclose(gradient, expected, atol=1e-12)
    cold = r.relaxed_top_k(logits, 3, 1e-3, seed=1)
    np.testing.assert_allclose(FAMILY["gumbel"](logits, 3, seed=1), cold, atol=1e-6)
    assert np.all(np.abs(np.sum(soft, -1) - 3.0) < 1e-9)


@NAMES
@JIT_COMPILE
def test_compiled_equals_eager(name, vjp, jit_compile):
    logits, upstream = (tf.random.stateless_normal([32, 11], [0, i]) for i in (2, 3))

    def run(logits, upstream):
        return vjp(lambda x: FAMILY[name](x, 4, seed=5), logits, upstream)

    spec = tf.TensorSpec([None, 11])
    compiled = tf.function(run, [spec, spec], jit_compile=jit_compile)(logits, upstream)
    eager = run(logits, upstream)
    np.testing.assert_array_equal(compiled[0], eager[0])
    np.testing.assert_allclose(compiled[1], eager[1], atol=1e-5)


@NAMES
@JIT_COMPILE
def test_masked_classes_are_exactly_zero(name, vjp, jit_compile):
    logits = tf.constant(
        [[0.0, NAN, 1.0, INF, 0.3], [-INF, 1e9, NAN, 0.5, NAN], [NAN, INF, -INF, 3.0, 0.0]]
    )
    mask = tf.constant(
        [[True, False, True, False, True], [False, False, False, True, False], [False] * 5]
    )
    upstream = tf.where(mask, tf.constant([[1.0, -2.0, 3.0, 0.5, 2.0]]), NAN)

    @tf.function(jit_compile=jit_compile)
    def run(logits):
        return vjp(lambda x: FAMILY[name](x, 2, class_mask=mask, seed=1), logits, upstream)

    value, gradient = (x.numpy() for x in run(logits))
    np.testing.assert_array_equal(value[~mask.numpy()], 0.0)
    np.testing.assert_array_equal(gradient[~mask.numpy()], 0.0)
    np.testing.assert_array_equal(value.sum(-1), [2.0, 1.0, 0.0])
    np.testing.assert_allclose(gradient[1:], 0.0, atol=1e-7)  # nothing to choose
    assert np.any(gradient[0] != 0.0) and np.all(np.isfinite(gradient))


@NAMES
@JIT_COMPILE
def test_nan_rows(name, jit_compile):
    logits = tf.constant([[0.0, NAN, 1.0, 2.0], [0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, NAN]])
    mask = tf.constant([[True] * 4, [True] * 4, [True, True, True, False]])
    run = tf.function(
        lambda x: (FAMILY[name](x, 2, seed=0), FAMILY[name](x, 2, class_mask=mask, seed=0)),
        jit_compile=jit_compile,
    )
    plain, masked = run(logits)
    assert np.all(np.isnan(plain[0])) and np.all(np.isnan(plain[2]))
    assert np.all(np.isnan(masked[0])) and not np.any(np.isnan(masked[1:]))
    np.testing.assert_array_equal(tf.reduce_sum(masked[1:], -1), 2.0)


@NAMES
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64])
def test_dtypes(name, vjp, dtype):
    # Multiples of 1/8 are the same numbers in every dtype.
    logits, upstream = (
        tf.round(8.0 * tf.random.stateless_normal([32, 6], [2, i])) / 8.0 for i in (1, 2)
    )
    value, gradient = vjp(lambda x: FAMILY[name](x, 2, seed=6), logits, upstream)
    cast_value, cast_gradient = vjp(
        lambda x: FAMILY[name](x, 2, seed=6), tf.cast(logits, dtype), tf.cast(upstream, dtype)
    )
    assert cast_value.dtype == dtype and cast_gradient.dtype == dtype
    np.testing.assert_array_equal(tf.cast(cast_value, tf.float32), value)
    rtol = {"float16": 2e-3, "bfloat16": 1e-2}.get(dtype.name, 2e-5)
    np.testing.assert_allclose(
        tf.cast(cast_gradient, tf.float32), gradient, rtol=rtol, atol=1e-4 if rtol > 1e-3 else 5e-6
    )


@NAMES
def test_axis(name, vjp):
    row, upstream = (tf.random.stateless_normal([1, 6], [1, i]) for i in (1, 2))
    value, gradient = vjp(lambda x: FAMILY[name](x, 2, seed=4), row, upstream)
    turned_value, turned_gradient = vjp(
        lambda x: FAMILY[name](x, 2, axis=0, seed=4), tf.transpose(row), tf.transpose(upstream)
    )
    np.testing.assert_array_equal(tf.transpose(turned_value), value)
    np.testing.assert_allclose(tf.transpose(turned_gradient), gradient, atol=1e-6)


@NAMES
def test_seeds(name):
    logits = tf.zeros([40, 5])
    draw = functools.partial(FAMILY[name], logits, 2)
    np.testing.assert_array_equal(draw(seed=1), draw(seed=1))
    assert np.any(draw(seed=1) != draw(seed=2))
    assert np.any(draw() != draw())
    generator = keras.random.SeedGenerator(1)
    assert np.any(draw(seed=generator) != draw(seed=generator))


@NAMES
def test_large_logits(name, vjp):
    large = tf.constant([[1e4, 1e4, -1e4, 1e4], [1e9] * 4, [-1e4, 0.0, 1e4, 2e4]])
    value, gradient = vjp(lambda x: FAMILY[name](x, 2, seed=1), tf.tile(large, [50, 1]), None)
    value = value.numpy().reshape(50, 3, 4)
    assert np.all(np.isfinite(gradient))
    np.testing.assert_array_equal(value.sum(-1), 2.0)
    assert np.all(value[:, 0, 2] == 0) and np.all(value[:, 2, 2:] == 1)
    # At 1e9 float32 has no room for noise: without a shift the first two would always win.
    assert np.all(value[:, 1].sum(0) > 0) and np.all(value[:, 0, [0, 1, 3]].sum(0) > 0)


@pytest.mark.parametrize("kind", [tf.Variable, keras.Variable])
def test_temperature_may_be_a_variable(kind, vjp):
    logits, upstream = (tf.random.stateless_normal([8, 4], [5, i]) for i in (5, 6))
    temperature = kind(0.6)

    @tf.function
    def run(logits):
        return vjp(
            lambda x: e.straight_through_gumbel_top_k(x, 2, temperature, seed=0), logits, upstream
        )

    for value in (0.6, 2.0):
        temperature.assign(value)
        _, expected = vjp(
            lambda x, t=value: e.straight_through_gumbel_top_k(x, 2, t, seed=0), logits, upstream
        )
        np.testing.assert_allclose(run(logits)[1], expected, atol=1e-6)
