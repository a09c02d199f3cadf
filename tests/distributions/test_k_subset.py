"""`KSubset` against enumeration, and inside TFP's machinery."""

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc
from tests.subsets import Law, subsets

KSubset = tfc.distributions.KSubset
tfd = tfp.distributions
LOGITS = np.random.default_rng(0).normal(0, 1.5, [2, 6])


def law(k, row=0, logits=LOGITS):
    return Law(logits[row], k)


@pytest.mark.parametrize("k", range(1, 6))
def test_methods_are_enumeration(k):
    d = KSubset(k, LOGITS)
    laws = [law(k, row) for row in range(2)]
    states = subsets(6, k)

    def check(value, name, tolerance=1e-10):
        expected = [getattr(each, name) for each in laws]
        np.testing.assert_allclose(value, expected, tolerance, tolerance, err_msg=name)

    check(d.marginals(), "marginals")
    check(d.mean(), "marginals")
    check(d.entropy(), "entropy")
    check(d.log_partition(), "log_partition")
    check(d.covariance(), "covariance")
    check(d.stddev() ** 2, "variance")
    check(tf.transpose(d.log_prob(states[:, None])), "log_probs")
    check(tf.transpose(d.prob(states[:, None])), "probs")
    np.testing.assert_array_equal(d.mode(), [states[each.probs.argmax()] for each in laws])
    other = KSubset(k, LOGITS[::-1])
    np.testing.assert_allclose(
        tfd.kl_divergence(d, other), [laws[0].kl(laws[1]), laws[1].kl(laws[0])], rtol=1e-9
    )
    np.testing.assert_allclose(
        d.cross_entropy(other), d.entropy() + tfd.kl_divergence(d, other), rtol=1e-12
    )


def test_one_of_n_is_one_hot_categorical():
    logits = tf.constant(LOGITS)
    ours, theirs = KSubset(1, logits), tfd.OneHotCategorical(logits=logits, dtype=tf.float64)
    z = theirs.sample(20, seed=0)
    for name in ("mean", "mode", "entropy", "covariance", "variance"):
        np.testing.assert_allclose(getattr(ours, name)(), getattr(theirs, name)(), atol=1e-10)
    np.testing.assert_allclose(ours.log_prob(z), theirs.log_prob(z), atol=1e-10)


@pytest.mark.parametrize("compiled", [False, True])
def test_samples(compiled):
    d = KSubset(3, tf.constant(LOGITS, tf.float32))
    num = 30_000
    draw = tf.function(lambda: d.sample(num, seed=[1, 2]), jit_compile=compiled)
    samples = draw().numpy()
    assert samples.shape == (num, 2, 6) and samples.dtype == np.float32
    for row in range(2):
        each = Law(np.float32(LOGITS)[row], 3)
        counts = each.counts(samples[:, row])
        assert scipy.stats.chisquare(counts, num * each.probs).pvalue > 1e-5


def test_what_is_no_subset_has_no_mass():
    d = KSubset(2, LOGITS[0])
    values = [
        [1, 1, 0, 0, 0, 0],
        [1, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [2, 0, 0, 0, 0, 0],
        [0.5, 0.5, 1, 0, 0, 0],
        [-1, 1, 1, 1, 0, 0],
    ]
    log_prob = d.log_prob(np.array(values, np.float64))
    np.testing.assert_array_equal(np.isneginf(log_prob), [False] + [True] * 5)
    np.testing.assert_array_equal(d.prob(np.array(values[1:], np.float64)), 0.0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dtypes_and_shapes(dtype):
    d = KSubset(2, tf.cast(LOGITS, dtype))
    assert (d.batch_shape, d.event_shape, d.dtype) == ([2], [6], tf.as_dtype(dtype))
    sample = d.sample([3, 4], seed=0)
    assert sample.shape == [3, 4, 2, 6] and sample.dtype == d.dtype
    np.testing.assert_array_equal(tf.reduce_sum(tf.cast(sample, tf.float32), -1), 2.0)
    assert d.log_prob(sample).shape == [3, 4, 2] and d.log_prob(sample).dtype == d.dtype
    same, log_prob = d.experimental_sample_and_log_prob([3, 4], seed=0)
    np.testing.assert_array_equal(tf.cast(same, tf.float32), tf.cast(sample, tf.float32))
    np.testing.assert_array_equal(
        tf.cast(log_prob, tf.float32), tf.cast(d.log_prob(sample), tf.float32)
    )
    np.testing.assert_array_equal(d.batch_shape_tensor(), [2])
    np.testing.assert_array_equal(d.event_shape_tensor(), [6])


def test_gradients():
    """Of log probability, entropy and both divergences."""
    z, other = subsets(6, 2)[7], LOGITS[1]
    q, p = law(2), law(2, 1)
    logits = tf.constant(LOGITS[0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        d, fixed = KSubset(2, logits), KSubset(2, other)
        values = (
            d.log_prob(z),
            d.entropy(),
            tfd.kl_divergence(d, fixed),
            tfd.kl_divergence(fixed, d),
        )
    expected = (
        z - q.marginals,
        -q.covariance @ LOGITS[0],
        q.covariance @ (LOGITS[0] - other),
        q.marginals - p.marginals,
    )
    for value, wanted in zip(values, expected, strict=True):
        np.testing.assert_allclose(tape.gradient(value, logits), wanted, atol=1e-10)


@pytest.mark.parametrize("k", [1, 3, 5])
def test_nothing_moves_where_all_is_certain(k):
    """Logits of 1e4: gradients that cancel, of terms as large as the logits, vanish."""
    logits = tf.constant(1e4 * LOGITS[0], tf.float32)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        d = KSubset(k, logits)
        fixed = KSubset(k, tf.constant(LOGITS[1], tf.float32))
        values = d.entropy(), tfd.kl_divergence(d, fixed), d.marginals()
    for value in values:
        np.testing.assert_allclose(tape.gradient(value, logits), 0.0, atol=1e-6)


def test_inside_tfp():
    d = KSubset(2, tf.constant(LOGITS, tf.float32))
    independent = tfd.Independent(d, 1)
    z = independent.sample(4, seed=0)
    np.testing.assert_allclose(independent.log_prob(z), tf.reduce_sum(d.log_prob(z), -1), rtol=1e-5)
    np.testing.assert_allclose(independent.entropy(), tf.reduce_sum(d.entropy()), rtol=1e-5)
    other = tfd.Independent(KSubset(2, tf.zeros([2, 6])), 1)
    np.testing.assert_allclose(
        tfd.kl_divergence(independent, other),
        tf.reduce_sum(tfd.kl_divergence(d, other.distribution)),
        rtol=1e-5,
    )
    joint = tfd.JointDistributionSequential(
        [independent, lambda z: tfd.Independent(tfd.Normal(z, 1.0), 2)]
    )
    z, x = joint.sample(5, seed=0)
    expected = independent.log_prob(z) + tf.reduce_sum(tfd.Normal(z, 1.0).log_prob(x), [1, 2])
    np.testing.assert_allclose(joint.log_prob(z, x), expected, rtol=1e-5)
    weights = tf.constant([0.3, 0.7])
    mixture = tfd.MixtureSameFamily(tfd.Categorical(probs=weights), d)
    z = mixture.sample(6, seed=0)
    expected = tf.reduce_logsumexp(d.log_prob(z[:, None]) + tf.math.log(weights), -1)
    np.testing.assert_allclose(mixture.log_prob(z), expected, rtol=1e-5)


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_score_function_bound(jit_compile):
    """A `monte_carlo_variational_loss`, whose gradient TFP gets from log q."""
    target = KSubset(2, tf.zeros([6]))
    logits = tf.Variable(LOGITS[0], dtype=tf.float32)

    @tf.function(jit_compile=jit_compile)
    def run():
        with tf.GradientTape() as tape:
            loss = tfp.vi.monte_carlo_variational_loss(
                target.log_prob,
                KSubset(2, logits),
                sample_size=4000,
                gradient_estimator=tfp.vi.GradientEstimators.SCORE_FUNCTION,
                seed=[1, 2],
            )
        return loss, tape.gradient(loss, logits)

    loss, gradient = run()
    q = Law(logits.numpy(), 2)
    ratio = q.log_probs + np.log(len(q.probs))
    error = np.sqrt(np.sum(q.probs * ratio**2) - np.sum(q.probs * ratio) ** 2) / np.sqrt(4000)
    assert abs(loss - np.sum(q.probs * ratio)) < 5 * error
    np.testing.assert_allclose(gradient, q.covariance @ logits.numpy(), atol=0.15)


def test_copy_slices_and_functions():
    d = KSubset(2, LOGITS)
    np.testing.assert_allclose(d[1].log_partition(), d.log_partition()[1])
    changed = d.copy(k=4)
    assert changed.k == 4 and d.k == 2
    np.testing.assert_allclose(changed.marginals(), KSubset(4, LOGITS).marginals())
    traces = []

    @tf.function
    def double(d):
        traces.append(1)
        return d.copy(logits=2.0 * d.logits)

    np.testing.assert_allclose(double(d).marginals(), KSubset(2, 2.0 * LOGITS).marginals())
    double(KSubset(2, LOGITS + 1.0))
    assert len(traces) == 1
    leaves = tf.nest.flatten(d, expand_composites=True)
    packed = tf.nest.pack_sequence_as(d, leaves, expand_composites=True)
    np.testing.assert_array_equal(packed.mode(), d.mode())


@pytest.mark.parametrize("kind", [tf.Variable, keras.Variable])
def test_variables_are_read_anew(kind):
    logits = kind(np.zeros([4], np.float32))
    d = KSubset(1, logits)
    np.testing.assert_allclose(d.marginals(), 0.25)
    logits.assign([0.0, 0.0, 0.0, 50.0])
    np.testing.assert_allclose(d.marginals(), [0.0, 0.0, 0.0, 1.0], atol=1e-6)
    np.testing.assert_array_equal(d.mode(), [0.0, 0.0, 0.0, 1.0])


def test_unknown_batch_under_xla():
    @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float64)], jit_compile=True)
    def run(logits):
        d = KSubset(2, logits)
        sample = d.sample(3, seed=[0, 1])
        assert sample.shape.as_list() == [3, None, 6]
        return d.log_prob(sample), d.entropy(), tfd.kl_divergence(d, KSubset(2, -logits))

    log_prob, entropy, divergence = run(LOGITS)
    assert log_prob.shape == [3, 2]
    np.testing.assert_allclose(entropy, KSubset(2, LOGITS).entropy(), rtol=1e-9)
    np.testing.assert_allclose(divergence[0], law(2).kl(Law(-LOGITS[0], 2)), rtol=1e-9)


def test_parameter_properties():
    assert set(KSubset.parameter_properties()) == {"logits"}
    trainable = tfp.experimental.util.make_trainable(
        KSubset, batch_and_event_shape=[3, 6], k=2, seed=[1, 2]
    )
    assert trainable.batch_shape == [3] and len(trainable.trainable_variables) == 1


def test_fits_by_maximum_likelihood():
    """Gradient ascent on the likelihood matches the marginals of the data."""
    data = KSubset(2, LOGITS[0]).sample(500, seed=[3, 4])
    logits = tf.Variable(np.zeros(6))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(KSubset(2, logits).log_prob(data))
        logits.assign_sub(4.0 * tape.gradient(loss, logits))

    for _ in range(300):
        step()
    np.testing.assert_allclose(KSubset(2, logits).marginals(), tf.reduce_mean(data, 0), atol=2e-3)


def test_errors():
    for k in (0, 6, -1):
        with pytest.raises(ValueError, match="argument `k`. Expected a whole number"):
            KSubset(k, LOGITS)
    with pytest.raises(TypeError, match="argument `k`"):
        KSubset(2.0, LOGITS)
    with pytest.raises(TypeError, match="floating-point"):
        KSubset(1, np.array([1, 2, 3]))
    with pytest.raises(ValueError, match="at least two classes"):
        KSubset(1, [0.0])
    with pytest.raises(ValueError, match=r"same k and number of classes, 2 of 6. Received: 3"):
        tfd.kl_divergence(KSubset(2, LOGITS), KSubset(3, LOGITS))
    checked = KSubset(2, LOGITS[0], validate_args=True)
    checked.log_prob(checked.sample(seed=0))
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have 2 ones"):
        checked.log_prob(np.array([1.0, 0, 0, 0, 0, 0]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="zeros and ones"):
        checked.log_prob(np.array([2.0, 0, 0, 0, 0, 0]))
