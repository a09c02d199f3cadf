"""The study of Appendix A, against its formula evaluated sample by sample."""

import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

study = tfc.diagnostics.relaxation_gradients


def test_share_of_zeros_is_that_of_equation_26():
    """dz_k/dalpha_j = z_k (1[k = j] - z_j) / (t alpha_j), in float32, on the same samples."""
    num_samples, temperature = 2000, 0.1
    found = study("concrete", temperature, tf.zeros([10]), num_samples=num_samples, seed=4)
    z = tfc.relaxations.concrete(tf.zeros([num_samples, 10]), temperature, seed=4).numpy()
    jacobian = z[:, :, None] * (np.eye(10, dtype=np.float32) - z[:, None, :]) / temperature
    # TensorFlow's kernels flush denormals to zero, NumPy keeps them.
    expected = np.mean(np.abs(jacobian) < np.finfo(np.float32).tiny)
    assert found.vanishing > 0.05
    assert abs(found.vanishing - expected) < 0.01


def test_igr_gradient_statistics():
    """Variance and noise against the softmax Jacobian on the same samples."""
    loc, num_samples = tf.constant([0.3, -0.2, 0.1]), 4000
    found = study("igr", 0.5, loc, num_samples=num_samples, seed=2)
    copies = tf.repeat(loc[None], num_samples, 0)
    z = tfc.relaxations.igr(copies, 0.0, 0.5, seed=2).numpy().astype(np.float64)
    weights = np.linspace(-1, 1, 4)
    gradient = (z * (weights - z @ weights[:, None]))[:, :3] / 0.5
    variance = gradient.var(0, ddof=1).mean()
    np.testing.assert_allclose(found.variance, variance, rtol=1e-4)
    np.testing.assert_allclose(found.noise, variance / (gradient.mean(0) ** 2).mean(), rtol=1e-3)
    assert found.vanishing == 0.0 and found.temperature == 0.5


def test_pairs():
    rows = tfc.diagnostics.compare_relaxations([(0.15, 0.1), (0.67, 0.5)], num_samples=2000)
    assert len(rows) == 2
    for gs, igr in rows:
        assert (gs.family, igr.family) == ("concrete", "igr")
    # Colder means more vanishing gradients and more variance, for both.
    assert rows[0][0].vanishing > rows[1][0].vanishing
    assert rows[0][1].variance > rows[1][1].variance


def test_bad_arguments():
    with pytest.raises(ValueError, match="family"):
        study("gumbel", 0.5, tf.zeros([3]))
    with pytest.raises(ValueError, match="temperature"):
        study("igr", 0.0, tf.zeros([3]))
    with pytest.raises(ValueError, match="num_samples"):
        study("igr", 0.5, tf.zeros([3]), num_samples=1)
