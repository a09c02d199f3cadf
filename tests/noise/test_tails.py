"""Where noise ends, against SciPy's quantiles of the exact laws."""

import math

import numpy as np
import pytest
import scipy.stats

from tfconcrete import noise
from tfconcrete._streams import record_laws

LAWS = {
    "gumbel": scipy.stats.gumbel_r,
    "logistic": scipy.stats.logistic,
    "normal": scipy.stats.norm,
    "uniform": scipy.stats.uniform,
}
# Of a word: the middle of the first cell of 2**-32, and float32's last number below 1.
FINE, COARSE = 2.0**-33, 2.0**-24
ENDS = {
    "gumbel": (COARSE, FINE),  # fine where it decides who wins
    "logistic": (FINE, FINE),
    "normal": (FINE, FINE),
    "uniform": (FINE, COARSE),
}


@pytest.mark.parametrize("law", LAWS)
def test_range_and_what_lies_outside_it(law):
    tail, exact = noise.noise_tail(law), LAWS[law]
    below, above = ENDS[law]
    assert tail.law == law
    # The normal's polynomial is off by 4e-4 at its very ends, below a probability of 1e-9.
    rtol = 5e-4 if law == "normal" else 1e-6
    assert tail.low == pytest.approx(exact.ppf(below), rel=rtol)
    assert tail.high == pytest.approx(exact.isf(above), rel=rtol)
    assert tail.below == pytest.approx(exact.cdf(tail.low), rel=1e-9)
    assert tail.above == pytest.approx(exact.sf(tail.high), rel=1e-6)
    # An error in x is one x times (for a Gumbel or Logistic) or x**2 times as large in
    # the probability beyond it.
    np.testing.assert_allclose([tail.below, tail.above], [below, above], rtol=50 * rtol)


@pytest.mark.parametrize("law", LAWS)
def test_draws_stay_inside(law):
    tail = noise.noise_tail(law)
    draws = getattr(noise, law)([200_000], seed=3).numpy()
    assert tail.low <= draws.min() and draws.max() <= tail.high


def test_cut_of_many_draws():
    tail = noise.noise_tail("gumbel")
    for n in (1, 1000, 10**9):
        exact = scipy.stats.binom.sf(0, n, tail.below + tail.above)
        assert tail.cut(n) == pytest.approx(exact, rel=1e-6)
    assert math.isclose(tail.cut(1), tail.below + tail.above, rel_tol=1e-9)


@pytest.mark.parametrize("law", LAWS)
def test_a_draw_tells_its_law(law):
    with record_laws() as outer, record_laws() as inner:
        getattr(noise, law)([2], seed=0)
    getattr(noise, "normal" if law == "uniform" else "uniform")([2], seed=0)
    assert outer == inner == {law}


def test_unknown_law():
    with pytest.raises(ValueError, match="Expected one of"):
        noise.noise_tail("cauchy")
