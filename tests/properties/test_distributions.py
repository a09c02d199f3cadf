"""Relaxed distributions: samples on their support, densities and gradients that are numbers."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import tfconcrete as tfc
from tests.properties.cases import HALF, Case, settings
from tests.properties.laws import TOLERANCE, plain
from tests.properties.table import MODES

D = tfc.distributions
LAWS = {
    "Concrete": (D.Concrete, "simplex"),
    "ExpConcrete": (D.ExpConcrete, "log_simplex"),
    "BinConcrete": (D.BinConcrete, "interval"),
    "LogitBinConcrete": (D.LogitBinConcrete, "line"),
}
SCALES = (0.0, 1.0, 30.0, 1e4, 1e9, 3e38)


@st.composite
def parameters(draw, binary):
    """Logits and a temperature for each batch entry; the temperature's batch may be larger."""
    rank = draw(st.integers(0, 5 if binary else 4))
    batch = [draw(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, 3)) for _ in range(rank)]
    event = [] if binary else [draw(st.sampled_from((2, 3, 10, 63, 64, 65, 66)))]
    dtype = draw(st.sampled_from(("float16", "bfloat16", "float32", "float64")))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    own = batch[draw(st.integers(0, rank)) :]
    logits = rng.normal(size=own + event) * draw(st.sampled_from(SCALES))
    special = draw(st.sampled_from((None, None, np.nan, np.inf, -np.inf)))
    if special is not None:
        logits = np.where(rng.random(logits.shape) < 0.2, special, logits)
    if dtype != "float64":
        logits = np.where(np.isfinite(logits), np.clip(logits, -3e38, 3e38), logits)
    logits = plain(tf.cast(logits, dtype))
    shape = batch if draw(st.booleans()) else []
    if shape[len(own) :][-1:] == [1]:
        shape = []  # taken for a class dimension, and refused
    exponent = draw(st.floats(-6.0, 6.0))
    temperature = 10.0 ** np.clip(exponent + rng.uniform(-0.3, 0.3, shape), -6, 6)
    return Case(logits, dtype, None if binary else -1, None, temperature, draw(st.integers(0, 9)))


def examine(name, mode, max_examples):
    make, kind = LAWS[name]
    binary = kind in ("interval", "line")

    @settings(max_examples)
    @given(parameters(binary))
    def holds(case):
        logits, _, _ = case.tensors()
        temperature = tf.cast(case.temperature, case.dtype)
        if not np.all(np.isfinite(plain(temperature)) & (plain(temperature) > 0.0)):
            return  # no number of half precision

        def run(logits, temperature):
            with tf.GradientTape(persistent=True) as tape:
                tape.watch([logits, temperature])
                law = make(temperature, logits=logits)
                sample = law.sample(2, seed=case.seed)
                log_prob = law.log_prob(tf.identity(sample))
                same, fused = law.experimental_sample_and_log_prob(2, seed=case.seed)
            gradients = [
                tape.gradient(value, x, unconnected_gradients="zero")
                for value in (sample, log_prob, fused)
                for x in (logits, temperature)
            ]
            return sample, log_prob, same, fused, gradients

        sample, log_prob, same, fused, gradients = MODES[mode](run)(logits, temperature)
        event = () if binary else case.logits.shape[-1:]
        own = case.logits.shape if binary else case.logits.shape[:-1]
        batch = np.broadcast_shapes(own, case.temperature.shape)
        assert sample.shape == (2, *batch, *event) and sample.dtype == logits.dtype
        assert log_prob.shape == fused.shape == (2, *batch)
        unknown = np.isnan(case.logits) if binary else np.isnan(case.logits).any(-1)
        unknown = np.broadcast_to(unknown, (2, *batch))
        values = plain(sample)
        lost = np.isnan(values) if binary else np.isnan(values).any(-1)
        np.testing.assert_array_equal(lost, unknown)
        np.testing.assert_array_equal(plain(same), values)
        known = values[~unknown]
        if kind in ("simplex", "log_simplex"):
            total = (known if kind == "simplex" else np.exp(known)).sum(-1)
            np.testing.assert_allclose(total, 1.0, atol=10 * TOLERANCE[case.dtype])
        if kind in ("simplex", "interval"):
            assert np.all((known >= 0) & (known <= 1 + TOLERANCE[case.dtype]))
        for density in (plain(log_prob), plain(fused)):
            assert not np.any(np.isnan(density[~unknown]))
        ordinary = (
            case.dtype not in HALF
            and np.all(np.abs(case.logits) <= 1e4)
            and case.temperature.size
            and case.temperature.min() >= 0.01
            and case.temperature.max() <= 10
        )
        if ordinary:
            for value in (log_prob, fused, *gradients):
                assert np.all(np.isfinite(plain(value)))

    holds()


@pytest.mark.parametrize("name", LAWS)
def test_a_few(name):
    examine(name, "eager", 30)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_many(name):
    examine(name, "eager", 150)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", "xla"])
@pytest.mark.parametrize("name", LAWS)
def test_many_compiled(name, mode):
    examine(name, mode, 25)
