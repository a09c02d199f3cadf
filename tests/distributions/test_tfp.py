"""Inside TFP's machinery, in graphs, under XLA, and as arguments of a `tf.function`."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc

D = tfc.distributions
tfb = tfp.bijectors
tfd = tfp.distributions


def finite(*values):
    return all(np.all(np.isfinite(value)) for value in values)


def test_independent(make):
    distribution = make()
    rank = distribution.batch_shape.rank
    independent = tfd.Independent(distribution, rank)
    x = independent.sample(4, seed=0)
    expected = tf.reduce_sum(distribution.log_prob(x), list(range(1, 1 + rank)))
    np.testing.assert_allclose(independent.log_prob(x), expected, rtol=1e-6)
    same, log_prob = independent.experimental_sample_and_log_prob(4, seed=0)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4)


@pytest.mark.parametrize("auto_batched", [False, True])
def test_joint_distribution_sequential(make, auto_batched):
    prior = tfd.Independent(make(), make().batch_shape.rank)

    def likelihood(z):
        normal = tfd.Normal(z, 1.0)
        return normal if auto_batched else tfd.Independent(normal, 2)

    kind = tfd.JointDistributionSequential
    if auto_batched:
        kind = tfd.JointDistributionSequentialAutoBatched
    joint = kind([prior, likelihood])
    z, x = joint.sample(5, seed=0)
    assert z.shape == x.shape == [5, 2, 3]
    expected = prior.log_prob(z) + tf.reduce_sum(tfd.Normal(z, 1.0).log_prob(x), [1, 2])
    np.testing.assert_allclose(joint.log_prob(z, x), expected, rtol=1e-4)


def test_mixture_same_family(make):
    components = make()
    num_components = components.batch_shape[-1]
    weights = tf.nn.softmax(tf.range(num_components, dtype=tf.float32))
    mixture = tfd.MixtureSameFamily(tfd.Categorical(probs=weights), components)
    x = mixture.sample(6, seed=0)
    inner = components.log_prob(tf.expand_dims(x, -1 - components.event_shape.rank))
    expected = tf.reduce_logsumexp(inner + tf.math.log(weights), -1)
    np.testing.assert_allclose(mixture.log_prob(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [D.BinConcrete, D.LogitBinConcrete])
def test_reparameterized_mixture(kind):
    logits = tf.Variable([0.0, 2.0])
    with tf.GradientTape() as tape:
        mixture = tfd.MixtureSameFamily(
            tfd.Categorical(logits=logits), kind(0.7, logits=[-1.0, 1.0]), reparameterize=True
        )
        loss = tf.reduce_mean(mixture.sample(100, seed=0))
    assert finite(tape.gradient(loss, logits))


def test_transformed_distribution(make):
    distribution = make(dtype="float64")
    if distribution.event_shape.rank == 1:
        bijector = tfb.Permute([2, 0, 1])
    else:
        bijector = tfb.Chain([tfb.Shift(np.float64(-1.0)), tfb.Scale(np.float64(2.0))])
    transformed = tfd.TransformedDistribution(distribution, bijector)
    y = tf.identity(transformed.sample(4, seed=0))
    x = bijector.inverse(y)
    event_ndims = distribution.event_shape.rank
    expected = distribution.log_prob(x) + bijector.inverse_log_det_jacobian(y, event_ndims)
    np.testing.assert_allclose(transformed.log_prob(y), expected, rtol=1e-9)


def test_the_exponential_of_exp_concrete_is_concrete():
    """exp(y) has its density on K coordinates; kappa's measure makes that Concrete's."""
    logits = np.array([0.3, -1.0, 2.0])
    log_space = D.ExpConcrete(0.7, logits=logits)
    simplex = tfd.TransformedDistribution(log_space, tfb.Exp())
    x = np.array([0.2, 0.5, 0.3])
    np.testing.assert_allclose(
        simplex.log_prob(x), D.Concrete(0.7, logits=logits).log_prob(x), rtol=1e-9
    )


@pytest.mark.parametrize("jit_compile", [False, True])
def test_monte_carlo_variational_loss(make, jit_compile):
    target = make(temperature=0.9)
    temperature = tf.Variable(0.4)

    @tf.function(jit_compile=jit_compile)
    def run():
        with tf.GradientTape() as tape:
            surrogate = make(temperature)
            loss = tf.reduce_mean(
                tfp.vi.monte_carlo_variational_loss(
                    target.log_prob, surrogate, sample_size=200, seed=[1, 2]
                )
            )
        return loss, tape.gradient(loss, temperature)

    loss, gradient = run()
    assert finite(loss, gradient)
    # A Kullback-Leibler divergence, which falls as the temperatures approach.
    assert loss > 0
    assert gradient < 0


def test_variational_loss_is_a_divergence():
    """Between Logistic variables, against quadrature."""
    q = D.LogitBinConcrete(0.8, logits=np.float64(0.5))
    p = D.LogitBinConcrete(1.3, logits=np.float64(-1.0))
    y = np.arange(-80.0, 80.0, 0.01)
    log_q, log_p = q.log_prob(y).numpy(), p.log_prob(y).numpy()
    expected = np.sum(np.exp(log_q) * (log_q - log_p)) * 0.01
    draws = q.sample(100_000, seed=0)
    terms = (q.log_prob(draws) - p.log_prob(draws)).numpy()
    loss = tfp.vi.monte_carlo_variational_loss(p.log_prob, q, sample_size=100_000, seed=0)
    assert abs(loss - expected) < 5 * terms.std() / np.sqrt(len(terms))


def test_argument_and_result_of_a_function(make):
    distribution = make()
    traces = []

    @tf.function
    def cool(distribution):
        traces.append(1)
        return distribution.copy(temperature=distribution.temperature / 2)

    result = cool(distribution)
    assert type(result) is type(distribution)
    np.testing.assert_allclose(result.temperature, 0.25)
    np.testing.assert_allclose(cool(make(0.8)).temperature, 0.4)
    assert len(traces) == 1
    x = distribution.sample(seed=0)
    np.testing.assert_allclose(result.log_prob(x), make(0.25).log_prob(x), rtol=1e-6)


def test_argument_with_variables(make):
    temperature = tf.Variable(0.5)
    distribution = make(temperature)
    sample = tf.function(lambda distribution: distribution.sample(seed=0))
    before = sample(distribution)
    temperature.assign(2.0)
    assert np.max(np.abs(before - sample(distribution))) > 1e-3


def test_xla(make):
    @tf.function(jit_compile=True)
    def run(distribution):
        sample, fused = distribution.experimental_sample_and_log_prob(4, seed=[1, 2])
        return sample, fused, distribution.log_prob(tf.identity(sample))

    distribution = make(dtype="float64")
    sample, fused, log_prob = run(distribution)
    same, expected = distribution.experimental_sample_and_log_prob(4, seed=[1, 2])
    # The noise agrees to float32's logarithms.
    np.testing.assert_allclose(sample, same, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(fused, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-4)


def test_in_a_loop(make):
    distribution = make()

    @tf.function
    def run():
        total = tf.zeros([])
        for i in tf.range(3):
            seed = tf.stack([i, 0])
            total += tf.reduce_sum(distribution.log_prob(distribution.sample(seed=seed)))
        return total

    expected = sum(
        tf.reduce_sum(distribution.log_prob(distribution.sample(seed=[i, 0]))) for i in range(3)
    )
    np.testing.assert_allclose(run(), expected, rtol=1e-4)


def test_flattens_as_a_composite_tensor(make):
    distribution = make()
    leaves = tf.nest.flatten(distribution, expand_composites=True)
    assert all(tf.is_tensor(leaf) for leaf in leaves)
    packed = tf.nest.pack_sequence_as(distribution, leaves, expand_composites=True)
    x = distribution.sample(seed=0)
    np.testing.assert_array_equal(packed.log_prob(x), distribution.log_prob(x))


def test_saved_model_signature(tmp_path):
    def make():
        return D.ExpConcrete(0.5, logits=tf.zeros([2, 3]))

    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([2, 3])])
        def log_prob(self, x):
            return make().log_prob(x)

    tf.saved_model.save(Module(), str(tmp_path))
    x = make().sample(seed=0)
    loaded = tf.saved_model.load(str(tmp_path))
    np.testing.assert_allclose(loaded.log_prob(x), make().log_prob(x), rtol=1e-6)
