"""What every sampling layer owes, over dtype policies, execution modes and sizes."""

import time

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import tfconcrete as tfc
from tests.grids import grid

POLICIES = ["float32", "float64", "mixed_float16", "mixed_bfloat16", "float16"]
RTOL = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-6}

# Ordinary rows, a certain class, a near tie of two large logits, equal logits.
LOGITS = np.array(
    [
        [0.3, -1.0, 1.2, 0.0],
        [-2.0, 1.5, 0.25, 0.5],
        [1e4, 0.0, -1e4, 3.0],
        [1e4, 0.0, 1e4 + 8.0, -1e4],
        [0.5, 0.5, 0.5, 0.5],
        [-1e4, -1e4, -1e4, -1e4],
    ]
)
WEIGHTS = np.array([1.0, -2.0, 3.0, 0.5])


def outputs_of(case, policy):
    """The training output with its gradient, and the output of every inference mode."""
    layers = {
        mode: case.make(dtype=policy, seed=7, inference=mode)
        for mode in ("argmax", "sample", "probs")
    }

    def run(logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            sample = layers["argmax"](case.inputs(logits), training=True)
            weights = tf.cast(WEIGHTS, sample.dtype)
            # The logarithm's floor is no number to differentiate through.
            value = tf.exp(sample) if case.is_log else sample
            loss = tf.reduce_sum(value * weights)
        gradient = tape.gradient(loss, logits, unconnected_gradients="zero")
        result = {"training": sample, "gradient": gradient}
        for mode, layer in layers.items():
            result[mode] = layer(case.inputs(logits), training=False)
        return result

    return run


def check_policies(case, policies, mode):
    """One function, with an unknown batch size, for all policies: one compilation."""
    runs = {policy: outputs_of(case, policy) for policy in policies}
    dtypes = {policy: keras.DTypePolicy(policy).compute_dtype for policy in policies}
    inputs = {policy: tf.cast(LOGITS, dtype) for policy, dtype in dtypes.items()}

    def run(inputs):
        return {policy: runs[policy](inputs[policy]) for policy in policies}

    if mode != "eager":
        signature = {policy: tf.TensorSpec([None, 4], dtypes[policy]) for policy in policies}
        run = tf.function(run, input_signature=[signature], jit_compile=mode == "xla")
    results = run(inputs)
    for policy, dtype in dtypes.items():
        check(case, results[policy], inputs[policy], dtype)
    return results


def test_every_policy_eagerly(any_layer):
    check_policies(any_layer, POLICIES, "eager")


def test_graphs(any_layer):
    check_compiled(any_layer, "graph")


def test_xla(compiled_layer):
    check_compiled(compiled_layer, "xla")


def check_compiled(case, mode):
    """And one seed gives one sample, eagerly or compiled."""
    results = check_policies(case, ["float32"], mode)
    if case.name == "distribution_one_hot":
        return  # TFP's own noise, which XLA draws differently
    eager = check_policies(case, ["float32", "mixed_float16"], "eager")
    reference = case.simplex(results["float32"]["training"])[:2]
    for policy, tolerance in [("float32", 1e-4), ("mixed_float16", 3e-2)]:
        # The other rows are not the same logits in half precision.
        sample = case.simplex(eager[policy]["training"])[:2]
        np.testing.assert_allclose(sample, reference, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_the_other_policies_in_graphs(any_layer, mode):
    check_policies(any_layer, [p for p in POLICIES if p != "float32"], mode)


def check(case, result, logits, dtype):
    logits = np.asarray(logits).astype(np.float64)
    for name, value in result.items():
        assert value.dtype == dtype, name
        value = np.asarray(value).astype(np.float64)
        assert np.all(np.isfinite(value)), name
    rtol = RTOL[dtype]
    training, argmax, sample, probs = (
        case.simplex(result[name]) for name in ("training", "argmax", "sample", "probs")
    )
    if case.is_binary:
        np.testing.assert_array_equal(argmax, logits > 0)
        np.testing.assert_allclose(probs, scipy.special.expit(logits), rtol=rtol, atol=1e-7)
        assert np.all((training >= 0) & (training <= 1))
        assert set(np.unique(sample)) <= {0.0, 1.0}
        assert not np.any(sample[logits < -1e3]) and np.all(sample[logits > 1e3])
        if case.name == "bin_concrete_hard":
            assert set(np.unique(training)) <= {0.0, 1.0}
        return
    for one_hot in (argmax, sample):
        assert set(np.unique(one_hot)) <= {0.0, 1.0}
        np.testing.assert_array_equal(one_hot.sum(-1), 1.0)
    if not case.is_igr:
        np.testing.assert_array_equal(argmax.argmax(-1), logits.argmax(-1))
        expected = scipy.special.softmax(logits, -1)
        np.testing.assert_allclose(probs, expected, rtol=4 * rtol, atol=rtol)
    assert np.all(training >= 0)
    np.testing.assert_allclose(training.sum(-1), 1.0, rtol=4 * rtol)
    if case.training == "one_hot":
        assert set(np.unique(training)) <= {0.0, 1.0}
    if case.name != "igr_stick_breaking":
        # Where one class is certain, every mode finds it.
        for value in (training, argmax, sample, probs):
            np.testing.assert_allclose(value[2], [1.0, 0.0, 0.0, 0.0], atol=1e-3)


@pytest.mark.parametrize("num_classes", [2, 10_000])
@pytest.mark.parametrize("mode", ["eager", pytest.param("xla", marks=pytest.mark.slow)])
def test_few_and_many_classes(any_layer, num_classes, mode):
    case = any_layer
    logits = tf.random.stateless_normal([3, num_classes], [1, 2]) * 3.0
    layer = case.make(dtype="mixed_float16", seed=1)

    def run(logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            sample = layer(case.inputs(logits), training=True)
            value = tf.exp(sample) if case.is_log else sample
            loss = tf.reduce_sum(tf.cast(value, tf.float32) ** 2 * tf.cos(logits))
        gradient = tape.gradient(loss, logits, unconnected_gradients="zero")
        return sample, gradient, layer(case.inputs(logits))

    run = run if mode == "eager" else tf.function(run, jit_compile=True)
    sample, gradient, argmax = run(logits)
    for value in (sample, gradient, argmax):
        assert np.all(np.isfinite(np.asarray(value).astype(np.float64)))
    if not case.is_binary:
        np.testing.assert_allclose(case.simplex(sample).sum(-1), 1.0, atol=0.02)
        np.testing.assert_array_equal(case.simplex(argmax).sum(-1), 1.0)


@pytest.mark.parametrize(
    "num_classes", grid([200, 1_000, 32_000, 1_000_000], quick=lambda n: n == 32_000)
)
def test_exact_draws_compile_fast(num_classes):
    """`tf.argmax` of noise alone does not finish compiling; this must."""
    layer = tfc.ConcreteSample(inference="sample", seed=0)
    logits = tf.zeros([2, num_classes])
    start = time.process_time()  # of this process: a busy machine does not count
    sample = tf.function(lambda: layer(logits), jit_compile=True)()
    assert time.process_time() - start < 5.0
    np.testing.assert_array_equal(tf.reduce_sum(sample, -1), 1.0)
