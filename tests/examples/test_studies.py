"""The numbers of the two studies: bounds by enumeration, entropies of the paper, distances."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

VARIABLES, CLASSES = 3, 4
NAMES = (
    "st",
    "reinmax",
    "stgs",
    "gr-mc100",
    "gst-0.0",
    "gst-0.8",
    "gst-1.0",
    "gst-1.2",
    "gst-pi",
    "nz-gst-0.0",
    "nz-gst-1.0",
    "rloo",
    "disarm-tree",
)


@pytest.fixture
def comparison(example):
    return example("estimator_comparison")


@pytest.fixture
def networks(example):
    keras.utils.set_random_seed(0)
    encoder, decoder = example("architectures").dense_pair((8,), VARIABLES, CLASSES)
    encoder.set_weights([3.0 * w for w in encoder.get_weights()])
    return encoder, decoder


def exact_negative_bound(encoder, decoder, image):
    """E[log q(z) - log p(z) - log p(x | z)] of one image over all states, and its spread."""
    log_q = tf.nn.log_softmax(encoder(image[None])[0]).numpy().astype("float64")
    codes = np.array(list(itertools.product(range(CLASSES), repeat=VARIABLES)))
    states = np.eye(CLASSES, dtype="float32")[codes]
    log_mass = np.sum(states * log_q, axis=(1, 2))
    logits = decoder(states).numpy()
    log_likelihood = np.sum(image * logits - np.logaddexp(0, logits), axis=(1, 2))
    ratio = log_mass + VARIABLES * np.log(CLASSES)
    mean, square = (np.sum(np.exp(log_mass) * (ratio - log_likelihood) ** n) for n in (1, 2))
    return mean, np.sqrt(square - mean**2)


def test_every_estimator_is_known(comparison):
    assert tuple(comparison.ESTIMATORS) == NAMES
    for plan in comparison.PLANS.values():
        assert set(plan.estimators) <= set(NAMES)
        for temperature, values in plan.paper.items():
            assert temperature in plan.temperatures and set(values) <= set(plan.estimators)


def test_paper_values_belong_to_their_setting(comparison):
    plans = comparison.PLANS
    assert comparison.published(comparison.DEFAULT, "gst-1.0", 0.5) == 108.43
    assert comparison.published(comparison.DEFAULT, "st", 0.5) == 133.84
    assert comparison.published(plans["4"], "gst-1.0", 0.5) == 96.09
    assert comparison.published(plans["7"], "gst-1.0", 0.1) == 107.73
    assert comparison.published(plans["7"], "gst-1.0", 0.5) == ""


@pytest.mark.parametrize("name", NAMES)
def test_loss_is_the_negative_bound(name, comparison, networks):
    encoder, decoder = networks
    image = np.random.default_rng(0).random([28, 28]).astype("float32")
    model = comparison.ESTIMATORS[name].make_model(encoder, decoder, 0.5, seed=1)
    copies = tf.constant(np.tile(image, [2_000, 1, 1]))
    with tf.GradientTape() as tape:
        loss = comparison.ESTIMATORS[name].loss(model, copies, 0.5)
    gradients = tape.gradient(loss, encoder.trainable_variables)
    assert all(np.all(np.isfinite(g)) and np.any(g != 0) for g in gradients)
    exact, spread = exact_negative_bound(encoder, decoder, image)
    assert abs(float(loss) - exact) < 5 * spread / np.sqrt(2_000) + 1e-3


def entropy(soft):
    return float(tf.reduce_mean(-tf.reduce_sum(tf.math.xlogy(soft, soft), -1)))


def test_entropies_of_section_5_1_2(comparison):
    """At temperature 0.1 early in training, when the ten classes are still alike."""
    logits = tf.zeros([3_000, 10])
    found = {
        name: entropy(comparison.ESTIMATORS[name].surrogate(logits, 0.1, seed=0))
        for name in ("gr-mc100", "stgs", "gst-1.2")
    }
    assert found["gr-mc100"] == pytest.approx(0.36, abs=0.03)
    assert found["stgs"] == pytest.approx(0.15, abs=0.02)
    assert found["gst-1.2"] == pytest.approx(0.0007, abs=0.0001)


def test_statistics_leave_the_model_alone(comparison, networks):
    estimator = comparison.ESTIMATORS["stgs"]
    schedule = tfc.schedules.MixedTemperature(low=0.1, mid=0.5, every=20)
    model = estimator.make_model(*networks, schedule, seed=0)
    statistics = comparison.GradientStatistics(estimator, 0.1, np.zeros([8, 28, 28], "float32"), 3)
    statistics.set_model(model)
    before = [v.numpy() for v in model.variables]
    statistics.on_train_begin()
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)
    assert statistics.initial["variance"] > 0 and statistics.initial["entropy"] > 0


def test_class_distances(example):
    points = np.array([[0.0, 0.0], [0.0, 2.0], [4.0, 0.0], [4.0, 2.0], [0.0, 4.0]])
    labels = np.array([3, 3, 7, 7, 9])
    # Centres (0, 1), (4, 1) and (0, 4): apart by 4, 3 and 5.
    intra, inter = example("temperature_study").class_distances(points, labels)
    assert intra == pytest.approx((1 + 1 + 0) / 3)
    assert inter == pytest.approx(4.0)


def test_principal_components(example):
    rng = np.random.default_rng(0)
    scales = np.array([3.0, 1.0, 0.1])
    rotation, _ = np.linalg.qr(rng.normal(size=[3, 3]))
    points = (rng.normal(size=[500, 3]) * scales) @ rotation + 5.0
    found, shares = example("temperature_study").principal_components(points)
    values = np.linalg.eigvalsh(np.cov(points.T))[::-1]
    np.testing.assert_allclose(np.var(found, axis=0, ddof=1), values[:2], rtol=1e-6)
    np.testing.assert_allclose(shares, values[:2] / values.sum(), rtol=1e-6)


def test_dynamic_binarization(example):
    """Pixels are on as often as they are bright, anew in every epoch, the same by seed."""
    brightness = np.linspace(0, 1, 28, dtype="float32")
    images = np.tile(brightness, [300, 28, 1])

    def make():
        return example("datasets").image_batches(images, binarize=True, seed=3, batch_size=100)

    first, second = (np.concatenate(list(batches)) for batches in [make()] * 2)
    assert first.shape == (300, 28, 28) and set(np.unique(first)) == {0.0, 1.0}
    assert np.any(first != second)
    count = 300 * 28
    error = np.sqrt(brightness * (1 - brightness) / count)
    assert np.all(np.abs(first.mean(axis=(0, 1)) - brightness) <= 5 * error)
    np.testing.assert_array_equal(first, np.concatenate(list(make())))
