"""Concrete and ExpConcrete functions against NumPy transcriptions of the paper."""

import math

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from tests.grids import grid
from tfconcrete import noise, relaxations

RNG = np.random.default_rng(0)


def numpy_log_density(x, temperature, logits):
    """Eq. 11, term by term, in double precision."""
    n = x.shape[-1]
    alpha = np.exp(logits)
    total = np.sum(alpha * x**-temperature, -1, keepdims=True)
    factors = alpha * x ** (-temperature - 1) / total
    return math.lgamma(n) + (n - 1) * math.log(temperature) + np.sum(np.log(factors), -1)


def numpy_log_kappa(y, temperature, logits):
    """Appendix C.3's log kappa as printed."""
    n = y.shape[-1]
    a = logits - temperature * y
    return (
        math.lgamma(n)
        + (n - 1) * math.log(temperature)
        + a.sum(-1)
        - n * scipy.special.logsumexp(a, -1)
    )


def simplex_points(shape):
    return RNG.dirichlet(np.ones(shape[-1]), size=shape[:-1])


@pytest.mark.parametrize("num_classes", [2, 3, 10])
@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0, 2.0])
def test_log_densities_equal_the_transcription(num_classes, temperature):
    x = simplex_points([50, num_classes])
    logits = RNG.normal(size=[50, num_classes])
    np.testing.assert_allclose(
        relaxations.concrete_log_prob(x, temperature, logits),
        numpy_log_density(x, temperature, logits),
        rtol=0,
        atol=1e-9,
    )
    np.testing.assert_allclose(
        relaxations.exp_concrete_log_prob(np.log(x), temperature, logits),
        numpy_log_kappa(np.log(x), temperature, logits),
        rtol=0,
        atol=1e-9,
    )


def test_sample_equals_equation_10():
    logits = RNG.normal(size=[6, 5]).astype(np.float32)
    gumbel = noise.gumbel([6, 5], seed=4).numpy()
    for temperature in (0.3, 2.0):
        expected = scipy.special.softmax((logits + gumbel) / temperature, -1)
        sample = relaxations.concrete(logits, temperature, seed=4)
        np.testing.assert_allclose(sample, expected, rtol=1e-5, atol=1e-7)
        log_sample = relaxations.exp_concrete(logits, temperature, seed=4)
        np.testing.assert_allclose(log_sample, np.log(expected), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_axis(axis):
    """Sampling along another axis is sampling on the transposed problem: a simplex there."""
    logits = tf.constant(RNG.normal(size=[3, 4, 5]), tf.float32)
    sample = relaxations.concrete(logits, 0.5, axis=axis, seed=1).numpy()
    np.testing.assert_allclose(sample.sum(axis), 1.0, rtol=1e-5)
    hard = relaxations.discretize(sample, axis).numpy()
    np.testing.assert_array_equal(hard.argmax(axis), sample.argmax(axis))
    np.testing.assert_array_equal(hard.sum(axis), 1.0)
    np.testing.assert_array_equal(relaxations.codes(sample, axis), sample.argmax(axis))
    moved = np.moveaxis(sample, axis, -1)
    moved_logits = np.moveaxis(logits.numpy(), axis, -1)
    np.testing.assert_allclose(
        relaxations.concrete_log_prob(sample, 0.5, logits, axis=axis),
        relaxations.concrete_log_prob(moved, 0.5, moved_logits),
        rtol=1e-4,
        atol=1e-4,
    )


def test_temperature_per_row():
    logits = RNG.normal(size=[4, 3])
    x = simplex_points([4, 3])
    temperature = np.array([[0.2], [0.5], [1.0], [3.0]])
    expected = [numpy_log_density(x[i], float(temperature[i, 0]), logits[i]) for i in range(4)]
    np.testing.assert_allclose(
        relaxations.concrete_log_prob(x, temperature, logits), expected, atol=1e-9
    )


MASK = np.array([True, False, True, True, False])


@pytest.mark.parametrize(
    ("fill", "compiled"),
    grid(
        [0.0, 1e4, np.inf, -np.inf, np.nan],
        [False, True],
        quick=lambda fill, compiled: not compiled or np.isnan(fill) or fill == np.inf,
    ),
)
def test_masked_classes_do_not_exist(fill, compiled):
    """Value and gradient are exactly zero there, and as without the classes elsewhere."""
    kept = tf.constant([0.3, -1.0, 2.0])
    logits = tf.constant(np.where(MASK, [0.3, 0, -1.0, 2.0, 0], fill), tf.float32)

    @tf.function(jit_compile=compiled)
    def run(logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            x = relaxations.concrete(logits, 0.7, class_mask=MASK, seed=2)
            y = relaxations.exp_concrete(logits, 0.7, class_mask=MASK, seed=2)
            target = tf.reduce_sum(x**2 * [1.0, 2, 3, 4, 5]) + tf.reduce_sum(tf.exp(y) ** 2)
        return x, y, tape.gradient(target, logits)

    x, y, gradient = (value.numpy() for value in run(logits))
    assert np.all(x[~MASK] == 0) and np.all(np.exp(y[~MASK]) == 0)
    assert np.all(gradient[~MASK] == 0)
    assert np.all(np.isfinite(x)) and np.all(np.isfinite(y)) and np.all(np.isfinite(gradient))
    gumbel = noise.gumbel([5], seed=2).numpy()[MASK]
    np.testing.assert_allclose(x[MASK], scipy.special.softmax((kept + gumbel) / 0.7), rtol=1e-5)


def test_row_with_nothing_kept():
    logits = tf.Variable(tf.zeros([2, 3]))
    mask = tf.constant([[True, True, False], [False, False, False]])
    with tf.GradientTape() as tape:
        x = relaxations.concrete(logits, 0.5, class_mask=mask, seed=0)
        loss = tf.reduce_sum(x**2)
    np.testing.assert_array_equal(x[1], 0.0)
    np.testing.assert_array_equal(tape.gradient(loss, logits)[1], 0.0)
    np.testing.assert_array_equal(relaxations.categorical(logits, mask, seed=0)[1], 0.0)


def test_masked_density_is_the_density_of_the_kept_classes():
    """Neither Gamma(K) nor the temperature's power counts a masked class."""
    for rows in ([True, False, True, True, False], [True, True, False, False, False]):
        mask = np.array(rows)
        small = simplex_points([7, mask.sum()])
        logits = RNG.normal(size=[7, 5])
        x = np.zeros([7, 5])
        x[:, mask] = small
        logits_nan = np.where(mask, logits, np.nan)
        for temperature in (0.3, 1.7):
            np.testing.assert_allclose(
                relaxations.concrete_log_prob(x, temperature, logits_nan, class_mask=mask),
                numpy_log_density(small, temperature, logits[:, mask]),
                atol=1e-9,
            )
            y = np.where(mask, np.log(np.where(mask, x, 1.0)), -1e9)
            np.testing.assert_allclose(
                relaxations.exp_concrete_log_prob(y, temperature, logits, class_mask=mask),
                numpy_log_kappa(np.log(small), temperature, logits[:, mask]),
                atol=1e-9,
            )


@pytest.mark.parametrize(
    ("temperature", "scale", "compiled"),
    grid(
        [0.01, 0.1, 10.0],
        [1.0, 1e4],
        [False, True],
        quick=lambda t, scale, compiled: not compiled or (t, scale) == (0.01, 1e4),
    ),
)
def test_extremes_stay_finite(temperature, scale, compiled):
    """Any temperature in [0.01, 10] with logits up to 1e4: samples, densities, gradients."""
    logits = tf.constant(RNG.uniform(-scale, scale, size=[20, 50]), tf.float32)

    @tf.function(jit_compile=compiled)
    def run(logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            x = relaxations.concrete(logits, temperature, seed=1)
            y = relaxations.exp_concrete(logits, temperature, seed=1)
            target = tf.reduce_sum(
                relaxations.concrete_log_prob(x, temperature, logits)
                + relaxations.exp_concrete_log_prob(y, temperature, logits)
            )
        return x, y, target, tape.gradient(target, logits)

    for value in run(logits):
        assert np.all(np.isfinite(value))


def test_large_equal_logits_leave_the_noise_whole():
    """1e4 + Gumbel has steps of 1e-3 in float32; the shift keeps the draw exact."""
    small = relaxations.concrete(tf.zeros([50, 10]), 0.1, seed=3)
    large = relaxations.concrete(tf.fill([50, 10], 1e4), 0.1, seed=3)
    np.testing.assert_array_equal(small, large)


def test_infinite_logits_act_as_large_ones():
    logits = tf.constant([0.0, -np.inf, 1.0])
    for compiled in (False, True):

        @tf.function(jit_compile=compiled)
        def run(logits):
            with tf.GradientTape() as tape:
                tape.watch(logits)
                loss = tf.reduce_sum(relaxations.concrete(logits, 0.5, seed=0) ** 2)
            return loss, tape.gradient(loss, logits)

        loss, gradient = run(logits)
        assert np.isfinite(loss) and np.all(np.isfinite(gradient))
    np.testing.assert_array_equal(
        relaxations.concrete(tf.constant([0.0, np.inf, 1.0]), 0.5, seed=0), [0.0, 1.0, 0.0]
    )


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64])
def test_dtypes(dtype):
    logits = tf.cast(RNG.normal(size=[8, 6]), dtype)
    for function in (relaxations.concrete, relaxations.exp_concrete):
        sample = function(logits, 0.05, seed=0)
        assert sample.dtype == dtype
        assert np.all(np.isfinite(tf.cast(sample, tf.float64)))
    assert relaxations.categorical(logits, seed=0).dtype == dtype


def test_vertex_has_a_finite_density():
    for temperature in (0.01, 0.5, 10.0):
        for compiled in (False, True):
            density = tf.function(relaxations.concrete_log_prob, jit_compile=compiled)
            value = density(tf.constant([0.0, 1.0, 0.0]), temperature, tf.zeros([3]))
            assert np.isfinite(value)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_densities_along_any_axis_with_temperatures_of_any_rank(axis, rank):
    """Against the transcription, row by row."""
    rows = simplex_points([3, 4, 5])
    logits = RNG.normal(size=[3, 4, 5])
    temperature = RNG.uniform(0.5, 2.0, size=[3, 4, 5])
    temperature = np.moveaxis(temperature[..., :1], -1, axis)
    temperature = temperature[(0,) * (3 - rank)]  # without its leading dimensions
    full = np.broadcast_to(temperature, np.moveaxis(rows, -1, axis).shape)
    if full.shape[axis] != 1 and temperature.ndim and np.ptp(full, axis=axis).max() > 0:
        pytest.skip("no temperature of this rank has size 1 along the axis")
    own = np.moveaxis(full, axis, -1)[..., 0]
    for name, reference, points in (
        ("concrete_log_prob", numpy_log_density, rows),
        ("exp_concrete_log_prob", numpy_log_kappa, np.log(rows)),
    ):
        expected = [
            reference(points[index], own[index], logits[index]) for index in np.ndindex(3, 4)
        ]
        found = getattr(relaxations, name)(
            np.moveaxis(points, -1, axis), temperature, np.moveaxis(logits, -1, axis), axis=axis
        )
        np.testing.assert_allclose(np.ravel(found), expected, rtol=1e-6)


@pytest.mark.parametrize("temperature", [1e-6, 1e6, 1e9, 1e20, 1e36])
def test_masked_samples_at_any_temperature(temperature):
    """They sum to 1 over the kept classes; when hot they are uniform over them."""
    logits = tf.constant(RNG.normal(size=[50, 9]), tf.float32)
    mask = np.arange(9) % 2 == 0
    x = relaxations.concrete(logits, temperature, mask, seed=0).numpy()
    np.testing.assert_allclose(x.sum(-1), 1.0, rtol=1e-5)
    assert not x[:, ~mask].any()
    if temperature > 1:
        np.testing.assert_allclose(x[:, mask], 0.2, rtol=1e-4)
    y = relaxations.exp_concrete(logits, temperature, mask, seed=0).numpy()
    np.testing.assert_allclose(np.exp(y), x, rtol=1e-5)


def test_rows_of_minus_infinity_are_uniform_over_what_is_kept():
    """In the mean of many samples, and one by one when hot."""
    logits = np.full([20_000, 4], -np.inf, np.float32)
    for mask in (None, np.array([True, False, True, True])):
        kept = np.ones(4, bool) if mask is None else mask
        x = relaxations.concrete(logits, 0.5, mask, seed=0).numpy()
        np.testing.assert_allclose(x.sum(-1), 1.0, rtol=1e-5)
        error = x[:, kept].std(0) / np.sqrt(20_000)
        assert np.all(np.abs(x[:, kept].mean(0) - 1 / kept.sum()) < 5 * error)
        hot = relaxations.concrete(logits[:5], 1e6, mask, seed=0).numpy()
        np.testing.assert_allclose(hot, np.tile(kept / kept.sum(), [5, 1]), rtol=1e-4)
