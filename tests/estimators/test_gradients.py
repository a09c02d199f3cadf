"""Each gradient against a NumPy transcription of its formula, given draw and noise."""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import tfconcrete as tfc
from tfconcrete import noise
from tfconcrete._seeds import Stream, as_seed, fold_in

SEED = 17
ROWS, CLASSES = 40, 5
LOGITS = np.random.default_rng(0).normal(size=(ROWS, CLASSES)).astype(np.float32) * 1.5
UPSTREAM = np.random.default_rng(1).normal(size=(ROWS, CLASSES)).astype(np.float32)
GUMBEL = noise.gumbel([ROWS, CLASSES], SEED).numpy().astype(np.float64)
DRAWN = (LOGITS.astype(np.float64) + GUMBEL).argmax(-1)
ONE_HOT = np.eye(CLASSES)[DRAWN]


def softmax_gradient(scores, upstream=UPSTREAM):
    """Row by row: the Jacobian of the softmax as a matrix, times the incoming gradient."""
    rows = []
    for row, v in zip(scores.astype(np.float64), upstream.astype(np.float64), strict=True):
        p = scipy.special.softmax(row)
        rows.append((np.diag(p) - np.outer(p, p)) @ v)
    return np.stack(rows)


def gapped_scores(gap):
    """logits + m1 - m2 of Eq. 17 and 18, class by class."""
    scores = LOGITS.astype(np.float64).copy()
    for row, i in zip(scores, DRAWN, strict=True):
        top, p = row.max(), scipy.special.softmax(row)
        g = -np.log(1.0 - p[i]) / p[i] if gap == "pi" else gap
        for k in range(CLASSES):
            if k != i:
                row[k] -= max(row[k] + g - top, 0.0)
        row[i] += top - row[i]
    return scores


def check(vjp, function, expected, atol=5e-6):
    value, gradient = vjp(function, tf.constant(LOGITS), tf.constant(UPSTREAM))
    np.testing.assert_array_equal(value, ONE_HOT)
    np.testing.assert_allclose(gradient, expected, atol=atol)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_straight_through(vjp, temperature):
    check(
        vjp,
        lambda x: tfc.estimators.straight_through(x, temperature, seed=SEED),
        softmax_gradient(LOGITS / temperature) / temperature,
    )


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_straight_through_gumbel_softmax(vjp, temperature):
    expected = softmax_gradient((LOGITS + GUMBEL) / temperature) / temperature
    check(
        vjp,
        lambda x: tfc.estimators.straight_through_gumbel_softmax(x, temperature, seed=SEED),
        expected,
    )
    check(vjp, lambda x: tfc.gumbel_softmax(x, temperature, hard=True, seed=SEED), expected)


def given_draw(size, index):
    """Perturbed logits `[size, ROWS, CLASSES]` as Gumbel-Rao's chunk `index` draws them.

    It hands the noise logits shifted to a maximum of 0, classes first.
    """
    shifted = LOGITS - LOGITS.max(-1, keepdims=True)
    seed = fold_in(as_seed(SEED), index, Stream.GIVEN_DRAW)
    perturbed = noise.gumbel_given_winner(shifted.T, ONE_HOT.T, axis=0, num_samples=size, seed=seed)
    return np.swapaxes(perturbed.numpy(), 1, 2)


@pytest.mark.parametrize("num_samples", [1, 7, 23, 24, 29])
def test_gumbel_rao(vjp, num_samples):
    temperature, chunk = 0.6, 8 if num_samples >= 24 else num_samples
    # The noises given the draw, read back from the seeds of the chunks.
    sizes = [chunk] * (num_samples // chunk) + [num_samples % chunk] * (num_samples % chunk > 0)
    perturbed = np.concatenate([given_draw(size, index) for index, size in enumerate(sizes)])
    assert len(perturbed) == num_samples
    expected = np.mean([softmax_gradient(j / temperature) for j in perturbed], 0) / temperature
    check(
        vjp,
        lambda x: tfc.estimators.gumbel_rao(x, temperature, num_samples, seed=SEED),
        expected,
    )


@pytest.mark.parametrize("gap", [0.0, 0.8, 1.0, 1.2, 3, "pi"])
@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_gapped_straight_through(vjp, gap, temperature):
    scores = gapped_scores(gap) / temperature
    check(
        vjp,
        lambda x: tfc.estimators.gapped_straight_through(x, temperature, gap, seed=SEED),
        softmax_gradient(scores) / temperature,
    )
    soft = tfc.estimators.gapped_straight_through(
        tf.constant(LOGITS), temperature, gap, hard=False, seed=SEED
    )
    np.testing.assert_allclose(soft, scipy.special.softmax(scores, -1), atol=1e-6)


@pytest.mark.parametrize("gap", [0.0, 1.0, "pi"])
def test_gapped_straight_through_with_perturbation_gradient(vjp, gap):
    """The NZ ablation by central differences of the whole surrogate, draw held fixed."""
    temperature, step = 0.5, 1e-6

    def surrogate(logits):
        value = 0.0
        for row, i, v in zip(logits, DRAWN, UPSTREAM.astype(np.float64), strict=True):
            top, p = row.max(), scipy.special.softmax(row)
            g = -np.log1p(-p[i]) / p[i] if gap == "pi" else gap
            m2 = np.where(np.arange(CLASSES) == i, 0.0, np.maximum(row + g - top, 0.0))
            m1 = np.where(np.arange(CLASSES) == i, top - row[i], 0.0)
            value += scipy.special.softmax((row + m1 - m2) / temperature) @ v
        return value

    expected = np.zeros([ROWS, CLASSES])
    base = LOGITS.astype(np.float64)
    for index in np.ndindex(ROWS, CLASSES):
        up, down = base.copy(), base.copy()
        up[index] += step
        down[index] -= step
        expected[index] = (surrogate(up) - surrogate(down)) / (2 * step)
    check(
        vjp,
        lambda x: tfc.estimators.gapped_straight_through(
            x, temperature, gap, seed=SEED, perturbation_gradient=True
        ),
        expected,
        atol=2e-5,
    )


@pytest.mark.parametrize("temperature", [1.0, 1.5])
def test_reinmax(vjp, temperature):
    rows = []
    for row, d, v in zip(LOGITS.astype(np.float64), ONE_HOT, UPSTREAM, strict=True):
        p = scipy.special.softmax(row)
        q = (d + scipy.special.softmax(row / temperature)) / 2
        jacobian = 2 * (np.diag(q) - np.outer(q, q)) - (np.diag(p) - np.outer(p, p)) / 2
        rows.append(jacobian @ v)
    check(vjp, lambda x: tfc.estimators.reinmax(x, temperature, seed=SEED), np.stack(rows))


@pytest.mark.parametrize(
    "name",
    [
        "straight_through",
        "straight_through_gumbel_softmax",
        "gapped_straight_through",
        "gumbel_rao",
    ],
)
def test_gradient_of_the_temperature(name):
    """The surrogate depends on the temperature as well; central differences of it."""
    temperature, step = 0.8, 1e-5
    shifted = LOGITS - LOGITS.max(-1, keepdims=True)
    arguments = {}
    if name == "straight_through":
        scores = shifted[None]
    elif name == "straight_through_gumbel_softmax":
        scores = (shifted + GUMBEL)[None]
    elif name == "gapped_straight_through":
        scores = gapped_scores(1.0)[None]
    else:
        arguments = {"num_samples": 10}
        scores = given_draw(10, 0)

    def surrogate(temperature):
        soft = scipy.special.softmax(scores.astype(np.float64) / temperature, -1)
        return (soft.mean(0) * UPSTREAM).sum()

    expected = (surrogate(temperature + step) - surrogate(temperature - step)) / (2 * step)
    variable = tf.Variable(temperature)
    with tf.GradientTape() as tape:
        sample = getattr(tfc.estimators, name)(
            tf.constant(LOGITS), variable, seed=SEED, **arguments
        )
    gradient = tape.gradient(sample, variable, output_gradients=tf.constant(UPSTREAM))
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-4)


def test_gumbel_softmax_is_concrete_unless_hard():
    logits = tf.constant(LOGITS)
    np.testing.assert_array_equal(
        tfc.gumbel_softmax(logits, 0.3, seed=SEED),
        tfc.relaxations.concrete(logits, 0.3, seed=SEED),
    )
    np.testing.assert_array_equal(
        tfc.gumbel_softmax(tf.transpose(logits), hard=True, dim=0, seed=SEED).numpy().sum(0), 1.0
    )


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"tau": 0.0}, ValueError, "`tau`. Expected a positive finite number"),
        ({"hard": "yes"}, TypeError, "`hard`. Expected True or False"),
        ({"dim": 2}, ValueError, "`dim`"),
    ],
)
def test_gumbel_softmax_names_its_own_arguments(arguments, error, message):
    with pytest.raises(error) as caught:
        tfc.gumbel_softmax(tf.zeros([2, 3]), **arguments)
    assert message in str(caught.value)
