"""DisARM and its tree form: against the papers' formulas pair by pair, and enumeration."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.estimators.enumeration import (
    assert_mean,
    binary_states,
    draw_gradients,
    exact_gradients,
    one_hot_states,
)

random = np.random.default_rng(1)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def run(estimator, values_of, logits, **arguments):
    """Value, gradient of the logits, samples and their objective values."""
    logits = tf.constant(logits)
    seen = {}

    def objective(sample, log_q):
        seen["sample"] = sample.numpy()
        seen["values"] = values_of(sample.numpy())
        return tf.constant(seen["values"])

    with tf.GradientTape() as tape:
        tape.watch(logits)
        surrogate = estimator(objective, logits, **arguments)
    return surrogate.numpy(), tape.gradient(surrogate, logits).numpy(), seen


def test_disarm_pair_by_pair():
    """Dong et al. (2020): (f - f')/2 * (-1)^b' * 1[b != b'] * sigmoid(|logit|)."""
    logits = random.normal(size=[500, 4]) * 2.0
    table = random.normal(size=[4])
    value, gradient, seen = run(
        tfc.estimators.disarm, lambda z: np.sin(z @ table * 3.0) + 5.0, logits, seed=0
    )
    b, partner = seen["sample"]
    f, f_partner = seen["values"]
    expected = (
        0.5
        * (f - f_partner)[:, None]
        * (-1.0) ** partner
        * (b != partner)
        * sigmoid(np.abs(logits))
    )
    np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(value, (f + f_partner) / 2, rtol=1e-12)
    assert (b != partner).any() and (b == partner).any()


def tree_gradient(logits, z, partner, signal):
    """The tree estimator for one variable, node by node, by a walk over class ranges."""
    num_classes = len(logits)
    width = 1 << (num_classes - 1).bit_length()
    probs = np.exp(logits - logits.max())
    probs /= probs.sum()
    gradient = np.zeros(num_classes)

    def visit(low, high):
        if high - low == 1:
            return
        middle = (low + high) // 2
        left = [k for k in range(low, middle) if k < num_classes]
        right = [k for k in range(middle, high) if k < num_classes]
        by_z, by_partner = low <= z < high, low <= partner < high
        if left and right and (by_z or by_partner):
            a = np.log(probs[right].sum() / probs[left].sum())
            b, b_partner = float(z >= middle), float(partner >= middle)
            if by_z and by_partner:
                weight = (b - b_partner) * sigmoid(abs(a))
            elif by_z:
                weight = b - sigmoid(a)
            else:
                weight = -(b_partner - sigmoid(a))
            gradient[right] += signal * weight * probs[right] / probs[right].sum()
            gradient[left] -= signal * weight * probs[left] / probs[left].sum()
        visit(low, middle)
        visit(middle, high)

    visit(0, width)
    return gradient


@pytest.mark.parametrize("num_classes", [2, 3, 4, 5, 8, 10])
def test_disarm_tree_pair_by_pair(num_classes):
    logits = random.normal(size=[100, 2, num_classes]) * 1.5
    table = random.normal(size=[2, num_classes])
    value, gradient, seen = run(
        tfc.estimators.disarm_tree,
        lambda z: np.exp(np.sum(z * table, axis=(-2, -1))),
        logits,
        seed=1,
    )
    codes = seen["sample"].argmax(axis=-1)
    f, f_partner = seen["values"]
    for n in range(len(logits)):
        for v in range(2):
            expected = tree_gradient(
                logits[n, v], codes[0, n, v], codes[1, n, v], 0.5 * (f[n] - f_partner[n])
            )
            np.testing.assert_allclose(gradient[n, v], expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(value, (f + f_partner) / 2, rtol=1e-12)


@pytest.mark.parametrize("num_classes", [2, 3, 6])
def test_both_halves_are_exact_draws(num_classes):
    logits = random.normal(size=[num_classes]).astype(np.float32) * 1.5
    _, _, seen = run(
        tfc.estimators.disarm_tree,
        lambda z: z[..., 0],
        np.repeat(logits[None], 100_000, 0),
        seed=2,
    )
    probs = np.exp(logits) / np.exp(logits).sum()
    for half in seen["sample"]:
        np.testing.assert_array_equal(half.sum(axis=-1), 1.0)
        assert_mean(half, probs)
    # Partners avoid each other: they agree less often than independent draws would.
    agree = (seen["sample"][0] * seen["sample"][1]).sum(axis=-1).mean()
    assert agree < (probs**2).sum() - 0.01


def test_binary_halves_are_exact_draws():
    logits = np.array([0.4, -1.5], np.float32)
    _, _, seen = run(
        tfc.estimators.disarm, lambda z: z[..., 0], np.repeat(logits[None], 100_000, 0), seed=2
    )
    for half in seen["sample"]:
        assert_mean(half, sigmoid(logits))


@pytest.mark.parametrize("num_samples", [2, 6])
def test_disarm_gradient_is_the_enumerated_one(num_samples):
    logits, weights = np.array([0.4, -1.2, 0.9]), random.normal(size=[3, 4])
    exact_value, exact = exact_gradients(binary_states(3), logits, weights)
    estimator = functools.partial(tfc.estimators.disarm, num_samples=num_samples)
    values, draws = draw_gradients(estimator, logits, weights, seed=3)
    assert_mean(values, exact_value)
    for draw, gradient in zip(draws, exact, strict=True):
        assert_mean(draw, gradient, resolution=0.15)


@pytest.mark.parametrize("num_variables, num_classes", [(2, 4), (1, 6)])
def test_disarm_tree_gradient_is_the_enumerated_one(num_variables, num_classes):
    logits = random.normal(size=[num_variables, num_classes])
    weights = random.normal(size=[num_variables * num_classes, 4])
    states = one_hot_states(num_variables, num_classes)
    exact_value, exact = exact_gradients(states, logits, weights)
    values, draws = draw_gradients(tfc.estimators.disarm_tree, logits, weights, seed=4)
    assert_mean(values, exact_value)
    for draw, gradient in zip(draws, exact, strict=True):
        assert_mean(draw, gradient, resolution=0.15)


def test_two_classes_and_binary_units_agree():
    """(l0, l1) is a unit of logit l1 - l0; the same noise makes the same pair."""
    logits = random.normal(size=[300, 3, 2])
    table = random.normal(size=[3])

    def on_classes(z):
        return np.cos(z[..., 1] @ table)

    def on_units(z):
        return np.cos(z @ table)

    value, gradient, seen = run(tfc.estimators.disarm, on_classes, logits, axis=-1, seed=5)
    b, partner = seen["sample"][..., 1]
    f, f_partner = seen["values"]
    unit = logits[..., 1] - logits[..., 0]
    expected = 0.5 * (f - f_partner)[:, None] * (b - partner) * sigmoid(np.abs(unit))
    np.testing.assert_allclose(gradient[..., 1], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(gradient[..., 0], -expected, rtol=1e-9, atol=1e-12)
    plain = run(tfc.estimators.disarm, on_units, unit, seed=6)
    tree = run(tfc.estimators.disarm_tree, on_units, unit, axis=None, seed=6)
    np.testing.assert_array_equal(plain[1], tree[1])


def test_tree_on_another_axis():
    logits = random.normal(size=[200, 5, 2])
    value, gradient, seen = run(
        tfc.estimators.disarm_tree, lambda z: z[..., 0, 0] + z[..., 3, 1], logits, axis=1, seed=7
    )
    assert seen["sample"].shape == (2, 200, 5, 2)
    codes = seen["sample"].argmax(axis=-2)
    f, f_partner = seen["values"]
    for n in range(50):
        expected = tree_gradient(
            logits[n, :, 1], codes[0, n, 1], codes[1, n, 1], 0.5 * (f[n] - f_partner[n])
        )
        np.testing.assert_allclose(gradient[n, :, 1], expected, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
def test_deep_tree_is_the_same_under_xla():
    def step(logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            surrogate = tfc.estimators.disarm_tree(
                lambda z, log_q: tf.reduce_sum(z[..., ::3], [-2, -1]) - log_q, logits, seed=8
            )
        return [surrogate, tape.gradient(surrogate, logits)]

    logits = tf.constant(random.normal(size=[20, 3, 11]), tf.float32)
    compiled = tf.function(
        step, input_signature=[tf.TensorSpec([None, None, 11])], jit_compile=True
    )
    for a, b in zip(step(logits), compiled(logits), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_extreme_logits_are_finite():
    for estimator, logits in [
        (tfc.estimators.disarm, [[np.inf, -np.inf, 1e30, 0.0]]),
        (tfc.estimators.disarm_tree, [[np.inf, -np.inf, 0.0], [80.0, -80.0, 0.0]]),
    ]:
        value, gradient, _ = run(
            estimator, lambda z: z.sum(axis=-1) * 1e3, np.array(logits, np.float32), seed=0
        )
        assert np.isfinite(value).all() and np.isfinite(gradient).all()


def test_bad_arguments():
    def objective(sample, log_q):
        return log_q

    with pytest.raises(ValueError, match="two classes along axis -1.*`disarm_tree`"):
        tfc.estimators.disarm(objective, tf.zeros([4, 2, 3]), axis=-1)
    for estimator in [tfc.estimators.disarm, tfc.estimators.disarm_tree]:
        with pytest.raises(ValueError, match="an even number.*num_samples=3"):
            estimator(objective, tf.zeros([4, 2]), num_samples=3)

    @tf.function(input_signature=[tf.TensorSpec([None, None])])
    def unknown_classes(logits):
        return tfc.estimators.disarm_tree(objective, logits)

    with pytest.raises(ValueError, match="a known number of classes"):
        unknown_classes(tf.zeros([2, 3]))
