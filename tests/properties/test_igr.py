"""IGR's samples, layers and distributions on drawn parameters, masks, axes and temperatures."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import tfconcrete as tfc
from tests.properties.cases import HALF, cases, settings
from tests.properties.laws import TOLERANCE, plain, row_of
from tests.properties.table import MODES

# Of a transform's name: what `igr` takes, and the largest temperature.
TRANSFORMS = {
    "softmax++": ({"transform": "softmax++"}, np.inf),
    "delta": ({"transform": "softmax++", "delta": 0.1}, np.inf),
    "stick_breaking": ({"transform": "stick_breaking"}, np.inf),
    "truncated": ({"transform": "stick_breaking", "precision": 0.9}, np.inf),
    "interpolation": ({"transform": "interpolation"}, 1.0),
}
LOG_SCALES = (0.0, 1.0, 30.0, 1e4, 3e38)


@st.composite
def parameters(draw, max_temperature):
    """A case whose K logits are K-1 locations (the last is dropped), with its log scales."""
    case = draw(cases())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    loc = np.delete(case.logits, -1, case.axis)
    log_scale = rng.normal(size=loc.shape) * draw(st.sampled_from(LOG_SCALES))
    special = draw(st.sampled_from((None, None, None, np.nan, np.inf, -np.inf)))
    if special is not None:
        log_scale = np.where(rng.random(loc.shape) < 0.1, special, log_scale)
    if case.dtype != "float64":
        finite = np.clip(log_scale, -3e38, 3e38)
        log_scale = np.where(np.isfinite(log_scale), finite, log_scale)
    log_scale = plain(tf.cast(log_scale, case.dtype))
    temperature = np.minimum(case.temperature, max_temperature)
    return dataclasses.replace(case, temperature=temperature), loc, log_scale


def unknown_rows(case, *params):
    """The entries of rows with a NaN in a kept coordinate."""
    free = np.delete(case.kept, -1, case.axis)
    bad = np.any([np.isnan(value) & free for value in params], 0)
    rows = np.any(bad, case.axis, keepdims=True)
    return np.broadcast_to(rows, case.logits.shape)


def check(call, case, loc, log_scale, mode):
    """Shape, dtype, simplex, masks, NaN and gradients, as for the other samplers."""
    _, temperature, mask = case.tensors()
    params = [tf.cast(tf.constant(value), case.dtype) for value in (loc, log_scale)]
    upstream = np.random.default_rng(case.seed % 2**32).normal(size=case.logits.shape)
    upstream = tf.cast(tf.constant(upstream), case.dtype)

    def run(loc, log_scale, temperature, mask):
        with tf.GradientTape() as tape:
            tape.watch([loc, log_scale])
            sample = call(loc, log_scale, temperature, mask)
        return sample, tape.gradient(sample, [loc, log_scale], output_gradients=upstream)

    sample, gradients = MODES[mode](run)(*params, temperature, mask)
    assert sample.shape == case.logits.shape and sample.dtype == params[0].dtype
    values, kept = plain(sample), case.kept
    unknown = unknown_rows(case, loc, log_scale)
    np.testing.assert_array_equal(np.isnan(values), unknown & kept)
    np.testing.assert_array_equal(values[~kept], 0.0)
    known = values[kept & ~unknown]
    assert np.all((known >= 0.0) & (known <= 1.0 + TOLERANCE[case.dtype]))
    total = np.sum(np.where(unknown, 0.0, values), case.axis)
    expected = np.any(kept & ~unknown, case.axis)
    np.testing.assert_allclose(total, expected, atol=2 * TOLERANCE[case.dtype])
    free = np.delete(kept, -1, case.axis)
    lost = np.delete(row_of(unknown, case), -1, case.axis)
    for gradient in gradients:
        if gradient is None:
            continue  # of a rounding
        slope = plain(gradient)
        np.testing.assert_array_equal(slope[~free], 0.0)
        if case.dtype not in HALF or case.temperature.size and case.temperature.min() > 1e-3:
            assert np.all(np.isfinite(slope[~lost]))


def examine(name, mode, max_examples):
    options, max_temperature = TRANSFORMS[name]

    @settings(max_examples)
    @given(parameters(max_temperature))
    def holds(drawn):
        case, loc, log_scale = drawn

        def call(loc, log_scale, temperature, mask):
            return tfc.relaxations.igr(
                loc,
                log_scale,
                temperature,
                class_mask=mask,
                axis=case.axis,
                seed=case.seed,
                **options,
            )

        check(call, case, loc, log_scale, mode)

    holds()


def examine_law(make, mode, max_examples):
    """Samples of a distribution on the simplex; densities that are no NaN."""

    @settings(max_examples)
    @given(parameters(1.0))
    def holds(drawn):
        case, loc, log_scale = drawn
        loc, log_scale = (np.moveaxis(x, case.axis, -1) for x in (loc, log_scale))
        known = ~np.any(np.isnan(loc) | np.isnan(log_scale), -1)
        ordinary = np.all(np.abs(loc) < 1e3, -1) & np.all(np.abs(log_scale) < 5.0, -1)
        temperature = float(np.ravel(case.temperature)[0]) if case.temperature.size else 1.0
        if float(tf.cast(temperature, case.dtype)) == 0.0:
            return  # no number of half precision

        def run(loc, scale):
            law = make(loc, scale, tf.cast(temperature, case.dtype))
            sample = law.sample(seed=case.seed)
            same, fused = law.experimental_sample_and_log_prob(seed=case.seed)
            return sample, law.log_prob(tf.identity(sample)), same, fused

        scale = np.exp(np.clip(log_scale, -9.0, 9.0))
        params = [tf.cast(tf.constant(x), case.dtype) for x in (loc, scale)]
        sample, log_prob, same, fused = map(plain, MODES[mode](run)(*params))
        assert sample.shape == (*loc.shape[:-1], loc.shape[-1] + 1)
        np.testing.assert_array_equal(np.isnan(sample).any(-1), ~known)
        np.testing.assert_array_equal(same, sample)
        tolerance = 2 * TOLERANCE[case.dtype]
        np.testing.assert_allclose(sample[known].sum(-1), 1.0, atol=tolerance)
        assert np.all((sample[known] >= 0.0) & (sample[known] <= 1.0 + tolerance))
        assert not np.any(np.isnan(log_prob[known])) and not np.any(np.isnan(fused[known]))
        if case.dtype not in HALF and temperature >= 0.01:
            assert np.all(np.isfinite(fused[known & ordinary]))

    holds()


def examine_layer(name, mode, max_examples):
    training, options, max_temperature = LAYERS[name]

    @settings(max_examples)
    @given(parameters(max_temperature))
    def holds(drawn):
        case, loc, log_scale = drawn
        if options.get("inference") == "argmax":
            log_scale = np.where(np.isnan(log_scale), 0.0, log_scale)  # it reads none
        temperature = float(np.ravel(case.temperature)[0]) if case.temperature.size else 1.0
        layer = tfc.IGRSample(
            temperature=temperature,
            axis=case.axis,
            dtype=case.dtype,
            seed=case.seed % 2**31,
            **options,
        )

        def call(loc, log_scale, temperature, mask):
            return layer([loc, log_scale], class_mask=mask, training=training)

        check(call, case, loc, log_scale, mode)

    holds()


D = tfc.distributions
LAWS = {
    "softmax++": D.IGR,
    "delta": lambda *args: D.IGR(*args, delta=0.1),
    "stick_breaking": lambda *args: D.IGR(*args, "stick_breaking"),
    "truncated": lambda *args: D.IGR(*args, "stick_breaking", precision=0.9),
    "interpolation": lambda *args: D.IGR(*args, "interpolation"),
    "LogisticNormal": D.LogisticNormal,
}
# Of a name: whether the layer trains, its arguments, and the largest temperature.
LAYERS = {
    **{name: (True, *rest) for name, rest in TRANSFORMS.items()},
    "argmax": (False, {"inference": "argmax"}, np.inf),
    "argmax_truncated": (False, {"inference": "argmax", **TRANSFORMS["truncated"][0]}, np.inf),
    "sample": (False, {"inference": "sample"}, np.inf),
    "probs": (False, {"inference": "probs"}, np.inf),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_few(name):
    examine(name, "eager", 15)


@pytest.mark.parametrize("name", LAWS)
def test_a_few_of_a_law(name):
    examine_law(LAWS[name], "eager", 5)


@pytest.mark.parametrize("name", LAYERS)
def test_a_few_of_a_layer(name):
    examine_layer(name, "eager", 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSFORMS)
def test_many(name):
    examine(name, "eager", 150)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_many_of_a_law(name):
    examine_law(LAWS[name], "eager", 100)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_many_of_a_layer(name):
    examine_layer(name, "eager", 100)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", "xla"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_many_compiled(name, mode):
    examine(name, mode, 15)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", "xla"])
@pytest.mark.parametrize("name", LAWS)
def test_many_of_a_law_compiled(name, mode):
    examine_law(LAWS[name], mode, 10)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", "xla"])
@pytest.mark.parametrize("name", LAYERS)
def test_many_of_a_layer_compiled(name, mode):
    examine_layer(name, mode, 10)
