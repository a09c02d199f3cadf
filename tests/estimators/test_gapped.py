"""Gapped Straight-Through: the three properties of Section 3, Lemma 1, and its errors."""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import tfconcrete as tfc
from tfconcrete.estimators import expected_gap, gapped_straight_through

GAPS = [0.0, 0.3, 0.8, 1.0, 1.2, 5.0, "pi"]


def random_logits():
    """Rows at all scales, some with ties."""
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(300, 6)) * rng.choice([0.01, 1.0, 10.0, 1e3], size=(300, 1))
    logits[:30] = np.round(logits[:30])
    logits[30:35] = 0.0
    return tf.constant(logits, tf.float32)


def split(values, one_hot):
    """The drawn entry, and the largest of the others."""
    drawn = np.max(np.where(one_hot > 0, values, -np.inf), -1)
    return drawn, np.max(np.where(one_hot > 0, -np.inf, values), -1)


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_the_surrogate_agrees_with_the_draw(gap, temperature):
    logits = random_logits()
    hard = gapped_straight_through(logits, temperature, gap, seed=1).numpy()
    soft = gapped_straight_through(logits, temperature, gap, hard=False, seed=1).numpy()
    np.testing.assert_allclose(soft.sum(-1), 1.0, atol=1e-6)
    drawn, other = split(soft, hard)
    assert np.all(drawn >= other) if gap == 0.0 else np.all(drawn > other)


@pytest.mark.parametrize("gap", GAPS)
def test_the_gap_is_at_least_gap(gap):
    logits, temperature = random_logits(), 0.7
    hard = gapped_straight_through(logits, temperature, gap, seed=2).numpy()
    soft = gapped_straight_through(logits, temperature, gap, hard=False, seed=2).numpy()
    required = gap
    if gap == "pi":
        required = np.squeeze(expected_gap(logits, hard), -1)
    with np.errstate(divide="ignore"):
        drawn, other = split(temperature * np.log(soft.astype(np.float64)), hard)
    assert np.all(drawn - other >= required - 1e-5 * np.maximum(required, 1.0))
    # Nothing is lowered more than needed: where the draw was not the largest logit, the
    # runner-up is at the gap exactly.
    beaten = split(logits.numpy(), hard)
    behind = (beaten[0] < beaten[1]) & np.isfinite(other)
    assert np.sum(behind) > 20
    expected = np.broadcast_to(required, behind.shape)[behind]
    np.testing.assert_allclose((drawn - other)[behind], expected, atol=1e-4)


def test_no_gradient_through_the_perturbation(vjp):
    """The gradient is that of a softmax at the surrogate's own value, nothing more."""
    logits = random_logits()
    upstream = tf.random.stateless_normal(logits.shape, [0, 1])
    for gap in GAPS:
        soft, gradient = vjp(
            lambda x, gap=gap: gapped_straight_through(x, 0.5, gap, hard=False, seed=4),
            logits,
            upstream,
        )
        soft, v = soft.numpy().astype(np.float64), upstream.numpy().astype(np.float64)
        expected = soft * (v - np.sum(soft * v, -1, keepdims=True)) / 0.5
        np.testing.assert_allclose(gradient, expected, atol=1e-5)


def test_perturbation_gradient_changes_the_gradient_only(vjp):
    logits = random_logits()[35:]
    upstream = tf.random.stateless_normal(logits.shape, [0, 1])
    results = [
        vjp(
            lambda x, flag=flag: gapped_straight_through(
                x, 0.5, 1.0, seed=4, perturbation_gradient=flag
            ),
            logits,
            upstream,
        )
        for flag in (False, True)
    ]
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert np.max(np.abs(results[0][1] - results[1][1])) > 0.1


@pytest.mark.parametrize("winner", range(4))
def test_lemma_1_by_monte_carlo(winner):
    logits = np.array([2.0, -3.0, 0.5, 0.0])
    rng = np.random.default_rng(winner)
    perturbed = logits + rng.gumbel(size=(1_000_000, 4))
    perturbed = perturbed[perturbed.argmax(-1) == winner]
    ordered = np.sort(perturbed, -1)
    lead = ordered[:, -1] - ordered[:, -2]
    error = lead.std() / np.sqrt(len(lead))
    gap = expected_gap(tf.constant(logits), tf.one_hot(winner, 4, dtype=tf.float64))
    assert abs(lead.mean() - float(gap[0])) < 4.5 * error
    assert error < 0.02


@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_pi_gap_is_stable_everywhere(jit_compile):
    d = np.concatenate([np.linspace(-120, 120, 961), [-1e9, -1e4, -1e3, 1e3, 1e4, 1e9]])
    logits = tf.constant(np.stack([d, np.zeros_like(d)], -1), tf.float32)
    gap = tf.function(expected_gap, jit_compile=jit_compile)(logits, tf.constant([1.0, 0.0]))
    bounded = np.maximum(d, -700.0)
    exact = np.logaddexp(0.0, bounded) / scipy.special.expit(bounded)
    np.testing.assert_allclose(gap[:, 0], exact, rtol=1e-6)
    assert np.all(gap >= 1.0 - 1e-6)


def test_the_pi_gap_has_finite_gradients_at_every_scale(vjp):
    logits = tf.constant([[0.0, 300.0, -1e4], [1e4, -1e4, 0.0], [0.0, 0.0, 0.0], [-1e9, 0.0, 1.0]])
    for flag in (False, True):
        for seed in range(5):
            value, gradient = vjp(
                lambda x, flag=flag, seed=seed: gapped_straight_through(
                    x, 0.1, "pi", seed=seed, perturbation_gradient=flag
                ),
                logits,
                tf.ones_like(logits) * [1.0, 2.0, 3.0],
            )
            np.testing.assert_array_equal(tf.reduce_sum(value, -1), 1.0)
            assert np.all(np.isfinite(gradient))


def test_soft_samples_are_masked_too():
    logits = tf.constant([[0.0, float("nan"), 1.0], [0.0, 1.0, 2.0]])
    mask = tf.constant([[True, False, True], [False, False, False]])
    for gap in (1.0, "pi"):
        soft = gapped_straight_through(logits, 0.5, gap, hard=False, class_mask=mask, seed=0)
        np.testing.assert_array_equal(soft[0, 1], 0.0)
        np.testing.assert_array_equal(soft[1], 0.0)
        np.testing.assert_allclose(tf.reduce_sum(soft[0]), 1.0, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"gap": -1},
            ValueError,
            'Invalid value received for argument `gap`. Expected a non-negative float or "pi". '
            "Received: gap=-1",
        ),
        ({"gap": "foo"}, ValueError, "Received: gap='foo'"),
        ({"gap": float("nan")}, ValueError, "Received: gap=nan"),
        ({"gap": float("inf")}, ValueError, "Received: gap=inf"),
        ({"gap": None}, TypeError, '`gap`. Expected a non-negative float or "pi"'),
        ({"gap": True}, TypeError, "`gap`"),
        ({"hard": 1}, TypeError, "`hard`. Expected True or False"),
        ({"perturbation_gradient": "NZ"}, TypeError, "`perturbation_gradient`"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error) as caught:
        tfc.estimators.gapped_straight_through(tf.zeros([2, 3]), 0.5, **arguments)
    assert message in str(caught.value)
