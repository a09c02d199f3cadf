"""Stick-breaking, interpolation and truncation against NumPy transcriptions."""

import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

R = tfc.relaxations


def sticks(y):
    """w_k = u_k prod_{i<k} (1 - u_i), one stick after the other."""
    u = 1 / (1 + np.exp(-np.asarray(y, np.float64)))
    left, w = np.ones(u.shape[:-1]), []
    for k in range(u.shape[-1]):
        w.append(u[..., k] * left)
        left = left * (1 - u[..., k])
    return np.stack([*w, left], -1)


@pytest.fixture
def y():
    return np.random.default_rng(0).normal(size=(7, 5)) * 2


def test_sticks(y):
    np.testing.assert_allclose(R.stick_breaking(y), sticks(y), rtol=1e-12)
    np.testing.assert_allclose(R.log_stick_breaking(y), np.log(sticks(y)), rtol=1e-12)


def test_inverse(y):
    np.testing.assert_allclose(R.stick_breaking_inverse(R.log_stick_breaking(y)), y, atol=1e-12)


def test_log_space_reaches_where_sticks_underflow():
    y = tf.zeros([2000])
    log_w = R.log_stick_breaking(y)
    np.testing.assert_allclose(log_w[1500], -1501 * np.log(2), rtol=1e-4)
    np.testing.assert_allclose(R.stick_breaking_inverse(log_w), y, atol=1e-2)


@pytest.mark.parametrize("temperature", [0.01, 0.3, 1.0])
def test_interpolation(y, temperature):
    w = sticks(y)
    vertex = np.eye(6)[w.argmax(-1)]
    z = R.interpolation(y, temperature)
    np.testing.assert_allclose(z, temperature * w + (1 - temperature) * vertex, rtol=1e-9)
    np.testing.assert_allclose(R.interpolate_inverse(z, temperature), w, atol=1e-12)


def test_interpolation_rounds_by_all_classes():
    """The remainder is a vertex like the others."""
    z = R.interpolation(tf.constant([-4.0, -4.0]), 0.1)
    assert int(tf.argmax(z)) == 2


@pytest.mark.parametrize("temperature", [1.0001, 2.0, 0.0, -1.0, float("nan")])
def test_interpolation_rejects(temperature):
    with pytest.raises(ValueError, match="Invalid value received for argument `temperature`"):
        R.interpolation(tf.zeros([3]), temperature)


@pytest.mark.parametrize("rho", [0.3, 0.8, 0.99])
def test_truncation_rule(rho):
    """K is where the cumulative sum of the sticks passes rho (Eq. 25 on the sticks)."""
    y = np.random.default_rng(1).normal(size=(200, 30))
    w = sticks(y)[:, :-1]
    passed = w.cumsum(-1)
    cut = R.truncate(R.log_stick_breaking(y), rho)
    for row in range(len(y)):
        over = np.flatnonzero(passed[row] > rho)
        keep = 30 if not len(over) else over[0] + 1
        assert cut.num_classes[row] == keep == int(cut.kept[row].numpy().sum())
        np.testing.assert_allclose(cut.mass[row], 1 - passed[row, keep - 1], atol=1e-12)


def test_truncated_sample_is_softmax_of_the_kept():
    y = np.random.default_rng(2).normal(size=(50, 12))
    z, cut = R.truncated_stick_breaking(y, 0.2, delta=0.5, precision=0.9)
    w, kept = sticks(y)[:, :-1], cut.kept.numpy()
    scores = np.where(kept, np.exp(w / 0.2), 0)
    expected = np.concatenate([scores, np.full([50, 1], 0.5)], -1)
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(z, expected, rtol=1e-10)
    assert np.all(z.numpy()[:, :-1][~kept] == 0)


@pytest.mark.parametrize("jit", [False, True])
def test_gradients_reach_only_the_kept(jit):
    y = tf.constant(np.random.default_rng(3).normal(size=(20, 40)), tf.float32)

    @tf.function(jit_compile=jit)
    def gradient(y):
        with tf.GradientTape() as tape:
            tape.watch(y)
            z, cut = R.truncated_stick_breaking(y, 0.2, precision=0.95)
            value = tf.reduce_sum(tf.square(z))
        return tape.gradient(value, y), cut.kept

    g, kept = gradient(y)
    assert np.all(g.numpy()[~kept.numpy()] == 0)
    assert np.all(g.numpy()[kept.numpy()] != 0)
    assert 0 < kept.numpy().mean() < 0.5


def test_more_room_changes_nothing():
    """The cut converges: with more classes at hand the same ones are kept."""
    y = np.random.default_rng(4).normal(size=(100, 400))
    small, cut = R.truncated_stick_breaking(y[:, :100], 0.1, precision=0.99)
    large, _ = R.truncated_stick_breaking(y, 0.1, precision=0.99)
    assert int(tf.reduce_max(cut.num_classes)) < 100
    np.testing.assert_allclose(large.numpy()[:, :99], small.numpy()[:, :99], rtol=1e-10)


@pytest.mark.parametrize("rho", [0.0, 1.0, -0.1, float("nan")])
def test_precision_is_checked(rho):
    with pytest.raises(ValueError, match="argument `precision`"):
        R.truncate(tf.zeros([3]), rho)
