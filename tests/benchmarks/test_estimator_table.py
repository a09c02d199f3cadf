"""The table of biases and variances, with few draws."""

import math

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import estimator_table
from tests.subsets import Law, subsets


@pytest.fixture(scope="module")
def results():
    return estimator_table.measure(draws=200)


def test_every_estimator_has_its_row(results):
    names = {name for name, _ in results}
    assert {
        "Concrete (soft)",
        "STGS",
        "ST",
        "GR-MC10",
        "GR-MC100",
        "GST-0.0",
        "GST-0.8",
        "GST-1.0",
        "GST-1.2",
        "GST-pi",
        "NZ-GST-0.0",
        "NZ-GST-1.0",
        "ReinMax",
        "REINFORCE",
        "SIMPLE, 3 of 6",
        "Gumbel top-k, 3 of 6",
    } <= names
    for row in results.values():
        assert set(row) == {"linear", "quadratic", "network"}
        assert all(math.isfinite(value) for cell in row.values() for value in cell)


def test_what_the_formulas_promise(results):
    def within_error(name, objective):
        bias, error, _, _ = results[name][objective]
        return bias < 4.0 * error + 1e-5

    assert results["ST", 1.0]["linear"][0] < 1e-5  # the same gradient for every draw
    assert within_error(("ReinMax", 1.0), "linear")
    assert within_error(("ReinMax", 1.0), "quadratic")
    assert not within_error(("ST", 1.0), "quadratic")
    for temperature in estimator_table.TEMPERATURES:
        for objective in estimator_table.OBJECTIVES:
            averaged = results["GR-MC100", temperature][objective][2]
            assert averaged < results["STGS", temperature][objective][2]


def test_the_exact_estimator_of_subsets_is_better():
    """Less bias and less variance than Gumbel top-k, on every objective."""
    results = estimator_table.measure(6_000, estimator_table.PROBLEMS[1:])
    exact = results["SIMPLE, 3 of 6", None]
    assert exact["linear"][0] < 1e-5 and exact["linear"][2] < 1e-9
    for temperature in estimator_table.TEMPERATURES:
        gumbel = results["Gumbel top-k, 3 of 6", temperature]
        for objective in estimator_table.OBJECTIVES:
            assert exact[objective][2] + 3.0 * exact[objective][3] < gumbel[objective][2]
            # As small a bias as the errors of both means can tell.
            slack = np.hypot(exact[objective][1], gumbel[objective][1])
            assert exact[objective][0] < gumbel[objective][0] + slack


def test_the_law_of_subsets():
    states, log_probs = estimator_table.subset_law(tf.constant(estimator_table.SUBSET_LOGITS))
    first, second = (Law(logits, 3).probs for logits in estimator_table.SUBSET_LOGITS)
    np.testing.assert_allclose(np.exp(log_probs), np.outer(first, second).ravel(), rtol=1e-9)
    np.testing.assert_array_equal(states[:, 0], np.repeat(subsets(6, 3), 20, axis=0))


def test_markdown(results):
    lines = estimator_table.markdown(results).splitlines()
    assert len(lines) == 2 + len(results)
    assert {line.count("|") for line in lines} == {9}
