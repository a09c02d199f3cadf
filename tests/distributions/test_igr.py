"""IGR: densities, KL, rounding probabilities, truncation, TFP's machinery."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from scipy import stats

import tfconcrete as tfc

tfd = tfp.distributions
IGR = tfc.distributions.IGR


def flow(num_free, seed=0, dtype=tf.float64):
    return tfc.bijectors.PlanarFlow.create(2, num_free, scale=1.0, seed=seed, dtype=dtype)


TRANSFORMS = {
    "softmax++": lambda n: "softmax++",
    "stick_breaking": lambda n: "stick_breaking",
    "interpolation": lambda n: "interpolation",
    "planar flow": flow,
    "sticks alone": lambda n: tfc.bijectors.StickBreaking(),
}


@pytest.fixture(params=TRANSFORMS)
def transform(request):
    return TRANSFORMS[request.param]


def make(transform, loc, scale, temperature=0.6, dtype=np.float64, **kwargs):
    loc, scale = np.asarray(loc, dtype), np.asarray(scale, dtype)
    return IGR(loc, scale, temperature, transform(loc.shape[-1]), **kwargs)


# Densities


@pytest.mark.parametrize("temperature", [0.4, 1.0])
def test_density_of_two_classes(transform, temperature):
    """Integrates to 1, and its integral over each bin is the share of samples there."""
    d = make(transform, [0.4], [0.9], temperature, delta=0.7)
    count, bins = 200_000, 20
    x = (np.arange(count) + 0.5) / count
    density = d.prob(np.stack([x, 1 - x], -1)).numpy()
    assert np.all(np.isfinite(density)) and np.all(density >= 0)
    masses = density.reshape(bins, -1).mean(-1) / bins
    assert abs(masses.sum() - 1) < 1e-3
    draws = 20_000
    shares = np.histogram(d.sample(draws, seed=1).numpy()[:, 0], bins, (0, 1))[0] / draws
    error = np.sqrt(masses * (1 - masses) / draws) + 1 / draws
    assert np.all(np.abs(shares - masses) < 5 * error + 1e-3)


def test_density_of_three_classes(transform):
    d = make(transform, [0.3, -0.2], [1.0, 0.7], 0.8)
    steps = 1000
    side = (np.arange(steps) + 0.5) / steps
    a, b = np.meshgrid(side, side, indexing="ij")
    inside = a + b < 1
    z = np.stack([a, b, 1 - a - b], -1)[inside]
    density = np.zeros([steps, steps])
    density[inside] = d.prob(z).numpy()
    masses = density.reshape(5, 200, 5, 200).mean((1, 3)) / 25
    assert abs(masses.sum() - 1) < 4e-3
    draws = 20_000
    z = d.sample(draws, seed=2).numpy()
    shares = np.histogram2d(z[:, 0], z[:, 1], 5, [(0, 1), (0, 1)])[0] / draws
    error = np.sqrt(masses * (1 - masses) / draws) + 1 / draws
    assert np.all(np.abs(shares - masses) < 5 * error + 3e-3)


def test_softmax_density_is_equation_18():
    """Against a change of variables written out with SciPy."""
    loc, scale, temperature, delta = np.array([0.5, -1.0, 0.2]), np.array([1.0, 0.5, 2.0]), 0.3, 0.1
    d = IGR(loc, scale, temperature, delta=delta)
    z = np.random.default_rng(0).dirichlet(np.ones(4), 20)
    y = temperature * np.log(delta * z[:, :-1] / z[:, -1:])
    expected = stats.norm.logpdf(y, loc, scale).sum(-1)
    expected -= np.log(z).sum(-1) - 3 * np.log(temperature)
    np.testing.assert_allclose(d.log_prob(z), expected, rtol=1e-9)


def test_fused_equals_log_prob(transform):
    d = make(transform, np.random.default_rng(0).normal(size=(2, 4)), np.ones(4), 0.5, delta=0.5)
    z, log_prob = d.experimental_sample_and_log_prob([3], seed=4)
    np.testing.assert_allclose(z, d.sample([3], seed=4), atol=1e-12)
    np.testing.assert_allclose(log_prob, d.log_prob(tf.identity(z)), atol=1e-5)


@pytest.mark.parametrize("temperature", [0.01, 0.1, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("num_classes", [2, 10, 1000])
@pytest.mark.parametrize("name", ["softmax++", "stick_breaking", "interpolation"])
def test_finite_everywhere(name, num_classes, temperature):
    """Samples on the simplex, remainder not negative, plain log_prob and gradients finite."""
    if name == "interpolation" and temperature > 1:
        pytest.skip("The interpolation leaves the simplex above 1.")
    loc = np.random.default_rng(0).normal(size=num_classes - 1).astype(np.float32)
    for delta in (0.1, 1.0):
        with tf.GradientTape(persistent=True) as tape:
            parameters = [tf.constant(loc), tf.ones_like(loc)]
            tape.watch(parameters)
            d = IGR(*parameters, temperature, name, delta)
            z, fused = d.experimental_sample_and_log_prob(50, seed=1)
            plain = tf.identity(z)
            log_prob = d.log_prob(plain)
        z = z.numpy()
        assert np.all(np.isfinite(z)) and np.all(z >= 0)
        np.testing.assert_allclose(z.sum(-1), 1, atol=1e-4)
        assert np.all(np.isfinite(fused)) and np.all(np.isfinite(log_prob))
        for value in (fused, log_prob):
            for gradient in tape.gradient(value, parameters):
                assert np.all(np.isfinite(gradient))


def test_exact_where_nothing_underflows():
    """float32 log_prob of the plain sample against the fused one in float64."""
    for name in ("softmax++", "stick_breaking", "interpolation"):
        exact = IGR(np.zeros(4), np.ones(4), 0.2, name)
        z, expected = exact.experimental_sample_and_log_prob(200, seed=0)
        keep = z.numpy().min(-1) > 1e-20
        if name == "stick_breaking":
            w = 0.2 * np.log(z[:, :-1] / z[:, -1:])
            keep &= (w.min(-1) > 1e-3) & (w.sum(-1) < 1 - 1e-3)
        d = IGR(np.zeros(4, np.float32), np.ones(4, np.float32), 0.2, name)
        found = d.log_prob(tf.cast(z, tf.float32))
        assert keep.sum() > 50
        np.testing.assert_allclose(found[keep], expected[keep], rtol=1e-4, atol=2e-3)


def test_no_density_outside_the_image():
    z = tf.constant([0.05, 0.05, 0.9])
    assert IGR(tf.zeros(2), tf.ones(2), 0.5, "stick_breaking").log_prob(z) == -np.inf
    assert np.isfinite(IGR(tf.zeros(2), tf.ones(2), 0.5, "softmax++").log_prob(z))


# KL divergence


def test_kl_is_that_of_samples(transform):
    """Closed form against the Monte Carlo estimate, within its standard error."""
    g = transform(4)
    rng = np.random.default_rng(3)
    a = IGR(rng.normal(size=4), np.exp(0.3 * rng.normal(size=4)), 0.5, g, 0.5)
    b = IGR(rng.normal(size=4), np.exp(0.3 * rng.normal(size=4)), 0.5, g, 0.5)
    z, log_a = a.experimental_sample_and_log_prob(20_000, seed=0)
    difference = (log_a - b.log_prob(z)).numpy()
    error = difference.std() / np.sqrt(len(difference))
    closed = float(tfd.kl_divergence(a, b))
    assert closed > 10 * error
    assert abs(difference.mean() - closed) < 4 * error


def test_kl_is_that_of_gaussians():
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=(2, 3, 4)), np.exp(rng.normal(size=(2, 3, 4)))
    a, b = IGR(loc[0], scale[0], 0.5), IGR(loc[1], scale[1], 0.5)
    expected = tfd.kl_divergence(
        tfd.MultivariateNormalDiag(loc[0], scale[0]), tfd.MultivariateNormalDiag(loc[1], scale[1])
    )
    np.testing.assert_allclose(tfd.kl_divergence(a, b), expected, rtol=1e-9)
    independent = tfd.kl_divergence(tfd.Independent(a, 1), tfd.Independent(b, 1))
    np.testing.assert_allclose(independent, tf.reduce_sum(expected), rtol=1e-9)


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.4},
        {"delta": 0.2},
        {"transform": "interpolation"},
        {"precision": 0.9},
        {"transform": tfc.bijectors.StickBreaking()},
    ],
    ids=str,
)
def test_kl_raises_where_the_maps_differ(change):
    a = IGR(tf.zeros(3), tf.ones(3), 0.5, "stick_breaking")
    with pytest.raises(ValueError, match="same transform, temperature, delta"):
        tfd.kl_divergence(a, a.copy(**change))


def test_kl_of_flows_compares_their_parameters():
    shared = flow(3)
    a = IGR(np.zeros(3), np.ones(3), 0.5, shared)
    assert float(tfd.kl_divergence(a, a.copy(loc=np.ones(3)))) == 1.5
    fixed = [
        tfc.bijectors.PlanarFlow(*(v + 0.0 for v in (f.u, f.w, f.b)))
        for f in (flow(3, 0), flow(3, 0), flow(3, 1))
    ]
    laws = [IGR(np.zeros(3), np.ones(3), 0.5, f) for f in fixed]
    assert float(tfd.kl_divergence(laws[0], laws[1])) == 0.0
    with pytest.raises(ValueError, match="same transform"):
        tfd.kl_divergence(laws[0], laws[2])


@pytest.mark.parametrize("jit", [False, True])
def test_kl_is_nan_where_the_maps_differ_at_run_time(jit):
    @tf.function(jit_compile=jit)
    def kl(temperature, delta):
        a = IGR(tf.zeros([2, 3]), tf.ones([3]), temperature, delta=delta)
        return tfd.kl_divergence(a, IGR(tf.ones([3]), tf.ones([3]), 0.5))

    assert np.all(np.isnan(kl(tf.constant(0.4), tf.constant(1.0))))
    assert np.all(np.isnan(kl(tf.constant(0.5), tf.constant(0.9))))
    np.testing.assert_allclose(kl(tf.constant(0.5), tf.constant(1.0)), [1.5, 1.5])
    found = kl(tf.constant([0.5, 0.4]), tf.constant(1.0)).numpy()
    assert found[0] == 1.5 and np.isnan(found[1])


# Rounding


@pytest.mark.parametrize("num_classes", [2, 10, 100])
@pytest.mark.parametrize("delta", [0.1, 1.0])
def test_discrete_equals_sampled_frequencies(num_classes, delta):
    rng = np.random.default_rng(num_classes)
    loc = rng.normal(size=num_classes - 1).astype(np.float32)
    scale = np.exp(0.3 * rng.normal(size=num_classes - 1)).astype(np.float32)
    d = IGR(loc, scale, 0.7, delta=delta)
    probs = d.discrete().probs_parameter().numpy()
    np.testing.assert_allclose(probs.sum(), 1, atol=1e-5)
    draws = 100_000
    codes = tf.argmax(d.sample(draws, seed=0), -1).numpy()
    shares = np.bincount(codes, minlength=num_classes) / draws
    assert np.all(np.abs(shares - probs) < 5 * np.sqrt(probs * (1 - probs) / draws) + 1e-4)


def test_discrete_depends_on_the_temperature_unless_delta_is_one():
    def remainder(temperature, delta):
        d = IGR(tf.zeros(3), tf.ones(3), temperature, delta=delta)
        return float(d.discrete().probs_parameter()[-1])

    np.testing.assert_allclose(remainder(0.1, 1.0), 1 / 8, atol=1e-6)
    np.testing.assert_allclose(remainder(1.0, 1.0), 1 / 8, atol=1e-6)
    expected = stats.norm.cdf(np.log(0.1)) ** 3
    np.testing.assert_allclose(remainder(1.0, 0.1), expected, atol=1e-6)


def test_discrete_is_differentiable():
    loc, scale = tf.constant([0.3, -0.5]), tf.constant([1.0, 0.5])
    with tf.GradientTape() as tape:
        tape.watch([loc, scale])
        p = IGR(loc, scale, 0.5).discrete().probs_parameter()[0]
    for gradient in tape.gradient(p, [loc, scale]):
        assert np.all(np.abs(gradient) > 1e-3)


def test_discrete_of_a_thousand_classes_under_xla():
    d = IGR(tf.random.stateless_normal([999], [0, 1]), tf.ones([999]), 0.1)
    probs = tf.function(lambda d: d.discrete().probs_parameter(), jit_compile=True)(d)
    np.testing.assert_allclose(probs, d.discrete().probs_parameter(), atol=1e-6)
    np.testing.assert_allclose(tf.reduce_sum(probs), 1, atol=1e-4)


def test_discrete_by_sampling(transform):
    d = make(transform, [0.5, -0.5, 0.1], [1.0, 1.0, 1.0], 0.5)
    law = d.discrete(num_samples=20_000, seed=1)
    assert isinstance(law, tfd.OneHotCategorical)
    found = law.probs_parameter().numpy()
    shares = tf.reduce_mean(tf.one_hot(tf.argmax(d.sample(20_000, seed=2), -1), 4), 0)
    np.testing.assert_allclose(found, shares, atol=5 * 0.5 * np.sqrt(2 / 20_000))


def test_remainder_never_wins_after_stick_breaking_with_delta_one():
    d = IGR(tf.fill([4], -5.0), tf.ones(4), 0.5, "stick_breaking")
    assert d.discrete(num_samples=1000, seed=0).probs_parameter()[-1] == 0


# Truncation


def truncated(precision=0.9, dtype=np.float32, **kwargs):
    loc = np.zeros(30, dtype)
    return IGR(loc, np.ones_like(loc), 0.2, "stick_breaking", precision=precision, **kwargs)


@pytest.mark.slow
def test_truncated_samples_and_report():
    d = truncated()
    z, cut = d.sample_with_truncation(500, seed=0)
    np.testing.assert_array_equal(z, d.sample(500, seed=0))
    np.testing.assert_allclose(tf.reduce_sum(z, -1), 1, atol=1e-5)
    assert np.all(z.numpy()[:, :-1][~cut.kept.numpy()] == 0)
    assert np.all(cut.mass.numpy() < 0.1 + 1e-6)
    assert cut.num_classes.numpy().min() >= 1 and cut.num_classes.numpy().max() < 30
    compiled = tf.function(lambda: d.sample_with_truncation(500, seed=0)[0], jit_compile=True)
    np.testing.assert_allclose(compiled(), z, atol=1e-5)


def test_truncated_density_counts_the_kept_coordinates():
    d = truncated(dtype=np.float64)
    z, log_prob = d.experimental_sample_and_log_prob(100, seed=3)
    np.testing.assert_allclose(d.log_prob(tf.identity(z)), log_prob, atol=1e-5)
    # Against an untruncated IGR of just the kept classes, for one sample.
    row = z.numpy()[0]
    n = int((row[:-1] > 0).sum())
    small = IGR(np.zeros(n), np.ones(n), 0.2, "stick_breaking")
    kept = np.append(row[:n], row[-1])
    np.testing.assert_allclose(small.log_prob(kept), log_prob[0], atol=1e-6)


def truncated_pair(precision, temperature=0.5, delta=0.7, dtype=np.float64):
    loc, scale = np.array([0.4, -0.3], dtype), np.array([0.8, 1.2], dtype)
    return IGR(loc, scale, temperature, "stick_breaking", delta, precision)


@pytest.mark.parametrize("precision", [0.3, 0.5, 0.9])
@pytest.mark.parametrize("temperature", [0.3, 1.5])
def test_truncated_density_over_the_strata(precision, temperature):
    """One kept class or two: each stratum has the mass of its event, and they sum to 1.

    A sample keeps one class if the first stick, sigmoid(y_1), exceeds rho.
    """
    d = truncated_pair(precision, temperature)
    steps = 20_000
    x = (np.arange(steps) + 0.5) / steps
    one = d.prob(np.stack([x, 0 * x, 1 - x], -1)).numpy().mean()
    expected = stats.norm.sf((np.log(precision / (1 - precision)) - 0.4) / 0.8)
    np.testing.assert_allclose(one, expected, atol=2e-3)

    a, b = np.meshgrid(x[::20], x[::20], indexing="ij")
    inside = a + b < 1
    z = np.stack([a, b, 1 - a - b], -1)[inside]
    two = d.prob(z).numpy().sum() * (20 / steps) ** 2
    np.testing.assert_allclose(two, 1 - expected, atol=4e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_truncated_density_off_the_support(dtype):
    d = truncated_pair(0.5, dtype=dtype)

    def point(*sticks):
        scores = np.exp(np.array(sticks) / 0.5) * (np.array(sticks) > 0)
        z = np.append(scores, 0.7)
        return (z / z.sum()).astype(dtype)

    for on in (point(0.6, 0), point(0.95, 0), point(0.2, 0.1), point(0.2, 0.7)):
        assert np.isfinite(d.log_prob(on))
    for off in (
        point(0.4, 0),  # the first stick does not pass rho: the second is kept too
        point(0.6, 0.1),  # it does: the second is cut
        point(0, 0.4),  # no first stick
        point(0.45, 0.6),  # sticks that sum to more than 1
        np.array([0, 0, 1], dtype),
    ):
        assert d.log_prob(off) == -np.inf
    compiled = tf.function(d.log_prob, jit_compile=True)
    assert compiled(point(0.4, 0)) == -np.inf and np.isfinite(compiled(point(0.6, 0)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("temperature", [0.01, 0.1, 1.0, 10.0])
def test_truncated_samples_have_density(dtype, temperature):
    """No sample is taken for a point off the support, however it was rounded."""
    for precision in (0.3, 0.9, 0.999):
        d = IGR(
            np.zeros(12, dtype),
            np.full(12, 2, dtype),
            temperature,
            "stick_breaking",
            precision=precision,
        )
        z, fused = d.experimental_sample_and_log_prob(2000, seed=1)
        found = d.log_prob(tf.identity(z)).numpy()
        assert np.all(np.isfinite(found)) and np.all(np.isfinite(fused))


def test_precision_needs_stick_breaking():
    with pytest.raises(ValueError, match="argument `precision`"):
        IGR(tf.zeros(3), tf.ones(3), 0.5, precision=0.9)
    with pytest.raises(ValueError, match="argument `precision`"):
        truncated(precision=1.5)
    with pytest.raises(ValueError, match="precision"):
        IGR(tf.zeros(3), tf.ones(3), 0.5).sample_with_truncation()


# TFP


def test_batches_slicing_copy(transform):
    d = make(transform, np.zeros([2, 3, 4]), np.ones(4), np.array([[0.3], [0.5]]))
    assert d.batch_shape == (2, 3) and d.event_shape == 5
    assert d.sample(7, seed=0).shape == (7, 2, 3, 5)
    assert d[1, :2].batch_shape == 2
    assert d.copy(temperature=0.25).sample(seed=0).shape == (2, 3, 5)
    assert d.log_prob(d.sample(seed=0)).shape == (2, 3)


def test_default_event_space_bijector(transform):
    d = make(transform, np.zeros(3), np.ones(3))
    bijector = d.experimental_default_event_space_bijector()
    y = np.random.default_rng(0).normal(size=(5, 3))
    z = tf.identity(bijector.forward(y))
    assert np.all(np.isfinite(d.log_prob(z)))
    np.testing.assert_allclose(bijector.inverse(z), y, atol=1e-6)


def test_composite_tensor_and_xla(transform):
    d = make(transform, np.zeros([2, 3]), np.ones(3), dtype=np.float32)

    def draw(d):
        return d.experimental_sample_and_log_prob(4, seed=1)

    for found, expected in zip(tf.function(draw, jit_compile=True)(d), draw(d), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_machinery():
    d = IGR(tf.zeros([2, 3]), tf.ones(3), 0.5)
    mixture = tfd.MixtureSameFamily(tfd.Categorical(probs=[0.5, 0.5]), d)
    assert np.isfinite(mixture.log_prob(mixture.sample(seed=0)))
    joint = tfd.JointDistributionSequential(
        [d, lambda z: tfd.Independent(tfd.Normal(z, 1.0), 1)], batch_ndims=1
    )
    assert joint.log_prob(joint.sample(seed=0)).shape == 2
    loss = tfp.vi.monte_carlo_variational_loss(
        d.copy(loc=tf.ones([2, 3])).log_prob, d, sample_size=4000, seed=1
    )
    np.testing.assert_allclose(loss, [1.5, 1.5], atol=5 * np.sqrt(3 / 4000))
    properties = IGR.parameter_properties()
    assert set(properties) == {"loc", "scale_diag", "temperature", "delta"}


def test_gradients_are_reparameterised(transform):
    parameters = [tf.constant([0.1, 0.2, 0.3]), tf.constant([1.0, 1.0, 1.0])]
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        z = IGR(*parameters, 0.5, transform(3)).sample(100, seed=0)
        value = tf.reduce_mean(z[:, 0] - z[:, 2])
    for gradient in tape.gradient(value, parameters):
        assert np.all(np.isfinite(gradient)) and np.any(gradient != 0)


# Arguments


@pytest.mark.parametrize(
    "kwargs, name",
    [
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": np.ones([2, 1], np.float32)}, "temperature"),
        ({"temperature": 1.5, "transform": "interpolation"}, "temperature"),
        ({"delta": 0.0}, "delta"),
        ({"transform": "softmax"}, "transform"),
        ({"transform": 3}, "transform"),
        ({"transform": tfp.bijectors.Reshape([1, 3], [3])}, "transform"),
        ({"scale_diag": tf.ones([2])}, "scale_diag"),
        ({"loc": tf.zeros([2, 3], tf.int32)}, "loc"),
        ({"loc": tf.zeros([])}, "loc"),
        ({"loc": tf.zeros([0])}, "loc"),
    ],
    ids=str,
)
def test_bad_arguments(kwargs, name):
    arguments = {"loc": tf.zeros([2, 3]), "scale_diag": tf.ones([3]), "temperature": 0.5, **kwargs}
    with pytest.raises((ValueError, TypeError), match=f"argument `{name}`"):
        IGR(**arguments)


def test_run_time_arguments():
    scale = tf.Variable([1.0, 1.0])
    d = IGR(tf.zeros(2), scale, 0.5, validate_args=True)
    scale.assign([1.0, -1.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be positive"):
        d.sample(seed=0)
    with pytest.raises(NotImplementedError, match="discrete"):
        IGR(tf.zeros(2), tf.ones(2), 0.5).mode()
