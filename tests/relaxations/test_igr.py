"""IGR's functions: one map behind every name, broadcasting, masks, numbers far out."""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import tfconcrete as tfc
from tests.grids import grid

R = tfc.relaxations
NAN, INF = float("nan"), float("inf")
MAPS = {
    "softmax++": lambda n: ("softmax++", {}),
    "stick_breaking": lambda n: ("stick_breaking", {}),
    "truncated": lambda n: ("stick_breaking", {"precision": 0.8}),
    "interpolation": lambda n: ("interpolation", {}),
    "planar flow": lambda n: (tfc.bijectors.PlanarFlow.create(2, n, scale=1.0, seed=0), {}),
    "sticks alone": lambda n: (tfc.bijectors.StickBreaking(), {}),
    "object": lambda n: (Halves(), {}),
}
MODES = {
    "eager": lambda f: f,
    "graph": tf.function,
    "xla": lambda f: tf.function(f, jit_compile=True),
}


class Halves(R.SimplexTransform):
    """A user's own transform: half of the mass to the remainder."""

    def forward(self, y, temperature, delta=1.0, mask=None):
        # A bound, so that XLA's fused multiply-add cannot make a large score exceed the row's
        # largest.
        scores = tf.nn.softmax(tf.clip_by_value(y / temperature, -1e4, 1e4), -1) / 2
        z = tf.concat([scores, 0.5 * tf.ones_like(scores[..., :1])], -1)
        if mask is None:
            return z
        z = tf.where(mask, z, 0.0)
        return tf.math.divide_no_nan(z, tf.reduce_sum(z, -1, keepdims=True))


@pytest.fixture(params=MAPS)
def make(request):
    return MAPS[request.param]


@pytest.fixture(params=MODES)
def mode(request):
    return MODES[request.param]


every_map_in_every_mode = pytest.mark.parametrize(
    ("make", "mode"),
    grid(MAPS, MODES, quick=lambda m, mode: mode == "eager" or m in ("softmax++", "truncated")),
    indirect=True,
)


# The map


def numpy_map(name, y, temperature, delta):
    """Eq. 21, 24 and 23, transcribed."""
    if name == "softmax++":
        scores = np.append(y / temperature, np.log(delta))
        return scipy.special.softmax(scores)
    u = scipy.special.expit(y)
    w = np.append(u, 1.0) * np.cumprod(np.append(1.0, 1 - u))
    if name == "stick_breaking":
        return scipy.special.softmax(np.append(w[:-1] / temperature, np.log(delta)))
    return temperature * w + (1 - temperature) * np.eye(len(w))[w.argmax()]


@pytest.mark.parametrize("name", ["softmax++", "stick_breaking", "interpolation"])
@pytest.mark.parametrize("delta", [0.3, 1.0, 2.0])
def test_point_and_scores_are_the_equations(name, delta):
    loc = np.random.default_rng(0).normal(size=(50, 4)) * 2
    expected = np.stack([numpy_map(name, y, 0.4, delta) for y in loc])
    found = R.igr_location(loc, 0.4, name, delta)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    scores = R.igr_scores(loc, 0.4, name, delta)
    np.testing.assert_array_equal(tf.argmax(scores, -1), expected.argmax(-1))


def test_scores_decide_what_the_point_has_lost():
    """Sticks that underflow, a tie of a saturated softmax, and numbers no softmax sees."""
    assert int(tf.argmax(R.igr_scores(tf.constant([-1e4, -1e3]), 0.5, "stick_breaking"))) == 1
    assert int(tf.argmax(R.igr_scores(tf.constant([1.0, 1.0 + 2e-7]), 10.0))) == 1
    assert int(tf.argmax(R.igr_scores(tf.constant([1e20, 2e20]), 0.5))) == 1
    assert int(tf.argmax(R.igr_scores(tf.constant([-1e20, 1.0]), 0.5))) == 1


def test_names_objects_and_bijectors_are_one():
    for name in ("softmax++", "stick_breaking", "interpolation"):
        transform = R.get_transform(name)
        assert transform.name == name and transform.get_config() == {}
        assert transform == R.get_transform(transform) == type(transform)()
        loc = tf.constant([0.3, -1.0, 0.5])
        by_name = R.igr(loc, loc, 0.5, name, seed=1)
        np.testing.assert_array_equal(R.igr(loc, loc, 0.5, transform, seed=1), by_name)
        law = tfc.distributions.IGR(loc, tf.exp(loc), 0.5, transform)
        other = tfc.distributions.IGR(loc, tf.exp(loc), 0.5, name)
        np.testing.assert_array_equal(law.sample(3, seed=0), other.sample(3, seed=0))
        assert float(law.kl_divergence(other)) == 0.0
    assert R.get_transform("interpolation").max_temperature == 1.0
    assert R.get_transform("softmax++").has_exact_probs
    assert not R.get_transform("stick_breaking").has_exact_probs
    cut = R.get_transform("stick_breaking", precision=0.9)
    assert cut.get_config() == {"precision": 0.9} and cut == type(cut)(0.9)
    assert cut != R.get_transform("stick_breaking") and len({cut, type(cut)(0.9)}) == 1
    own = tfc.bijectors.SoftmaxPlusPlus(0.3, delta=0.5)
    law = tfc.distributions.IGR(tf.zeros([3]), tf.ones([3]), 0.7, own)
    expected = R.igr_probs(tf.zeros([3]), 0.0, 0.3, 0.5)
    np.testing.assert_allclose(law.discrete().probs_parameter(), expected, atol=1e-6)


def test_a_transform_of_ones_own():
    law = tfc.distributions.IGR(tf.zeros([3]), tf.ones([3]), 0.7, Halves())
    z = law.sample(100, seed=0)
    np.testing.assert_allclose(z[:, -1], 0.5)
    np.testing.assert_allclose(law.discrete(100, seed=0).probs_parameter(), [0, 0, 0, 1])
    np.testing.assert_allclose(law.bijector.forward(tf.zeros([3])), [1 / 6] * 3 + [0.5])
    with pytest.raises(NotImplementedError, match="Halves"):
        law.log_prob(z)


# Broadcasting


def test_noise_has_the_broadcast_shape(make):
    """A batch only in the scale, or only in the temperature, shares no noise."""
    transform, options = make(3)
    for log_scale, temperature in (
        (tf.zeros([200, 3]), 0.5),
        (tf.zeros([200, 1]), 0.5),
        (0.0, tf.fill([200, 1], 0.5)),
    ):
        z = R.igr(tf.zeros([3]), log_scale, temperature, transform, seed=0, **options).numpy()
        assert z.shape == (200, 4)
        assert len(np.unique(z[:, 0])) > 190
    law = tfc.distributions.IGR(tf.zeros([3]), tf.ones([200, 3]), 0.5, transform, **options)
    assert len(np.unique(law.sample(seed=0)[:, 0])) > 190


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_axis_and_broadcasting(axis):
    """Along another axis, of the broadcast parameters, as along the last."""
    loc = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    log_scale = np.full((5, 1, 1), -20.0, np.float32)
    size = (5, 4, 3)[axis]
    z = R.igr(loc, log_scale, 0.5, axis=axis, seed=0).numpy()
    full = np.moveaxis(np.broadcast_to(loc, (5, 4, 3)), axis, -1)
    expected = np.moveaxis(R.igr_location(full, 0.5).numpy(), -1, axis)
    assert z.shape[axis] == size + 1
    np.testing.assert_allclose(z, expected, atol=1e-5)


def test_shapes_that_do_not_broadcast():
    with pytest.raises(ValueError, match="argument `log_scale`"):
        R.igr(tf.zeros([2, 3]), tf.zeros([2]), 0.5)
    with pytest.raises(ValueError, match="argument `temperature`"):
        R.igr(tf.zeros([2, 3]), 0.0, tf.fill([4, 1], 0.5))
    with pytest.raises(ValueError, match="argument `temperature`"):
        R.igr(tf.zeros([2, 3]), 0.0, tf.fill([3], 0.5))


# Masks and numbers far out


BAD = [NAN, INF, -INF, 3e38, -3e38]


@every_map_in_every_mode
def test_a_masked_class_has_no_part(make, mode):
    """Whatever its parameters: zero sample, zero gradient, finite others."""
    transform, options = make(3)
    mask = np.array([[True, False, True, True], [True, False, True, False], [False] * 4])
    loc, log_scale = np.full([10, 3, 3], 0.3, np.float32), np.zeros([10, 3, 3], np.float32)
    for given in (loc[:5], log_scale[5:]):
        given[..., 1] = np.array(BAD)[:, None]
        given[:, 2] = np.array(BAD)[:, None]

    def run(loc, log_scale):
        with tf.GradientTape() as tape:
            tape.watch([loc, log_scale])
            z = R.igr(loc, log_scale, 0.4, transform, class_mask=mask, seed=0, **options)
            value = tf.reduce_sum(z * tf.range(1.0, 5.0) ** 2)
        return z, tape.gradient(value, [loc, log_scale])

    z, gradients = mode(run)(tf.constant(loc), tf.constant(log_scale))
    z = z.numpy()
    assert np.all(z[:, ~mask] == 0)
    np.testing.assert_allclose(z.sum(-1), np.tile([1, 1, 0], (10, 1)), atol=1e-5)
    for gradient in gradients:
        gradient = gradient.numpy()
        assert np.all(np.isfinite(gradient))
        assert np.all(gradient[:, ~mask[:, :-1]] == 0)


@every_map_in_every_mode
def test_a_kept_nan_is_a_nan_row(make, mode):
    transform, options = make(3)
    mask = np.array([True, True, False, True])
    loc, log_scale = np.zeros([5, 3], np.float32), np.zeros([5, 3], np.float32)
    loc[[0, 1], [0, 1]] = log_scale[[2, 3], [0, 1]] = NAN

    def run(loc, log_scale):
        return (
            R.igr(loc, log_scale, 0.4, transform, class_mask=mask, seed=0, **options),
            R.igr_location(loc, 0.4, transform, class_mask=mask, **options),
        )

    for value, bad in zip(mode(run)(loc, log_scale), (4, 2), strict=True):
        value = value.numpy()
        assert np.all(np.isnan(value[:bad, mask])) and np.all(value[:, ~mask] == 0)
        np.testing.assert_allclose(value[bad:].sum(-1), 1, atol=1e-5)


def test_probs_of_bad_parameters(mode):
    mask = np.array([True, True, False, True])
    loc, log_scale = np.zeros([6, 3], np.float32), np.zeros([6, 3], np.float32)
    loc[[0, 1], [0, 1]] = log_scale[[2, 3], [0, 1]] = NAN
    loc[4, 2] = log_scale[4, 2] = NAN
    probs = mode(lambda *given: R.igr_probs(*given, 0.4, class_mask=mask))(loc, log_scale).numpy()
    assert np.all(np.isnan(probs[:4, mask])) and np.all(probs[:, ~mask] == 0)
    np.testing.assert_allclose(probs[4:, mask], [[0.375, 0.375, 0.25]] * 2, atol=1e-4)


@pytest.mark.parametrize(
    "mode, dtype",
    [("eager", d) for d in (tf.float64, tf.float16, tf.bfloat16, tf.float32)]
    + [("xla", tf.float32), pytest.param("graph", tf.float32, marks=pytest.mark.slow)],
    ids=str,
)
def test_numbers_far_out(make, mode, dtype):
    """Finite and infinite parameters give simplex points and finite gradients."""
    transform, options = make(3)
    numbers = [-INF, -1e30, -1e9, -200.0, 0.0, 200.0, 1e9, 1e30, INF]
    loc, log_scale = np.meshgrid(numbers, [-INF, -300.0, 0.0, 300.0, 1e30, INF])
    loc = np.stack([loc, 0.5 * loc, 0 * np.nan_to_num(loc)], -1)
    log_scale = np.broadcast_to(log_scale[..., None], loc.shape)

    def run(loc, log_scale):
        with tf.GradientTape() as tape:
            tape.watch([loc, log_scale])
            z = R.igr(loc, log_scale, 0.4, transform, seed=0, **options)
            value = tf.reduce_sum(z * tf.cast([1.0, -2.0, 3.0, 0.5], z.dtype))
        return z, tape.gradient(value, [loc, log_scale])

    with np.errstate(over="ignore"):  # in half precision, to infinity
        given = tf.constant(loc, dtype), tf.constant(log_scale, dtype)
    z, gradients = MODES[mode](run)(*given)
    assert z.dtype == dtype
    z = tf.cast(z, tf.float64).numpy()
    assert np.all(z >= 0)
    np.testing.assert_allclose(z.sum(-1), 1, atol=1e-5 if dtype.size > 2 else 2e-2)
    for gradient in gradients:
        assert np.all(np.isfinite(tf.cast(gradient, tf.float32)))


def test_truncation_counts_what_is_kept():
    """Not the masked classes, whose sticks are of length 0."""
    loc = tf.random.stateless_normal([50, 12], [0, 1])
    mask = np.arange(13) % 3 != 1
    z, cut = R.igr_and_truncation(
        loc, 0.0, 0.5, "stick_breaking", precision=0.8, class_mask=mask, seed=2
    )
    kept = z.numpy()[:, :-1] > 0
    np.testing.assert_array_equal(cut.kept, kept)
    np.testing.assert_array_equal(cut.num_classes, kept.sum(-1))
    assert not np.any(cut.kept.numpy()[:, ~mask[:-1]])
    small, same = R.igr_and_truncation(
        tf.boolean_mask(loc, mask[:-1], axis=1), -30.0, 0.5, "stick_breaking", precision=0.8
    )
    still, cut = R.igr_and_truncation(
        loc, -30.0, 0.5, "stick_breaking", precision=0.8, class_mask=mask
    )
    np.testing.assert_array_equal(cut.num_classes, same.num_classes)
    np.testing.assert_allclose(cut.mass, same.mass, atol=1e-6)
    np.testing.assert_allclose(still.numpy()[:, mask], small, atol=1e-6)
    _, none = R.igr_and_truncation(
        loc, 0.0, 0.5, "stick_breaking", precision=0.8, class_mask=np.zeros(13, bool)
    )
    assert np.all(none.num_classes.numpy() == 0)
