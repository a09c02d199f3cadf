"""Distances to the vertices, calibrated temperatures, and the papers' advice."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

C, D = tfc.calibration, tfc.distributions


def concrete(temperature):
    return D.Concrete(temperature, logits=tf.zeros([10]))


def near(law, distance=0.2, seed=99):
    """The share of fresh samples that near, from a NumPy transcription."""
    z = law.sample(40_000, seed=seed).numpy()
    vertices = np.eye(z.shape[-1])
    distances = np.sqrt(((z[:, None] - vertices) ** 2).sum(-1)).min(-1)
    return np.mean(distances <= distance)


def test_vertex_distance():
    z = np.random.default_rng(0).dirichlet(np.full(4, 0.3), (5, 6))
    expected = np.sqrt(((z[..., None, :] - np.eye(4)) ** 2).sum(-1)).min(-1)
    np.testing.assert_allclose(C.vertex_distance(z), expected, atol=1e-12)
    moved = C.vertex_distance(np.moveaxis(z, -1, 0), axis=0)
    np.testing.assert_allclose(moved, expected, atol=1e-12)
    assert float(C.vertex_distance(tf.one_hot(1, 3))) == 0.0
    with pytest.raises(ValueError, match="sample"):
        C.vertex_distance(tf.zeros([3], tf.int32))


def test_ten_uniform_classes():
    """Section 5: 75% within 0.2, near 0.16 (Concrete) and 0.085 (IGR of scale 1)."""
    found = C.calibrate_temperature(concrete)
    assert abs(found - 0.16) < 0.01
    assert abs(near(concrete(found)) - 0.75) < 0.015
    loc = C.fit_igr_prior(np.full(10, 0.1), 0.085).loc
    found = C.calibrate_temperature(lambda t: D.IGR(loc, tf.ones(9), t))
    assert abs(found - 0.085) < 0.01
    assert abs(near(D.IGR(loc, tf.ones(9), found)) - 0.75) < 0.015


def test_distributions_layers_and_callables_agree():
    logits = tf.zeros([1, 10])
    expected = C.calibrate_temperature(concrete, num_samples=20_000)
    kwargs = {"num_samples": 20_000}
    layer = tfc.ConcreteSample(temperature=0.5, seed=0)
    state = layer.seed_generator.state.numpy()
    for source, inputs in (
        (concrete(1.0), None),
        (D.ExpConcrete(1.0, logits=tf.zeros([10])), None),
        (lambda t: concrete(t).sample(20_000, seed=5), None),
        (layer, logits),
        (tfc.ExpConcreteSample(), logits),
        (tfc.ConcreteSample(axis=0), tf.zeros([10])),
    ):
        found = C.calibrate_temperature(source, inputs=inputs, **kwargs)
        assert abs(found / expected - 1) < 0.03
    assert layer.temperature.numpy() == 0.5
    np.testing.assert_array_equal(layer.seed_generator.state, state)


def test_igr_layer_and_interpolation():
    inputs = [tf.zeros([3, 9]), tf.zeros([3, 9])]
    layer = tfc.IGRSample(temperature=0.5)
    found = C.calibrate_temperature(layer, inputs=inputs, num_samples=20_000)
    expected = C.calibrate_temperature(D.IGR(tf.zeros(9), tf.ones(9), 0.5), num_samples=20_000)
    assert abs(found / expected - 1) < 0.03
    law = D.IGR(tf.zeros(4), tf.ones(4), 0.5, "interpolation")
    assert 0 < C.calibrate_temperature(law, num_samples=5_000) < 1


def test_binary_families():
    expected = C.calibrate_temperature(D.Concrete(0.5, logits=tf.zeros([2])), num_samples=40_000)
    for law in (D.BinConcrete(0.5, logits=tf.zeros([1])), D.LogitBinConcrete(0.5, logits=[0.0])):
        assert abs(C.calibrate_temperature(law, num_samples=40_000) / expected - 1) < 0.05


def test_share_and_distance_matter():
    strict = C.calibrate_temperature(concrete, share=0.9, num_samples=10_000)
    loose = C.calibrate_temperature(concrete, distance=0.5, num_samples=10_000)
    assert strict < C.calibrate_temperature(concrete, num_samples=10_000) < loose


def test_bad_arguments():
    with pytest.raises(ValueError, match="No temperature"):
        C.calibrate_temperature(concrete, bounds=(0.5, 2.0), num_samples=1000)
    with pytest.raises(ValueError, match="No temperature"):
        C.calibrate_temperature(concrete, bounds=(0.01, 0.02), num_samples=1000)
    for kwargs in ({"share": 1.5}, {"distance": -1.0}, {"bounds": (2.0, 1.0)}, {"num_samples": 0}):
        with pytest.raises(ValueError, match=next(iter(kwargs))):
            C.calibrate_temperature(concrete, **kwargs)
    with pytest.raises(ValueError, match="inputs"):
        C.calibrate_temperature(tfc.ConcreteSample())
    with pytest.raises(TypeError, match="make_distribution"):
        C.calibrate_temperature(keras.layers.Dense(3))


@pytest.mark.parametrize(
    "num_classes, pair", [(2, (2 / 3, 1 / 2)), (4, (1, 2 / 3)), (8, (2 / 3, 2 / 5))]
)
def test_suggested_temperatures(num_classes, pair):
    """The pairs of Concrete, Appendix D.5, and the bound of Proposition 1 (d)."""
    found = C.suggest_temperature(num_classes)
    assert (found.posterior, found.prior) == pair
    assert found.bound == 1 / (num_classes - 1)


def test_suggestions_for_other_sizes():
    assert C.suggest_temperature(3)[:2] == C.suggest_temperature(4)[:2]
    assert C.suggest_temperature(100)[:2] == C.suggest_temperature(8)[:2]
    with pytest.raises(ValueError, match="num_classes"):
        C.suggest_temperature(1)
