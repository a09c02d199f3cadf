"""`numeric_report` against NumPy and SciPy, and over all layers and distributions."""

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc
from tests.layers.conftest import concrete_posterior

D, L = tfc.distributions, tfc.layers
report = tfc.diagnostics.numeric_report
HALF = ("float16", "bfloat16")
DTYPES = (*HALF, "float32", "float64")

LAYERS = {
    "ConcreteSample": lambda: L.ConcreteSample(),
    "ConcreteSample_hard": lambda: L.ConcreteSample(hard=True, axis=0),
    "ExpConcreteSample": lambda: L.ExpConcreteSample(),
    "BinConcreteSample": lambda: L.BinConcreteSample(levels=(-1, 1)),
    "BinConcreteSample_hard": lambda: L.BinConcreteSample(hard=True),
    "StraightThrough": lambda: L.StraightThrough(axis=1),
    "GumbelRao": lambda: L.GumbelRao(num_samples=5),
    "GapStraightThrough": lambda: L.GapStraightThrough(),
    "GapStraightThrough_soft": lambda: L.GapStraightThrough(gap="pi", hard=False),
    "ReinMax": lambda: L.ReinMax(),
    "IGRSample": lambda: L.IGRSample(),
    "IGRSample_sb": lambda: L.IGRSample("stick_breaking", axis=-2),
    "IGRSample_interpolation": lambda: L.IGRSample("interpolation"),
    "SubsetSample": lambda: L.SubsetSample(k=2),
    "SubsetSample_soft": lambda: L.SubsetSample(k=2, hard=False),
    "SubsetSample_gumbel": lambda: L.SubsetSample(k=2, estimator="gumbel", axis=-1),
    "FeatureSelector": lambda: L.FeatureSelector(k=2),
    "FeatureSelector_soft": lambda: L.FeatureSelector(k=2, hard=False),
}
DISTRIBUTIONS = {
    "Concrete": D.Concrete,
    "ExpConcrete": D.ExpConcrete,
    "BinConcrete": D.BinConcrete,
    "LogitBinConcrete": D.LogitBinConcrete,
    "LogisticNormal": D.LogisticNormal,
    "IGR": D.IGR,
    "IGR_sb": D.IGR(tf.zeros([2]), tf.ones([2]), 0.5, "stick_breaking"),
    "IGR_interpolation": D.IGR(tf.zeros([2]), tf.ones([2]), 0.5, "interpolation"),
}
STRAIGHT_THROUGH = (
    "ConcreteSample_hard", "BinConcreteSample_hard", "StraightThrough", "GumbelRao",
    "GapStraightThrough", "ReinMax", "SubsetSample", "SubsetSample_gumbel", "FeatureSelector",
)  # fmt: skip
LAW_OF = {"Bin": "logistic", "Logit": "logistic", "IGR": "normal", "LogisticN": "normal"}


def law_of(name):
    return next((law for start, law in LAW_OF.items() if name.startswith(start)), "gumbel")


def softmax(x):
    shifted = np.exp(x - x.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def numpy_concrete(num_samples, logits, temperature):
    """Samples and the gradients of <upstream, sample> by the logits, in double precision."""
    noise = tfc.noise.gumbel([num_samples, len(logits)], seed=0).numpy().astype(np.float64)
    sample = softmax((logits + noise) / temperature)
    upstream = np.random.default_rng(0).normal(size=sample.shape)
    centred = upstream - np.sum(upstream * sample, -1, keepdims=True)
    return sample, sample * centred / temperature


@pytest.mark.parametrize("temperature", [0.005, 0.05, 0.5])
def test_shares_of_concrete_samples_are_those_of_numpy(temperature):
    """Double precision, then rounded: numbers near the ends of float32 apart, the same."""
    logits = np.array([1.0, 0.0, -2.0, 0.5, 0.0])
    found = report(tfc.ConcreteSample, 5, temperature, params=logits, num_samples=4000)
    sample, gradient = numpy_concrete(4000, logits, temperature)
    # 1 is what rounds to it: within half a step of float32 below 1, give or take a step.
    rest = 1.0 - np.sort(sample, -1)[:, -1]
    rest = np.where(rest < 1e-6, np.sort(sample, -1)[:, :-1].sum(-1), rest)
    assert np.mean(rest < 2.0**-26) <= found.saturated <= np.mean(rest < 2.0**-23)
    # 0 is what is below the smallest number; kernels of exp give up somewhat earlier.
    assert np.mean(sample < 2.0**-151) <= found.zero_coordinates <= np.mean(sample < 1e-34)
    # A gradient may also cancel to 0 where the winner's coordinate is exactly 1.
    size = np.abs(gradient)
    assert np.mean(size < 2.0**-151) <= found.zero_gradients
    assert found.zero_gradients <= np.mean((size < 1e-34) | (rest < 2.0**-23)[:, None])
    assert found.is_finite and found.non_finite_log_probs is None


@pytest.mark.parametrize("temperature", [0.02, 0.2])
def test_saturated_share_of_binary_samples_is_scipys(temperature):
    """sigmoid(x) is exactly 1 from about 25 log 2 on; below 0 it underflows much later."""
    n = 20_000
    found = report(L.BinConcreteSample, 2, temperature, num_samples=n // 2)
    noise = scipy.stats.logistic
    shares = [
        noise.sf(temperature * upper) + noise.sf(temperature * lower)
        for upper, lower in ((26 * np.log(2), 151 * np.log(2)), (23 * np.log(2), 87.0))
    ]
    error = 4.0 * np.sqrt(shares[1] * (1.0 - shares[1]) / n)
    assert shares[0] - error < found.saturated < shares[1] + error
    assert found.zero_coordinates is None


def test_counts_by_hand():
    """A layer whose samples and gradients are known entry by entry."""

    class Known(tfc.layers.SamplingLayer):
        def relax(self, logits, temperature, class_mask=None, seed=None):
            fixed = tf.constant([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [np.nan, 0.0, 1.0]])
            # Gradients: 1, 1, 1 / 0, 0, 0 / inf, 1, 1 times the incoming one.
            slope = tf.constant([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [np.inf, 1.0, 1.0]])
            return fixed + slope * (logits - tf.stop_gradient(logits))

    found = report(Known(0.5), 3, num_samples=3)
    # inf * 0 in the first entry of the last row is NaN, as its sample is.
    assert found.non_finite_samples == pytest.approx(1 / 9)
    assert found.non_finite_gradients == pytest.approx(1 / 9)
    assert found.saturated == pytest.approx(2 / 3)
    assert found.zero_coordinates == pytest.approx(4 / 9)
    assert found.zero_gradients == pytest.approx(3 / 9)
    assert found.dead_samples == pytest.approx(1 / 3)
    assert found.noise == () and found.noise_cut is None
    assert not found.is_finite
    assert "non-finite gradients  0.111" in str(found) and "noise" not in str(found)


def test_the_noise_is_named_and_cut_where_scipy_says():
    found = report(L.BinConcreteSample, 50, 0.5)
    (tail,) = found.noise
    exact = scipy.stats.logistic
    assert tail.law == "logistic"
    assert tail.high == pytest.approx(exact.isf(2.0**-33), rel=1e-6)
    beyond = exact.cdf(tail.low) + exact.sf(tail.high)
    assert found.noise_cut == pytest.approx(scipy.stats.binom.sf(0, 50, beyond), rel=1e-4)


def test_the_layer_is_left_alone_and_its_own_temperature_is_the_default():
    layer = tfc.ConcreteSample(tfc.schedules.ExponentialAnnealing(1.0, 0.1, 0.5), seed=0)
    before = [v.numpy() for v in layer.variables]
    found = report(layer, 4)
    report(layer, 4, 0.25)
    assert found.temperature == 1.0
    for old, new in zip(before, layer.variables, strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_subclass_is_measured_by_its_own_hook():
    class Cut(tfc.ConcreteSample):
        def relax(self, logits, temperature, class_mask=None, seed=None):
            soft = super().relax(logits, temperature, class_mask=class_mask, seed=seed)
            return tf.where(soft < 0.5, tf.zeros_like(soft), soft)

    assert report(Cut, 5, 1.0).zero_coordinates > 0.7 > report(tfc.ConcreteSample, 5, 1.0).saturated


def test_params_and_axis():
    """A class without a chance is 0 wherever the classes are; so it is for distributions."""
    params = np.array([0.0, 0.0, -1e4])
    for subject in (L.ConcreteSample(axis=0), L.ConcreteSample(axis=2), D.Concrete):
        found = report(subject, 3, 1.0, params=params, num_samples=500)
        assert found.zero_coordinates == pytest.approx(1 / 3)
        assert found.zero_gradients == pytest.approx(1 / 3)
    loc, log_scale = np.array([60.0, 0.0]), np.array([-3.0, -3.0])
    for subject in (L.IGRSample, D.IGR, D.LogisticNormal):
        found = report(subject, 3, 1.0, params=[loc, log_scale], num_samples=200)
        assert found.saturated == 1.0


@pytest.mark.parametrize(
    "arguments, match",
    [
        ((tfc.ConcreteSample, 1, 0.5), "num_classes"),
        ((tfc.ConcreteSample, 3, 0.0), "temperature"),
        ((tfc.ConcreteSample, 3, 0.5, "int8"), "dtype"),
        ((tfc.ConcreteSample, 3, 0.5, "float32", [0.0, 1.0]), "params"),
        ((L.IGRSample("interpolation"), 3, 2.0), "temperature"),
        ((D.KSubset(2, tf.zeros([3])), 3, 0.5), "temperature"),
        ((L.DistributionSample(concrete_posterior), 3, 0.5), "temperature"),
    ],
)
def test_wrong_arguments(arguments, match):
    with pytest.raises(ValueError, match=f"for argument `{match}`"):
        report(*arguments)


@pytest.mark.parametrize(
    "subject", [keras.layers.Dense(3), "concrete", tfp.distributions.Gamma(1.0, 1.0)]
)
def test_wrong_subjects(subject):
    with pytest.raises(TypeError, match="layer_or_distribution"):
        report(subject, 3, 0.5)


def test_tfp_distributions_beside_ours():
    """TFP's relaxed categorical loses its density where ours does not."""
    arguments = {"num_classes": 100, "temperature": 0.05, "num_samples": 200}
    theirs = report(tfp.distributions.RelaxedOneHotCategorical, **arguments)
    ours = report(D.Concrete, **arguments)
    assert ours.is_finite and not theirs.is_finite
    assert theirs.noise == ()
    assert theirs.saturated == pytest.approx(ours.saturated, abs=4 * np.sqrt(0.5 / 200))


def test_no_gradient_through_a_draw():
    found = report(D.KSubset(2, tf.zeros([5])), 5, num_samples=50)
    assert found.zero_gradients is None and found.dead_samples is None
    assert found.saturated == 1.0 and found.zero_coordinates == pytest.approx(3 / 5)
    assert found.non_finite_log_probs == 0.0
    assert [tail.law for tail in found.noise] == ["uniform"]


def check_rules(name, found, temperature):
    """What holds for every subject of this package."""
    if found.dtype in HALF:
        # Slopes of densities at low temperatures have no room in half precision.
        assert not found.non_finite_samples and not found.non_finite_gradients, str(found)
    else:
        assert found.is_finite, str(found)
    assert [tail.law for tail in found.noise] == [law_of(name)] or name.startswith("Subset")
    if name in STRAIGHT_THROUGH:
        assert found.saturated == 1.0
    shares = found.shares.values()
    assert all(0.0 <= share <= 1.0 for share in shares)
    assert found.dead_samples <= found.zero_gradients + 1e-12
    if temperature == 1.0 and found.dtype in ("float32", "float64"):
        assert found.dead_samples < 0.01
    assert str(found).startswith(found.title)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_in_every_dtype(name, dtype):
    for temperature in (0.01, 0.1, 1.0):
        for num_classes in (3, 70):
            found = report(LAYERS[name](), num_classes, temperature, dtype, num_samples=100)
            check_rules(name, found, temperature)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_every_distribution_in_every_dtype(name, dtype):
    for temperature in (0.01, 0.1, 1.0):
        for num_classes in (3, 70):
            subject = DISTRIBUTIONS[name]
            found = report(subject, num_classes, temperature, dtype, num_samples=100)
            check_rules(name, found, temperature)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_distribution_layer_and_subsets_in_every_dtype(dtype):
    layer = report(L.DistributionSample(concrete_posterior), 10, dtype=dtype, num_samples=100)
    assert layer.is_finite and layer.temperature is None
    subset = report(D.KSubset(3, tf.zeros([8])), 8, dtype=dtype, num_samples=50)
    assert subset.is_finite and subset.saturated == 1.0


def test_every_sampling_layer_and_distribution_is_here():
    sampling = {
        name
        for name in L.__all__
        if isinstance(getattr(L, name), type)
        and issubclass(getattr(L, name), (L.SamplingLayer, L.FeatureSelector))
    }
    assert sampling - {"SamplingLayer"} == {name.split("_")[0] for name in LAYERS}
    assert {name.split("_")[0] for name in DISTRIBUTIONS} | {"KSubset"} == set(D.__all__)
