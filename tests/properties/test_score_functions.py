"""Score-function estimators: finite values and gradients, none on a masked class."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given

import tfconcrete as tfc
from tests.properties.cases import cases, settings
from tests.properties.laws import plain
from tests.properties.table import MODES

e = tfc.estimators
# name: (function, keywords, whether each variable is one binary logit)
ESTIMATORS = {
    "reinforce": (e.reinforce, {"num_samples": 2}, False),
    "nvil": (e.nvil, {"num_samples": 2}, False),
    "vimco": (e.vimco, {"num_samples": 3}, False),
    "rloo": (e.rloo, {"num_samples": 2}, False),
    "disarm_tree": (e.disarm_tree, {"num_samples": 4}, False),
    "binary_rloo": (e.rloo, {"num_samples": 2, "axis": None}, True),
    "disarm": (e.disarm, {"num_samples": 4}, True),
}


def examine(name, mode, max_examples):
    function, keywords, binary = ESTIMATORS[name]

    @settings(max_examples)
    @given(cases(binary=binary))
    def holds(case):
        logits, _, mask = case.tensors()
        rank = case.logits.ndim
        batch_ndims = rank if binary else case.axis % rank
        weights = tf.constant(np.random.default_rng(0).normal(size=case.logits.shape), tf.float32)
        latent = list(range(batch_ndims - rank, 0))
        arguments = {**keywords, "batch_ndims": batch_ndims, "seed": case.seed}
        if not binary:
            arguments["axis"] = case.axis

        def objective(sample, log_q):
            return tf.reduce_sum(tf.cast(sample, tf.float32) * weights, axis=latent)

        if case.dtype == "float64":

            def objective(sample, log_q):
                return tf.reduce_sum(sample * tf.cast(weights, sample.dtype), axis=latent)

        def run(logits, mask):
            with tf.GradientTape() as tape:
                tape.watch(logits)
                value = function(objective, logits, class_mask=mask, **arguments)
                value = value.surrogate if name == "nvil" else value
            return value, tape.gradient(value, logits)

        value, gradient = MODES[mode](run)(logits, mask)
        assert value.shape == case.logits.shape[:batch_ndims]
        unknown = np.isnan(case.logits) & case.kept
        lost = np.any(unknown, axis=tuple(latent)) if latent else unknown
        np.testing.assert_array_equal(np.isnan(plain(value)), lost)
        slope = plain(gradient)
        np.testing.assert_array_equal(slope[~case.kept], 0.0)
        assert np.all(np.isfinite(slope[~lost]))

    holds()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_few(name):
    examine(name, "eager", 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_many(name):
    examine(name, "eager", 100)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", "xla"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_many_compiled(name, mode):
    examine(name, mode, 15)
