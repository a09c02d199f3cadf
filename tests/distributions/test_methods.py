"""What each distribution offers, against NumPy, SciPy and its own parts."""

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc

D = tfc.distributions
tfb = tfp.bijectors
tfd = tfp.distributions
LOGITS = np.array([[0.0, 1.0, -0.5], [2.0, -1.0, 0.3]])
BINARY = pytest.mark.parametrize("kind", [D.BinConcrete, D.LogitBinConcrete])


def logistic(temperature, logits):
    """Eq. 26 as SciPy's Logistic."""
    return scipy.stats.logistic(logits / temperature, 1 / temperature)


class TestShapes:
    def test_sample_batch_and_event(self, make):
        distribution = make()
        shape = distribution.batch_shape + distribution.event_shape
        assert shape == [2, 3]
        assert distribution.sample(seed=0).shape == shape
        assert distribution.sample(5, seed=0).shape == [5] + shape
        assert distribution.sample([4, 5], seed=0).shape == [4, 5] + shape
        assert distribution.log_prob(distribution.sample([4, 5])).shape == [
            4,
            5,
            *distribution.batch_shape,
        ]
        sample, log_prob = distribution.experimental_sample_and_log_prob([4, 5], seed=0)
        assert sample.shape == [4, 5] + shape
        assert log_prob.shape == [4, 5] + distribution.batch_shape
        np.testing.assert_array_equal(distribution.batch_shape_tensor(), distribution.batch_shape)
        np.testing.assert_array_equal(distribution.event_shape_tensor(), distribution.event_shape)

    @pytest.mark.parametrize("kind", [D.Concrete, D.ExpConcrete])
    def test_a_batch_of_temperatures(self, kind):
        temperature = np.array([0.1, 1.0, 5.0])
        batch = kind(temperature[:, np.newaxis], logits=LOGITS)
        assert batch.batch_shape == [3, 2]
        x, log_prob = batch.experimental_sample_and_log_prob(4, seed=1)
        # Members do not share their noise: winners agree as often as independent ones.
        winner = batch.sample(2000, seed=2).numpy().argmax(-1)
        agree = np.sum(scipy.special.softmax(LOGITS[0]) ** 2)
        deviation = np.mean(winner[:, 0, 0] == winner[:, 1, 0]) - agree
        assert abs(deviation) < 5 * np.sqrt(agree * (1 - agree) / 2000)
        for i, j in np.ndindex(3, 2):
            single = kind(temperature[i], logits=LOGITS[j])
            np.testing.assert_allclose(batch.log_prob(x)[:, i, j], single.log_prob(x[:, i, j]))
            assert log_prob.shape == [4, 3, 2]

    def test_a_batch_of_temperatures_against_one_row_of_logits(self, make):
        temperature = np.array([0.1, 1.0, 5.0])
        distribution = make(temperature, dtype="float64", logits=LOGITS[0])
        if distribution.event_shape.rank == 1:
            assert distribution.sample(4, seed=0).shape == [4, 3, 3]
            assert distribution.discrete().batch_shape == [3]
        else:
            assert distribution.sample(4, seed=0).shape == [4, 3]
        assert distribution.log_prob(distribution.sample(4)).shape == [4, 3]

    def test_unknown_batch(self, make):
        @tf.function(input_signature=[tf.TensorSpec([None, 3])])
        def run(logits):
            distribution = make(dtype="float32", logits=logits)
            sample, log_prob = distribution.experimental_sample_and_log_prob(5, seed=0)
            assert sample.shape.as_list() == [5, None, 3]
            plain = distribution.sample(5, seed=0)
            assert plain.shape.as_list() == [5, None, 3]
            return sample, log_prob, distribution.discrete().sample(seed=[0, 1])

        sample, log_prob, discrete = run(tf.constant(LOGITS, tf.float32))
        assert sample.shape == [5, 2, 3]
        assert log_prob.shape[:2] == [5, 2]
        assert discrete.shape == [2, 3]

    def test_slices(self, make):
        batch_rank = make().batch_shape.rank
        temperature = np.array([0.3, 0.7]).reshape([2] + [1] * (batch_rank - 1))
        distribution = make(temperature, dtype="float64")
        x = distribution.sample(4, seed=0)
        whole = distribution.log_prob(x)
        np.testing.assert_allclose(distribution[1].log_prob(x[:, 1]), whole[:, 1])
        np.testing.assert_allclose(distribution[:1].log_prob(x[:, :1]), whole[:, :1])
        assert distribution[tf.newaxis].batch_shape == [1] + distribution.batch_shape
        assert distribution[..., tf.newaxis].batch_shape.rank == batch_rank + 1
        assert distribution[-1:].batch_shape[0] == 1

    def test_copies(self, make):
        distribution = make()
        copy = distribution.copy(temperature=2.0)
        assert type(copy) is type(distribution)
        np.testing.assert_array_equal(copy.temperature, 2.0)
        x = distribution.sample(seed=0)
        np.testing.assert_allclose(copy.log_prob(x), make(temperature=2.0).log_prob(x), rtol=1e-6)
        assert distribution.copy().name == distribution.name
        assert set(distribution.parameters) >= {"temperature", "validate_args", "name"}


class TestSampling:
    def test_seeds(self, make):
        distribution = make()
        first = distribution.sample(3, seed=7)
        np.testing.assert_array_equal(first, distribution.sample(3, seed=7))
        np.testing.assert_array_equal(first, tf.function(distribution.sample)(3, seed=7))
        assert np.any(first != distribution.sample(3, seed=8))
        pair = tf.constant([1, 2])
        np.testing.assert_array_equal(
            distribution.sample(3, seed=pair), distribution.sample(3, seed=pair)
        )
        assert np.any(distribution.sample(3) != distribution.sample(3))
        generator = keras.random.SeedGenerator(1)
        assert np.any(
            distribution.sample(3, seed=generator) != distribution.sample(3, seed=generator)
        )

    def test_the_relaxations_give_the_same_law_as_the_distribution(self):
        """The sample is the relaxation's own, noise and all."""
        logits = tf.constant(LOGITS)
        np.testing.assert_allclose(
            D.Concrete(0.5, logits=logits).sample(seed=3),
            tfc.relaxations.concrete(logits, 0.5, seed=3),
            rtol=1e-9,
        )
        np.testing.assert_allclose(
            D.LogitBinConcrete(0.5, logits=logits).sample(seed=3),
            tfc.relaxations.logit_bin_concrete(logits, 0.5, seed=3),
            rtol=1e-9,
        )

    @pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-5), ("float64", 1e-9)])
    def test_fused_is_sample_and_log_prob(self, make, dtype, tolerance):
        distribution = make(temperature=1.5, dtype=dtype)
        sample, log_prob = distribution.experimental_sample_and_log_prob(100, seed=0)
        np.testing.assert_array_equal(sample, distribution.sample(100, seed=0))
        np.testing.assert_allclose(
            log_prob, distribution.log_prob(tf.identity(sample)), rtol=tolerance, atol=tolerance
        )

    def test_fused_gradients_are_the_total_ones(self, make):
        temperature, logits = tf.constant(0.8, tf.float64), tf.constant(LOGITS)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([temperature, logits])
            distribution = make(temperature, dtype="float64", logits=logits)
            _, fused = distribution.experimental_sample_and_log_prob(10, seed=0)
            plain = distribution.log_prob(tf.identity(distribution.sample(10, seed=0)))
        for source in (temperature, logits):
            got = tape.gradient(fused, source, unconnected_gradients="zero")
            np.testing.assert_allclose(got, tape.gradient(plain, source), rtol=1e-7, atol=1e-9)

    def test_gradients_reach_the_parameters(self, make):
        logits = tf.Variable(LOGITS)
        temperature = tf.Variable(0.8, dtype=tf.float64)
        if make().event_shape.rank == 1 and "loc" in make().parameters:
            distribution = D.LogisticNormal(logits, tf.ones_like(logits), temperature)
        else:
            distribution = type(make())(temperature, logits=logits)
        with tf.GradientTape() as tape:
            weights = tf.cast(tf.range(1, 1 + distribution.sample(seed=0).shape[-1]), tf.float64)
            loss = tf.reduce_sum(weights * distribution.sample(5, seed=0))
        for gradient in tape.gradient(loss, [logits, temperature]):
            assert np.max(np.abs(gradient)) > 1e-3
        assert len(distribution.trainable_variables) == 2


class TestDtypes:
    def test_the_location_decides(self):
        assert D.Concrete(0.5, logits=[0.0, 1.0]).dtype == tf.float32
        assert D.Concrete(0.5, logits=np.zeros(2)).dtype == tf.float64
        assert D.Concrete(np.float64(0.5), logits=tf.zeros([2])).dtype == tf.float32
        assert D.Concrete(1, logits=tf.zeros([2], tf.float64)).dtype == tf.float64
        assert D.BinConcrete(np.array([1, 2]), logits=0.0).sample(seed=0).shape == [2]

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_everything_has_it(self, make, dtype):
        distribution = make(dtype=dtype)
        sample = distribution.sample(seed=0)
        assert sample.dtype == dtype
        assert distribution.log_prob(sample).dtype == dtype
        assert distribution.prob(sample).dtype == dtype
        assert distribution.discrete().dtype == dtype

    def test_a_keras_variable_is_read_anew(self, make):
        temperature = keras.Variable(0.5)
        distribution = make(temperature)
        before = distribution.sample(seed=0)
        temperature.assign(2.0)
        assert np.max(np.abs(before - distribution.sample(seed=0))) > 1e-3


class TestDiscrete:
    @pytest.mark.parametrize("kind", [D.Concrete, D.ExpConcrete])
    def test_one_hot(self, kind):
        expected = scipy.special.softmax(LOGITS, -1)
        for parameters in ({"logits": LOGITS}, {"probs": expected}):
            distribution = kind(0.5, **parameters)
            discrete = distribution.discrete()
            assert isinstance(discrete, tfd.OneHotCategorical)
            np.testing.assert_allclose(discrete.probs_parameter(), expected, rtol=1e-9)
            np.testing.assert_allclose(distribution.probs_parameter(), expected, rtol=1e-9)
            np.testing.assert_allclose(
                tf.nn.softmax(distribution.logits_parameter()), expected, rtol=1e-9
            )

    @BINARY
    def test_binary(self, kind):
        expected = scipy.special.expit(LOGITS)
        for parameters in ({"logits": LOGITS}, {"probs": expected}):
            distribution = kind(0.5, **parameters)
            discrete = distribution.discrete()
            assert isinstance(discrete, tfd.Bernoulli)
            np.testing.assert_allclose(discrete.probs_parameter(), expected, rtol=1e-9)
            np.testing.assert_allclose(distribution.probs_parameter(), expected, rtol=1e-9)
            np.testing.assert_allclose(distribution.logits_parameter(), LOGITS, rtol=1e-9)

    def test_logistic_normal(self):
        """The categorical of the location with a zero logit appended, at any temperature."""
        loc = LOGITS[:, :2]
        distribution = D.LogisticNormal(loc, np.ones([2]), 0.1)
        expected = scipy.special.softmax(np.concatenate([loc, np.zeros([2, 1])], -1), -1)
        np.testing.assert_allclose(distribution.discrete().probs_parameter(), expected, rtol=1e-9)
        assert isinstance(distribution.discrete(), tfd.OneHotCategorical)
        # TFP warns where a subclass inherits it.
        assert "_parameter_properties" in vars(D.LogisticNormal)


class TestModes:
    @pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
    def test_exp_concrete(self, temperature):
        distribution = D.ExpConcrete(temperature, logits=LOGITS)
        expected = scipy.special.log_softmax(LOGITS / temperature, -1)
        np.testing.assert_allclose(distribution.mode(), expected, rtol=1e-9)
        rng = np.random.default_rng(0)
        for scale in (1e-3, 0.1, 1.0):
            other = distribution.mode() + scale * rng.normal(size=[50, 2, 3])
            other = scipy.special.log_softmax(other, -1)
            assert np.all(distribution.log_prob(other) < distribution.log_prob(expected))

    @pytest.mark.parametrize("kind", [D.Concrete, D.BinConcrete])
    def test_simplex_forms_have_none(self, kind):
        with pytest.raises(NotImplementedError, match=r"has no mode.*discrete\(\).mode\(\)"):
            kind(0.5, logits=[0.0, 1.0]).mode()

    def test_logistic_normal_has_no_closed_form(self):
        with pytest.raises(NotImplementedError, match="no closed form"):
            D.LogisticNormal([0.0], [1.0], 0.5).mode()

    @pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
    def test_moments_of_the_logit_form(self, temperature):
        distribution = D.LogitBinConcrete(np.array([[temperature]]), logits=LOGITS[0])
        reference = logistic(temperature, LOGITS[:1])
        np.testing.assert_allclose(distribution.mean(), reference.mean(), rtol=1e-9)
        np.testing.assert_allclose(distribution.mode(), reference.mean(), rtol=1e-9)
        np.testing.assert_allclose(distribution.variance(), reference.var(), rtol=1e-9)
        np.testing.assert_allclose(distribution.stddev(), reference.std(), rtol=1e-9)
        np.testing.assert_allclose(
            distribution.entropy(), np.broadcast_to(2 - np.log(temperature), [1, 3]), rtol=1e-9
        )


@BINARY
@pytest.mark.parametrize("temperature", [0.1, 1.0, 4.0])
class TestDistributionFunctions:
    def pair(self, kind, temperature):
        return kind(temperature, logits=LOGITS[0]), logistic(temperature, LOGITS[0])

    def points(self, kind, y):
        return scipy.special.expit(y) if kind is D.BinConcrete else y

    def test_against_scipy(self, kind, temperature):
        distribution, reference = self.pair(kind, temperature)
        y = np.linspace(-6.0, 6.0, 13)[:, np.newaxis]
        x = self.points(kind, y)
        for name, expected in (
            ("cdf", reference.cdf(y)),
            ("log_cdf", reference.logcdf(y)),
            ("survival_function", reference.sf(y)),
            ("log_survival_function", reference.logsf(y)),
        ):
            np.testing.assert_allclose(
                getattr(distribution, name)(x), expected, rtol=1e-9, err_msg=name
            )

    def test_quantile(self, kind, temperature):
        distribution, reference = self.pair(kind, temperature)
        p = np.array([0.01, 0.3, 0.5, 0.9])[:, np.newaxis]
        np.testing.assert_allclose(
            distribution.quantile(p), self.points(kind, reference.ppf(p)), rtol=1e-9
        )
        ends = distribution.quantile(np.array([[0.0], [1.0]])).numpy()
        assert np.all(ends[0] == self.points(kind, np.array(-np.inf)))
        assert np.all(ends[1] == self.points(kind, np.array(np.inf)))

    def test_the_ends_are_exact(self, kind, temperature):
        distribution, _ = self.pair(kind, temperature)
        low, high = self.points(kind, np.array([-np.inf, np.inf]))
        assert np.all(distribution.cdf(low) == 0.0) and np.all(distribution.cdf(high) == 1.0)
        assert np.all(np.isneginf(distribution.log_cdf(low)))
        assert np.all(distribution.log_cdf(high) == 0.0)
        assert np.all(distribution.survival_function(low) == 1.0)
        assert np.all(np.isneginf(distribution.log_survival_function(high)))


class TestEventSpaceBijectors:
    def test_round_trip(self, make):
        distribution = make(dtype="float64")
        bijector = distribution.experimental_default_event_space_bijector()
        sample = distribution.sample(10, seed=0)
        back = bijector.forward(tf.identity(bijector.inverse(sample)))
        np.testing.assert_allclose(back, sample, rtol=1e-7, atol=1e-12)

    def test_kinds(self):
        two = {"logits": [0.0, 1.0]}

        def bijector(distribution):
            return distribution.experimental_default_event_space_bijector()

        assert isinstance(bijector(D.Concrete(0.5, **two)), tfc.bijectors.SoftmaxPlusPlus)
        assert isinstance(bijector(D.ExpConcrete(0.5, **two)), tfb.Chain)
        assert isinstance(bijector(D.BinConcrete(0.5, **two)), tfb.Sigmoid)
        assert isinstance(bijector(D.LogitBinConcrete(0.5, **two)), tfb.Identity)

    @pytest.mark.parametrize("kind", [D.Concrete, D.ExpConcrete])
    def test_the_unconstrained_density_integrates_to_one(self, kind):
        distribution = kind(0.7, logits=np.log([2.0, 0.5, 1.0]))
        bijector = distribution.experimental_default_event_space_bijector()
        free = tfd.TransformedDistribution(distribution, tfb.Invert(bijector))
        assert free.event_shape == [2]
        v = np.arange(-45.0, 45.0, 0.5)
        grid = np.stack(np.meshgrid(v, v), -1).reshape(-1, 2)
        total = np.sum(free.prob(tf.constant(grid))) * 0.25
        assert total == pytest.approx(1.0, abs=1e-6)


def test_parameter_properties(make):
    cls = type(make())
    properties = cls.parameter_properties()
    assert set(properties) <= set(make().parameters)
    assert "temperature" in properties
    shape = [2, 3]
    shapes = cls.param_shapes(shape)
    assert set(shapes) == set(properties)
    trainable = tfp.experimental.util.make_trainable(cls, batch_and_event_shape=shape, seed=[1, 2])
    assert len(trainable.trainable_variables) >= 2
    assert trainable.log_prob(make().sample(seed=0)).shape == make().batch_shape
