"""The numeric grid: samples, log densities and gradients are finite in every cell."""

import re

import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from benchmarks import numeric_grid


def failures(column):
    return [cell for cell, finite in column.items() if not finite]


def test_all_cells_are_finite():
    column = numeric_grid.tensorflow_column(numeric_grid.TFCONCRETE, num_draws=10)
    assert len(column) == 672
    assert failures(column) == []


@pytest.mark.parametrize("form", numeric_grid.FORMS)
def test_the_hardest_cells_are_finite_under_xla(form):
    column = numeric_grid.tensorflow_column(
        numeric_grid.TFCONCRETE,
        num_draws=10,
        jit_compile=True,
        forms=[form],
        dtypes=["float32"],
        num_classes=[1000],
    )
    assert len(column) == 28
    assert failures(column) == []


@pytest.mark.parametrize("dtype", numeric_grid.DTYPES)
def test_the_logit_form_is_finite_too(dtype):
    families = {"binary": tfc.distributions.LogitBinConcrete}
    column = numeric_grid.tensorflow_column(families, forms=["binary"], dtypes=[dtype])
    assert failures(column) == []


def test_the_logistic_normal_is_finite_too():
    def make(temperature, logits):
        loc = logits[..., :-1]
        return tfc.distributions.LogisticNormal(loc, tf.ones_like(loc), temperature)

    column = numeric_grid.tensorflow_column({"simplex": make}, forms=["simplex"])
    assert failures(column) == []


def test_the_grid_sees_a_failure():
    """TFP's relaxed Bernoulli at temperature 0.01 is one."""
    column = numeric_grid.tensorflow_column(
        numeric_grid.TFP, forms=["binary"], dtypes=["float32"], temperatures=[0.01, 10.0]
    )
    assert not any(finite for cell, finite in column.items() if cell[2] == 0.01)
    assert column["binary", "float32", 10.0, 2, 0.0]


def test_the_table_counts_the_cells():
    subset = {"num_classes": [2], "dtypes": ["float32"]}
    cells = numeric_grid.tensorflow_column(numeric_grid.TFCONCRETE, num_draws=2, **subset)
    table = numeric_grid.markdown({"ours": cells})
    assert re.search(r"\| simplex \| float32 \| 0.01 \| 4 \| 4 \|", table)
    assert table.splitlines()[-1] == "| all | all | all | 84 | 84 |"


@pytest.mark.parametrize("form", numeric_grid.FORMS)
def test_fused_log_prob_is_finite_and_exact(form):
    """Where the plain sample has underflowed, the fused one still has its logarithm."""
    logits = 10.0 * numeric_grid.standard_logits(100)
    single, double = (
        numeric_grid.TFCONCRETE[form](tf.constant(0.01, dtype), logits=tf.constant(logits, dtype))
        for dtype in ("float32", "float64")
    )
    _, got = single.experimental_sample_and_log_prob(5, seed=(1, 2))
    _, expected = double.experimental_sample_and_log_prob(5, seed=(1, 2))
    # The same noise in either dtype.
    np.testing.assert_allclose(got, expected, rtol=1e-5)
