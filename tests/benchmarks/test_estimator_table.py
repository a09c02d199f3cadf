"""The table of biases and variances, with few draws."""

import math

import pytest

from benchmarks import estimator_table


@pytest.fixture(scope="module")
def results():
    return estimator_table.measure(draws=200)


def test_every_estimator_has_its_row(results):
    names = {name for name, _ in results}
    assert {
        "Concrete (soft)", "STGS", "ST", "GR-MC10", "GR-MC100", "GST-0.0", "GST-0.8", "GST-1.0",
        "GST-1.2", "GST-pi", "NZ-GST-0.0", "NZ-GST-1.0", "ReinMax", "REINFORCE",
    } <= names  # fmt: skip
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


def test_markdown(results):
    lines = estimator_table.markdown(results).splitlines()
    assert len(lines) == 2 + len(results)
    assert {line.count("|") for line in lines} == {9}
