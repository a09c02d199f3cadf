"""Score-function estimators against exact enumeration and NumPy transcriptions."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.estimators.enumeration import (
    assert_mean,
    binary_states,
    draw_gradients,
    exact_gradients,
    log_joint,
    one_hot_states,
)
from tests.grids import grid

random = np.random.default_rng(0)
CATEGORICAL = random.normal(size=[2, 3])
CATEGORICAL_WEIGHTS = random.normal(size=[6, 4])
BINARY = np.array([0.4, -1.2, 0.9])
BINARY_WEIGHTS = random.normal(size=[3, 4])
LATENTS = {
    "categorical": (-1, one_hot_states(2, 3), CATEGORICAL, CATEGORICAL_WEIGHTS),
    "binary": (None, binary_states(3), BINARY, BINARY_WEIGHTS),
}


def nvil(objective, logits, **arguments):
    return tfc.estimators.nvil(objective, logits, **arguments).surrogate


ESTIMATORS = {
    "reinforce": tfc.estimators.reinforce,
    "reinforce, 3 samples": functools.partial(tfc.estimators.reinforce, num_samples=3),
    "reinforce, baseline": functools.partial(tfc.estimators.reinforce, baseline=-9.0),
    "nvil": functools.partial(nvil, baseline=-8.0, moments=(-1.0, 4.0)),
    "rloo, 2 samples": tfc.estimators.rloo,
    "rloo, 4 samples": functools.partial(tfc.estimators.rloo, num_samples=4),
    "disarm_tree": tfc.estimators.disarm_tree,
    "disarm_tree, 2 pairs": functools.partial(tfc.estimators.disarm_tree, num_samples=4),
}


@pytest.mark.parametrize("latent", LATENTS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_elbo_gradient_is_the_enumerated_one(name, latent):
    axis, states, logits, weights = LATENTS[latent]
    estimator = functools.partial(ESTIMATORS[name], axis=axis)
    exact_value, exact = exact_gradients(states, logits, weights)
    values, draws = draw_gradients(estimator, logits, weights, seed=3)
    assert_mean(values, exact_value)
    for draw, gradient in zip(draws, exact, strict=True):
        assert_mean(draw, gradient, resolution=0.15)


@pytest.mark.parametrize("name", ["reinforce", "rloo, 2 samples", "disarm_tree"])
def test_log_q_inside_an_elbo_may_be_stopped(name):
    axis, states, logits, weights = LATENTS["categorical"]
    _, exact = exact_gradients(states, logits, weights)
    _, draws = draw_gradients(ESTIMATORS[name], logits, weights, seed=4, stop_log_q=True)
    for draw, gradient in zip(draws, exact, strict=True):
        assert_mean(draw, gradient)


@pytest.mark.parametrize("latent", LATENTS)
@pytest.mark.parametrize("num_samples", [2, 3])
def test_vimco_gradient_is_that_of_the_enumerated_bound(num_samples, latent):
    axis, states, logits, weights = LATENTS[latent]
    estimator = functools.partial(tfc.estimators.vimco, num_samples=num_samples, axis=axis)
    exact_value, exact = exact_gradients(states, logits, weights, num_samples)
    values, draws = draw_gradients(estimator, logits, weights, seed=5)
    assert_mean(values, exact_value)
    for draw, gradient in zip(draws, exact, strict=True):
        assert_mean(draw, gradient, resolution=0.15)


def test_the_exact_targets_differ():
    """Enumeration tells L_1, L_2 and L_3 apart by more than the tests' tolerance."""
    _, states, logits, weights = LATENTS["categorical"]
    gradients = [exact_gradients(states, logits, weights, m)[1][0] for m in [None, 1, 2, 3]]
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-10)
    assert np.abs(gradients[1] - gradients[2]).max() > 0.05
    assert np.abs(gradients[2] - gradients[3]).max() > 0.02


def reference_vimco_signal(log_w):
    """Mnih & Rezende (2016), sample by sample."""
    m = len(log_w)
    bound = np.log(np.mean(np.exp(log_w), axis=0))
    signal = []
    for i in range(m):
        other = np.delete(log_w, i, axis=0)
        stand_in = np.exp(other.mean(axis=0))
        signal.append(bound - np.log((np.exp(other).sum(axis=0) + stand_in) / m))
    return bound, np.array(signal)


def score_gradient(surrogate, values, log_q):
    """Value of a surrogate and its gradients with respect to both of its inputs."""
    values, log_q = tf.constant(values), tf.constant(log_q)
    with tf.GradientTape() as tape:
        tape.watch([values, log_q])
        result = surrogate(values, log_q)
    gradients = tape.gradient(result, [values, log_q])
    return result.numpy(), *(gradient.numpy() for gradient in gradients)


@pytest.mark.parametrize("num_samples", [2, 3, 7])
def test_vimco_signal_against_a_transcription(num_samples):
    log_w = random.normal(size=[num_samples, 5]) * 4.0
    log_q = random.normal(size=[num_samples, 5])
    value, pathwise, signal = score_gradient(tfc.estimators.vimco_surrogate, log_w, log_q)
    bound, expected = reference_vimco_signal(log_w)
    np.testing.assert_allclose(value, bound, rtol=1e-12)
    np.testing.assert_allclose(signal, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(pathwise, np.exp(log_w) / np.exp(log_w).sum(axis=0), rtol=1e-10)


def test_vimco_survives_dominant_and_impossible_samples():
    log_w = np.array([[-5000.0, -np.inf], [0.0, -300.0], [-9000.0, -310.0]], np.float32)
    value, _, signal = score_gradient(
        tfc.estimators.vimco_surrogate, log_w, np.zeros([3, 2], np.float32)
    )
    assert np.isfinite(value).all()
    # Without its dominant sample the first bound is that of -5000 and the mean, -7000.
    np.testing.assert_allclose(signal[1, 0], 5000.0, rtol=1e-4)
    assert np.isfinite(signal[:, 0]).all() and np.isfinite(signal[1, 1])
    possible, stand_in = 1 + np.exp(-10.0), np.exp(-5.0)
    np.testing.assert_allclose(
        signal[0, 1], np.log(possible) - np.log(possible + stand_in), rtol=1e-4
    )


def test_rloo_and_reinforce_signals_against_transcriptions():
    values, log_q = random.normal(size=[4, 3]), random.normal(size=[4, 3])
    mean, pathwise, signal = score_gradient(tfc.estimators.rloo_surrogate, values, log_q)
    expected = [values[i] - np.delete(values, i, axis=0).mean(axis=0) for i in range(4)]
    np.testing.assert_allclose(signal, np.array(expected) / 4, rtol=1e-10)
    np.testing.assert_allclose(pathwise, np.full([4, 3], 0.25), rtol=1e-12)
    np.testing.assert_allclose(mean, values.mean(axis=0), rtol=1e-12)
    baseline = random.normal(size=[3])
    surrogate = functools.partial(tfc.estimators.reinforce_surrogate, baseline=baseline)
    _, _, signal = score_gradient(surrogate, values, log_q)
    np.testing.assert_allclose(signal, (values - baseline) / 4, rtol=1e-10)


def test_nvil_against_a_transcription():
    values, log_q = random.normal(size=[2, 5]) * 6, random.normal(size=[2, 5])
    baseline, mean, variance = random.normal(size=[5]), 0.7, 9.0

    def surrogate(values, log_q):
        result = tfc.estimators.nvil_surrogate(
            values, log_q, baseline, (mean, variance), normalize=True, decay=0.9
        )
        surrogate.moments = [moment.numpy() for moment in result.moments]
        return result.surrogate

    _, _, signal = score_gradient(surrogate, values, log_q)
    residual = values - baseline
    np.testing.assert_allclose(signal, (residual - mean) / 3.0 / 2, rtol=1e-10)
    np.testing.assert_allclose(
        surrogate.moments,
        [0.9 * mean + 0.1 * residual.mean(), 0.9 * variance + 0.1 * residual.var()],
        rtol=1e-10,
    )
    small = tfc.estimators.nvil_surrogate(values, log_q, baseline, (mean, 0.01), normalize=True)
    plain = tfc.estimators.nvil_surrogate(values, log_q, baseline, (mean, 0.01))
    np.testing.assert_array_equal(small.surrogate, plain.surrogate)


def test_nvil_baseline_learns_the_mean_and_nothing_else_learns_from_its_loss():
    baseline = tf.Variable([1.0, -2.0])
    values, log_q = tf.Variable([[3.0, 4.0]]), tf.Variable([[0.1, 0.2]])
    with tf.GradientTape(persistent=True) as tape:
        result = tfc.estimators.nvil_surrogate(values, log_q, baseline)
    np.testing.assert_allclose(tape.gradient(result.baseline_loss, baseline), [-4.0, -12.0])
    assert tape.gradient(result.baseline_loss, values) is None
    assert tape.gradient(result.baseline_loss, log_q) is None
    np.testing.assert_array_equal(
        tape.gradient(result.surrogate, baseline, unconnected_gradients="zero"), [0.0, 0.0]
    )


def test_baselines_reduce_variance_on_a_shifted_objective():
    weights = BINARY_WEIGHTS
    variance = {}
    for name, estimator in {
        "reinforce": functools.partial(tfc.estimators.reinforce, num_samples=2),
        "rloo": tfc.estimators.rloo,
        "disarm": tfc.estimators.disarm,
        "reinforce4": functools.partial(tfc.estimators.reinforce, num_samples=4),
        "disarm4": functools.partial(tfc.estimators.disarm, num_samples=4),
    }.items():

        def shifted(objective, logits, seed, estimator=estimator):
            return estimator(
                lambda z, log_q: objective(z, log_q) + 30.0, logits, axis=None, seed=seed
            )

        _, draws = draw_gradients(
            shifted, BINARY, weights, seed=6, stop_log_q=True, num_draws=20_000
        )
        variance[name] = draws[0].var(axis=0).sum()
    assert variance["rloo"] < 0.5 * variance["reinforce"]
    assert variance["disarm"] < variance["rloo"]
    np.testing.assert_allclose(variance["reinforce4"], variance["reinforce"] / 2, rtol=0.1)
    np.testing.assert_allclose(variance["disarm4"], variance["disarm"] / 2, rtol=0.1)


@pytest.mark.parametrize("name", ["reinforce", "rloo", "vimco"])
def test_stacked_layers_give_the_enumerated_gradient(name):
    """Two layers, z2's logits a function of z1: one log q is the sum of both."""
    num_draws, num_samples = 60_000, 2
    first_logits = np.array([0.5, -0.8])
    matrix = random.normal(size=[2, 3])
    table = random.normal(size=[2, 2, 3]) * 2.0

    def log_weights(z1, z2, log_q):
        index = tf.cast(z1, tf.int32)
        rows = tf.gather_nd(tf.constant(table, z2.dtype), index)
        return tf.reduce_sum(rows * z2, axis=-1) - log_q

    pairs = list(itertools.product(binary_states(2), np.eye(3)))
    z1 = tf.constant([z1 for z1, _ in pairs])
    z2 = tf.constant([z2 for _, z2 in pairs])
    logits, coupling = tf.Variable(first_logits), tf.Variable(matrix)
    with tf.GradientTape() as tape:
        p1 = tf.sigmoid(logits)
        log_q = tf.reduce_sum(tf.math.log(z1 * p1 + (1 - z1) * (1 - p1)), -1)
        log_q += tf.reduce_sum(z2 * tf.nn.log_softmax(z1 @ coupling), -1)
        terms = log_weights(z1, z2, log_q)
        if name == "vimco":
            joint = log_q[:, None] + log_q[None, :]
            bound = tf.reduce_logsumexp(tf.stack(tf.meshgrid(terms, terms, indexing="ij")), axis=0)
            value = tf.reduce_sum(tf.exp(joint) * (bound - np.log(2.0)))
        else:
            value = tf.reduce_sum(tf.exp(log_q) * terms)
    exact = tape.gradient(value, [logits, coupling])

    logits = tf.constant(np.repeat(first_logits[None], num_draws, 0), tf.float32)
    coupling = tf.constant(np.repeat(matrix[None], num_draws, 0), tf.float32)
    surrogate = getattr(tfc.estimators, f"{name}_surrogate")
    with tf.GradientTape() as tape:
        tape.watch([logits, coupling])
        z1, log_q1 = tfc.estimators.sample_and_log_prob(
            logits, num_samples=num_samples, axis=None, seed=7
        )
        second_logits = tf.einsum("mnu,nuk->mnk", z1, coupling)
        z2, log_q2 = tfc.estimators.sample_and_log_prob(second_logits, batch_ndims=2, seed=8)
        log_q = log_q1 + log_q2
        total = tf.reduce_sum(surrogate(log_weights(z1, z2, log_q), log_q))
    found = tape.gradient(total, [logits, coupling])
    for draws, gradient in zip(found, exact, strict=True):
        assert_mean(draws, gradient.numpy())


@pytest.mark.parametrize("name", ["reinforce", "rloo", "vimco", "disarm_tree"])
def test_masked_classes(name):
    """Whatever a masked logit is: never drawn, gradient zero, the rest as enumerated."""
    estimator = getattr(tfc.estimators, name)
    mask = np.array([[True, True, True], [True, False, True]])
    states = np.array([s for s in one_hot_states(2, 3) if not (s * ~mask).any()])
    logits = np.where(mask, CATEGORICAL, np.nan)
    hidden = np.where(mask, CATEGORICAL, -700.0)
    bound = 2 if name == "vimco" else None
    _, exact = exact_gradients(states, hidden, CATEGORICAL_WEIGHTS, bound)
    seen = []

    def watched(objective, logits, seed):
        def watch(sample, log_q):
            seen.append(sample.numpy())
            return objective(sample, log_q)

        samples = {} if name == "reinforce" else {"num_samples": 2}
        return estimator(watch, logits, class_mask=mask, seed=seed, **samples)

    _, draws = draw_gradients(watched, logits, CATEGORICAL_WEIGHTS, seed=9)
    assert not seen[0][:, :, 1, 1].any()
    np.testing.assert_array_equal(seen[0].sum(axis=-1), 1.0)
    assert not draws[0][:, 1, 1].any()
    for draw, gradient in zip(draws, exact, strict=True):
        assert_mean(draw, np.where(np.isfinite(gradient), gradient, 0.0))


@pytest.mark.parametrize("axis", [-1, None])
@pytest.mark.parametrize("name", ["rloo", "disarm_tree"])
def test_a_row_without_classes_gives_zeros(name, axis):
    mask = np.array([[False, False, False], [True, True, True]])
    logits = tf.Variable(np.where(mask, 0.5, np.inf)[None].repeat(4, 0), dtype=tf.float32)
    samples = []

    def objective(sample, log_q):
        samples.append(sample.numpy())
        return tf.reduce_sum(sample * [1.0, 2.0, 3.0], [-2, -1]) - log_q

    with tf.GradientTape() as tape:
        surrogate = getattr(tfc.estimators, name)(
            objective, logits, class_mask=mask, axis=axis, seed=0
        )
    gradient = tape.gradient(surrogate, logits).numpy()
    assert not samples[0][:, :, 0].any() and samples[0][:, :, 1].any()
    assert not gradient[:, 0].any() and np.isfinite(gradient).all()
    assert np.isfinite(surrogate).all()


SIX = {
    "reinforce": tfc.estimators.reinforce,
    "nvil": functools.partial(nvil, moments=(0.0, 1.0), normalize=True),
    "vimco": tfc.estimators.vimco,
    "rloo": tfc.estimators.rloo,
    "disarm": tfc.estimators.disarm,
    "disarm_tree": tfc.estimators.disarm_tree,
}


@pytest.mark.parametrize("name", grid(SIX, quick=lambda name: name in ("rloo", "disarm_tree")))
def test_one_step_for_all_six_eager_and_xla(name):
    """The same seed gives the same values and gradients; the batch size is unknown."""
    weights = tf.Variable(random.normal(size=[1, 6, 4]), dtype=tf.float32)

    def step(logits, seed):
        def objective(sample, log_q):
            tiled = tf.tile(weights, [tf.shape(sample)[1], 1, 1])
            return log_joint(sample, tiled) - log_q

        with tf.GradientTape() as tape:
            tape.watch(logits)
            surrogate = SIX[name](objective, logits, num_samples=4, axis=-1, seed=seed)
            loss = -tf.reduce_mean(surrogate)
        return [surrogate, *tape.gradient(loss, [logits, weights])]

    logits = tf.constant(random.normal(size=[5, 3, 2]), tf.float32)
    signature = [
        tf.TensorSpec([None, 3, 2], tf.float32),
        tf.TensorSpec([2], tf.int32),
    ]
    seed = tf.constant([1, 2])
    eager = step(logits, seed)
    graph = tf.function(step, input_signature=signature)(logits, seed)
    xla = tf.function(step, input_signature=signature, jit_compile=True)(logits, seed)
    other = step(logits, tf.constant([3, 4]))
    for a, b, c in zip(eager, graph, xla, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(a, c, rtol=1e-4, atol=1e-4)
    assert np.abs(eager[1] - other[1]).max() > 1e-3


@pytest.mark.parametrize("name", SIX)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dtypes(name, dtype):
    """Half precision is computed in float32: the bound's own digits are not lost."""
    logits = tf.cast([[[0.5, -30000.0], [-0.25, 1.0]]], dtype)
    seen = []

    def objective(sample, log_q):
        seen.append((sample.dtype, log_q.dtype))
        return tf.reduce_sum(sample[..., 0], -1) - 1000.0 - tf.cast(log_q, dtype)

    with tf.GradientTape() as tape:
        tape.watch(logits)
        surrogate = SIX[name](objective, logits, num_samples=2, axis=-1, seed=0)
    gradient = tape.gradient(surrogate, logits)
    working = tf.float64 if dtype == "float64" else tf.float32
    assert seen == [(logits.dtype, working)]
    assert surrogate.dtype == working and gradient.dtype == logits.dtype
    assert np.isfinite(tf.cast(gradient, tf.float32)).all()


def test_axis_and_batch_dimensions():
    """Classes on another axis, or another number of batch dimensions, change nothing."""
    logits = random.normal(size=[4, 5, 2, 3]).astype(np.float32)
    sample, log_q = tfc.estimators.sample_and_log_prob(logits, num_samples=3, batch_ndims=2, seed=0)
    assert sample.shape == [3, 4, 5, 2, 3] and log_q.shape == [3, 4, 5]
    expected = np.sum(sample * tf.nn.log_softmax(logits).numpy(), axis=(-2, -1))
    np.testing.assert_allclose(log_q, expected, rtol=1e-5)
    moved, log_q = tfc.estimators.sample_and_log_prob(
        np.moveaxis(logits, -1, 2), num_samples=3, axis=2, batch_ndims=1, seed=0
    )
    assert moved.shape == [3, 4, 5, 3, 2] and log_q.shape == [3, 4]
    np.testing.assert_array_equal(tf.reduce_sum(moved, axis=-2), tf.ones([3, 4, 5, 2]))
    probs = tf.nn.log_softmax(logits).numpy()
    expected = np.sum(np.moveaxis(moved, -2, -1) * probs, axis=(-3, -2, -1))
    np.testing.assert_allclose(log_q, expected, rtol=1e-5)
    value = tfc.estimators.reinforce(
        lambda z, log_q: z[:, 1], tf.constant([0.0, 1e4]), batch_ndims=0, seed=0
    )
    assert float(value) == 1.0


def test_seed_generators_advance():
    generator = keras.random.SeedGenerator(0)
    draws = [
        tfc.estimators.sample_and_log_prob(tf.zeros([50, 3]), seed=generator)[0] for _ in range(2)
    ]
    assert np.any(draws[0] != draws[1])


def first_class(sample, log_q):
    return tf.reduce_sum(sample[..., 0], axis=-1)


@pytest.mark.parametrize("name", SIX)
@pytest.mark.parametrize("num_samples", [0, -1])
def test_num_samples_below_one(name, num_samples):
    with pytest.raises(ValueError, match="`num_samples`"):
        SIX[name](first_class, tf.zeros([4, 2, 2]), num_samples=num_samples, axis=-1)


@pytest.mark.parametrize("name", ["rloo", "vimco", "disarm", "disarm_tree"])
def test_one_sample_is_too_few(name):
    with pytest.raises(ValueError, match="Invalid value .*`num_samples`.*Received: num_sam"):
        SIX[name](first_class, tf.zeros([4, 2, 2]), num_samples=1, axis=-1)


@pytest.mark.parametrize("name", SIX)
@pytest.mark.parametrize(
    "error, match, arguments",
    [
        (TypeError, "`num_samples`", {"num_samples": 2.0}),
        (TypeError, "`objective`", {"objective": 3.0}),
        (ValueError, "`objective`", {"objective": lambda z, log_q: log_q[0]}),
        (ValueError, "`objective`", {"objective": lambda z, log_q: z[..., 0]}),
        (ValueError, "`objective`", {"objective": lambda z, log_q: tf.cast(log_q, tf.int32)}),
        (ValueError, "`logits`", {"logits": tf.zeros([4, 2, 1])}),
        (TypeError, "`logits`", {"logits": tf.zeros([4, 2, 2], tf.int32)}),
        (ValueError, "`axis`", {"axis": 3}),
        (ValueError, "`axis`", {"axis": 0}),
        (ValueError, "`logits`", {"axis": None, "batch_ndims": 4}),
        (ValueError, "`batch_ndims`", {"batch_ndims": -1}),
        (TypeError, "`class_mask`", {"class_mask": np.ones([2])}),
        (ValueError, "`class_mask`", {"class_mask": np.ones([3], bool)}),
        (TypeError, "`seed`", {"seed": "one"}),
    ],
)
def test_bad_arguments(name, error, match, arguments):
    given = {
        "objective": first_class,
        "logits": tf.zeros([2, 2, 2]),
        "num_samples": 2,
        "axis": -1,
    }
    with pytest.raises(error, match=match):
        SIX[name](**{**given, **arguments})


def test_bad_baselines_and_moments():
    logits = tf.zeros([4, 2, 3])
    for estimator in [tfc.estimators.reinforce, tfc.estimators.nvil]:
        for baseline in [tf.zeros([4, 1]), tf.zeros([3]), tf.zeros([1, 1, 4])]:
            with pytest.raises(ValueError, match="`baseline`"):
                estimator(first_class, logits, baseline=baseline)
    for arguments in [
        {"normalize": True},
        {"moments": 1.0},
        {"moments": (0.0, 1.0, 2.0)},
    ]:
        with pytest.raises(ValueError, match="`moments`"):
            tfc.estimators.nvil(first_class, logits, **arguments)
    with pytest.raises(ValueError, match="`decay`"):
        tfc.estimators.nvil(first_class, logits, decay=1.5)
    with pytest.raises(TypeError, match="`normalize`"):
        tfc.estimators.nvil(first_class, logits, normalize=1)


@pytest.mark.parametrize("name", ["reinforce", "nvil", "vimco", "rloo"])
def test_bad_surrogate_arguments(name):
    surrogate = getattr(tfc.estimators, f"{name}_surrogate")
    with pytest.raises(ValueError, match="Expected the shape of `log_q`"):
        surrogate(tf.zeros([2, 3]), tf.zeros([2, 4]))
    with pytest.raises(ValueError, match="num_samples"):
        surrogate(tf.zeros([0, 3]), tf.zeros([0, 3]))
    with pytest.raises(TypeError, match="`log_q`"):
        surrogate(tf.zeros([2, 3]), tf.zeros([2, 3], tf.int32))
    if name in ("vimco", "rloo"):
        with pytest.raises(ValueError, match="at least 2"):
            surrogate(tf.zeros([1, 3]), tf.zeros([1, 3]))
