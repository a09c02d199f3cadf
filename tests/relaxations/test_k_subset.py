"""The law of k of n classes, against enumeration and a recursion over classes in log space."""

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from tests.grids import grid
from tests.subsets import Law, subsets
from tfconcrete import relaxations as r

NAN, INF = float("nan"), float("inf")
MODES = {
    "eager": lambda function: function,
    "graph": lambda function: tf.function(function, autograph=False),
    "xla": lambda function: tf.function(function, autograph=False, jit_compile=True),
}


def run_all(logits, k, upstream, other, mask=None, axis=-1):
    """Everything that the law offers, and its gradients."""
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([logits, other])
        marginals = r.k_subset_marginals(logits, k, mask, axis)
        log_partition = r.k_subset_log_partition(logits, k, mask, axis)
        entropy = r.k_subset_entropy(logits, k, mask, axis)
        kl = r.k_subset_kl(logits, other, k, mask, axis)
    return {
        "marginals": marginals,
        "log_partition": log_partition,
        "entropy": entropy,
        "kl": kl,
        "d_marginals": tape.gradient(marginals, logits, output_gradients=upstream),
        "d_log_partition": tape.gradient(log_partition, logits),
        "d_entropy": tape.gradient(entropy, logits),
        "d_kl": tape.gradient(kl, logits),
        "d_kl_other": tape.gradient(kl, other),
    }


def enumerated(logits, k, upstream, other):
    law, second = Law(logits, k), Law(other, k)
    return {
        "marginals": law.marginals,
        "log_partition": law.log_partition,
        "entropy": law.entropy,
        "kl": law.kl(second),
        "d_marginals": law.covariance @ upstream,
        "d_log_partition": law.marginals,
        "d_entropy": -law.covariance @ logits,
        "d_kl": law.covariance @ (logits - other),
        "d_kl_other": second.marginals - law.marginals,
    }


@pytest.mark.parametrize("n", [2, 5, pytest.param(12, marks=pytest.mark.slow)])
def test_enumeration(n):
    """All k, logits of three scales, both dtypes."""
    rng = np.random.default_rng(n)
    for k in range(1, n):
        scale = np.array([[0.3], [2.0], [8.0]])
        logits, upstream, other = (rng.normal(size=[3, n]) for _ in range(3))
        logits, other = (np.float32(scale * x).astype(np.float64) for x in (logits, other))
        expected = [enumerated(*row) for row in zip(logits, [k] * 3, upstream, other, strict=True)]
        for dtype, tolerance in (("float64", 1e-10), ("float32", 4e-6)):
            tensors = (tf.constant(x, dtype) for x in (logits, upstream, other))
            logits_, upstream_, other_ = tensors
            result = run_all(logits_, k, upstream_, other_)
            for name, value in result.items():
                wanted = np.stack([row[name] for row in expected])
                np.testing.assert_allclose(
                    value, wanted, tolerance, tolerance, err_msg=f"{name}, k={k}, {dtype}"
                )


@pytest.mark.parametrize("k", [1, 3, 6])
def test_log_prob_of_every_subset(k):
    logits = np.random.default_rng(k).normal(0, 2, [2, 7])
    states = subsets(7, k)
    result = r.k_subset_log_prob(states[:, None], k, tf.constant(logits))
    expected = np.stack([Law(row, k).log_probs for row in logits], -1)
    np.testing.assert_allclose(result, expected, rtol=1e-10)
    single = r.k_subset_log_prob(states[:, None], k, tf.constant(logits, tf.float32))
    assert single.dtype == tf.float32
    np.testing.assert_allclose(single, expected, rtol=1e-5, atol=1e-5)
    with tf.GradientTape() as tape:
        x = tf.constant(logits[0])
        tape.watch(x)
        one = r.k_subset_log_prob(states[4], k, x)
    np.testing.assert_allclose(
        tape.gradient(one, x), states[4] - Law(logits[0], k).marginals, atol=1e-10
    )


@pytest.mark.parametrize(
    ("mode", "n", "k"), [("eager", 2, 1), ("eager", 6, 5), ("graph", 5, 2), ("xla", 7, 3)]
)
def test_draws_by_chi_square_over_all_subsets(mode, n, k):
    rng = np.random.default_rng(n)
    num = 40_000
    rows = np.stack([np.zeros(n), rng.normal(0, 1.0, n), 1e4 + rng.normal(0, 0.5, n)])
    draw = MODES[mode](lambda x: r.k_subset(tf.tile(x[:, None], [1, num, 1]), k, seed=5))
    draws = draw(tf.constant(rows, tf.float32)).numpy()
    np.testing.assert_array_equal(draws.sum(-1), k)
    for logits, samples in zip(np.float32(rows), draws, strict=True):
        law = Law(logits, k)
        expected = num * law.probs / law.probs.sum()
        often = expected > 5
        counts = law.counts(samples)
        observed = np.append(counts[often], counts[~often].sum())
        wanted = np.append(expected[often], expected[~often].sum())
        assert scipy.stats.chisquare(observed[wanted > 0], wanted[wanted > 0]).pvalue > 1e-5


def log_space_recursion(logits, k):
    """log e_j of the first i classes for j up to k, over i: the textbook's, in float64."""
    table = np.full(k + 1, -INF)
    table[0] = 0.0
    for logit in logits:
        table[1:] = np.logaddexp(table[1:], logit + table[:-1])
    return table[k]


@pytest.mark.parametrize(("n", "k", "scale"), [(1000, 10, 1.0), (1000, 500, 3.0), (3000, 100, 1e4)])
def test_many_classes_against_the_recursion(n, k, scale):
    logits = np.float32(np.random.default_rng(k).normal(0, scale, n)).astype(np.float64)
    expected = log_space_recursion(logits, k)
    result = r.k_subset_log_partition(tf.constant(logits), k)
    np.testing.assert_allclose(result, expected, rtol=1e-12)
    single = r.k_subset_log_partition(tf.constant(logits, tf.float32), k)
    np.testing.assert_allclose(single, expected, rtol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype", grid(["float16", "bfloat16", "float32", "float64"], quick=lambda d: d == "float32")
)
def test_ten_thousand_classes_and_logits_of_1e4(dtype):
    rng = np.random.default_rng(0)
    n, k = 10_000, 100
    logits = np.stack([rng.normal(0, 1, n), rng.uniform(-1e4, 1e4, n), np.full(n, 1e4)])
    logits = tf.cast(logits, dtype)
    exact = tf.cast(logits, tf.float64)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([logits, exact])
        marginals = r.k_subset_marginals(logits, k)
        reference = r.k_subset_marginals(exact, k)
        entropy = r.k_subset_entropy(logits, k)
        relaxed = r.relaxed_top_k(logits, k, 0.5, seed=1)
    tolerance = {"float16": 1e-3, "bfloat16": 1e-2}.get(dtype, 2e-6)
    plain = tf.cast(marginals, tf.float64)
    np.testing.assert_allclose(plain, reference, rtol=tolerance, atol=tolerance)
    upstream = tf.cast(rng.normal(size=[3, n]), dtype)
    gradient = tape.gradient(marginals, logits, output_gradients=upstream)
    reference = tape.gradient(reference, exact, output_gradients=tf.cast(upstream, tf.float64))
    assert gradient.dtype == marginals.dtype == relaxed.dtype == tf.as_dtype(dtype)
    np.testing.assert_allclose(
        tf.cast(gradient, tf.float64), reference, rtol=tolerance, atol=tolerance
    )
    assert np.all(np.isfinite(tf.cast(entropy, tf.float64)))
    assert np.all(np.isfinite(tf.cast(relaxed, tf.float64)))
    assert np.all(np.isfinite(tf.cast(tape.gradient(relaxed, logits), tf.float64)))
    draws = tf.cast(r.k_subset(logits, k, seed=0), tf.float64).numpy()
    assert set(np.unique(draws)) == {0.0, 1.0}
    np.testing.assert_array_equal(draws.sum(-1), k)


@pytest.mark.parametrize("mode", grid(MODES, quick=lambda mode: mode != "xla"))
def test_masks_are_as_if_the_class_were_not_there(mode):
    rng = np.random.default_rng(1)
    logits, upstream, other = (rng.normal(0, 1.5, [4, 6]) for _ in range(3))
    mask = np.array(
        [
            [True, True, False, True, True, True],
            [False, True, True, False, True, False],
            [True, False, True, False, False, False],
            [True, False, False, False, False, False],
        ]
    )
    logits[~mask] = np.resize([NAN, INF, 1e30, -INF], (~mask).sum())
    k = 2
    tensors = [tf.constant(x) for x in (logits, upstream, other)]
    run = MODES[mode](lambda x, u, o: run_all(x, k, u, o, tf.constant(mask)))
    result = {name: value.numpy() for name, value in run(*tensors).items()}
    for row in range(4):
        kept = mask[row]
        taken = min(k, kept.sum())
        parts = (x[row][kept] for x in (logits, upstream, other))
        logits_, upstream_, other_ = parts
        if taken < kept.sum():
            expected = enumerated(logits_, taken, upstream_, other_)
        else:  # nothing to choose
            expected = dict.fromkeys(result, 0.0)
            expected["marginals"] = expected["d_log_partition"] = 1.0
            expected["log_partition"] = logits_.sum()
        for name, value in result.items():
            if value.ndim == 2:
                np.testing.assert_array_equal(value[row][~kept], 0.0, name)
                value = value[row][kept]
            else:
                value = value[row]
            np.testing.assert_allclose(value, expected[name], rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("mode", MODES)
def test_masked_draws(mode):
    mask = tf.constant([[True, True, False, True], [True, False, False, False], [False] * 4])
    logits = tf.constant([[0.0, 1.0, NAN, -1.0], [0.0, INF, NAN, 0.0], [NAN, 0.0, INF, 1.0]])
    num = 20_000
    draw = MODES[mode](
        lambda x: r.k_subset(tf.tile(x[:, None], [1, num, 1]), 2, mask[:, None], seed=3)
    )
    draws = draw(logits).numpy()
    np.testing.assert_array_equal(draws[1], np.tile([1.0, 0.0, 0.0, 0.0], [num, 1]))
    np.testing.assert_array_equal(draws[2], 0.0)
    np.testing.assert_array_equal(draws[0, :, 2], 0.0)
    law = Law([0.0, 1.0, -1.0], 2)
    log_prob = r.k_subset_log_prob(tf.constant([1.0, 0.0, 1.0, 0.0]), 2, logits, mask)
    np.testing.assert_array_equal(log_prob, [-INF, -INF, -INF])
    counts = law.counts(draws[0][:, [0, 1, 3]])
    assert scipy.stats.chisquare(counts, num * law.probs).pvalue > 1e-5


@pytest.mark.parametrize(
    ("mode", "dtype"), [("eager", "float16"), ("graph", "float64"), ("xla", "float32")]
)
def test_logits_that_are_no_ordinary_numbers(mode, dtype):
    """Infinite logits act as very large ones and leave the others their law; NaN is NaN."""
    logits = tf.cast(
        [
            [INF, 0.0, 1.0, -1.0, -INF],
            [0.0, -INF, -INF, -INF, -INF],
            [INF, INF, INF, 0.0, 1.0],
            [0.0, 1.0, NAN, 2.0, 3.0],
        ],
        dtype,
    )
    run = MODES[mode](
        lambda x: (
            r.k_subset_marginals(x, 2),
            r.k_subset_entropy(x, 2),
            r.k_subset(tf.tile(x[:, None], [1, 200, 1]), 2, seed=1),
            r.relaxed_top_k(x, 2, 0.1, seed=1),
            r.relaxed_k_subset(x, 2, 0.1, seed=1),
        )
    )
    marginals, entropy, draws, *relaxed = (tf.cast(x, tf.float64).numpy() for x in run(logits))
    softmax = np.exp([0.0, 1.0, -1.0]) / np.exp([0.0, 1.0, -1.0]).sum()
    tolerance = 1e-3 if dtype == "float16" else 1e-5
    expected = [
        [1.0, *softmax, 0.0],
        [1.0, 0.25, 0.25, 0.25, 0.25],
        [2 / 3, 2 / 3, 2 / 3, 0.0, 0.0],
    ]
    np.testing.assert_allclose(marginals[:3], expected, atol=tolerance)
    np.testing.assert_allclose(
        entropy[:3], [-np.sum(softmax * np.log(softmax)), np.log(4), np.log(3)], atol=4 * tolerance
    )
    np.testing.assert_array_equal(draws[:3].sum(-1), 2.0)
    np.testing.assert_array_equal(draws[:2, :, 0], 1.0)
    np.testing.assert_array_equal(draws[2, :, 3:], 0.0)
    assert np.all(draws[:3].sum(1)[np.array(expected) > 0] > 0)
    for value in relaxed:
        np.testing.assert_allclose(value[:3].sum(-1), 2.0, atol=5 * tolerance)
        np.testing.assert_allclose(value[:2, 0], 1.0, atol=tolerance)
        assert np.all(np.isnan(value[3]))
    assert np.all(np.isnan(marginals[3])) and np.isnan(entropy[3]) and np.all(np.isnan(draws[3]))


def test_axis():
    rng = np.random.default_rng(2)
    logits, upstream, other = (tf.constant(rng.normal(size=[3, 5, 2])) for _ in range(3))
    mask = tf.constant([True, True, False, True, True])
    turned = [tf.transpose(x, [0, 2, 1]) for x in (logits, upstream, other)]
    result = run_all(logits, 2, upstream, other, mask[:, None], axis=1)
    expected = run_all(turned[0], 2, turned[1], turned[2], mask)
    for name, value in result.items():
        wanted = expected[name]
        if value.shape.rank == 3:
            wanted = tf.transpose(wanted, [0, 2, 1])
        np.testing.assert_allclose(value, wanted, atol=1e-12, err_msg=name)
    for function in (r.k_subset, r.top_k_hot):
        seed = {"seed": 3} if function is r.k_subset else {}
        turned_back = tf.transpose(function(turned[0], 2, **seed), [0, 2, 1])
        np.testing.assert_array_equal(function(logits, 2, axis=-2, **seed), turned_back)


def test_one_of_n_is_the_categorical_law():
    logits = tf.constant(np.random.default_rng(3).normal(0, 2, [5, 40]))
    np.testing.assert_allclose(r.k_subset_marginals(logits, 1), tf.nn.softmax(logits), rtol=1e-10)
    np.testing.assert_allclose(
        r.k_subset_log_partition(logits, 1), tf.reduce_logsumexp(logits, -1), rtol=1e-12
    )
    np.testing.assert_allclose(
        r.relaxed_k_subset(logits, 1, 0.7, seed=2), r.concrete(logits, 0.7, seed=2), atol=1e-9
    )


def test_the_complement_is_the_law_of_minus_the_logits():
    logits = tf.constant(np.random.default_rng(4).normal(0, 3, [2, 30]))
    for k in (1, 7, 29):
        np.testing.assert_allclose(
            1.0 - r.k_subset_marginals(logits, k),
            r.k_subset_marginals(-logits, 30 - k),
            atol=1e-12,
        )


@pytest.mark.slow
def test_unknown_batch():
    logits = np.float32(np.random.default_rng(5).normal(size=[4, 3, 9]))

    def run(x):
        return r.k_subset_marginals(x, 3), r.k_subset(x, 3, seed=1), r.k_subset_entropy(x, 3)

    spec = [tf.TensorSpec([None, 3, 9])]
    compiled = tf.function(run, spec, autograph=False, jit_compile=True)
    for value, expected in zip(compiled(logits), run(logits), strict=True):
        np.testing.assert_allclose(value, expected, atol=2e-6)


def test_errors():
    logits = tf.zeros([2, 4])
    for k in (0, 4, 9):
        with pytest.raises(ValueError, match="argument `k`. Expected a whole number"):
            r.k_subset(logits, k)
    with pytest.raises(TypeError, match="argument `k`"):
        r.k_subset_marginals(logits, 1.5)
    with pytest.raises(ValueError, match="argument `axis`"):
        r.k_subset(logits, 1, axis=2)
    with pytest.raises(TypeError, match="floating-point"):
        r.k_subset(tf.zeros([2, 4], tf.int32), 1)
    with pytest.raises(TypeError, match="boolean mask"):
        r.k_subset(logits, 1, class_mask=[1, 0, 1, 1])
    with pytest.raises(ValueError, match="`temperature`"):
        r.relaxed_k_subset(logits, 1, temperature=0.0)

    @tf.function(input_signature=[tf.TensorSpec([2, None])])
    def unknown(x):
        return r.k_subset(x, 1)

    with pytest.raises(ValueError, match="known rank and number of classes"):
        unknown(logits)


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_batch(mode):
    drawn = MODES[mode](lambda logits: r.k_subset(logits, 2, seed=0))(tf.zeros([0, 3]))
    assert drawn.shape == (0, 3)
