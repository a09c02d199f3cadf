"""Every sampler, on cases drawn by hypothesis: never a wrong shape, a point off the support,
a sampled masked class, a gradient on one, a silent NaN."""

import pytest
from hypothesis import given

from tests.properties.cases import cases, settings
from tests.properties.laws import check
from tests.properties.table import SUBJECTS


def examine(subject, mode, max_examples):
    """Holds a `Subject` to the laws on that many cases."""

    @settings(max_examples)
    @given(cases(binary=subject.binary))
    def holds(case):
        check(subject, case, mode)

    holds()


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_few_in_eager(name):
    examine(SUBJECTS[name], "eager", 25)


@pytest.mark.parametrize("name", ["categorical", "concrete", "gapped_nz", "bin_concrete"])
def test_a_few_compiled(name):
    examine(SUBJECTS[name], "xla", 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_many_in_eager(name):
    examine(SUBJECTS[name], "eager", 250)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", "xla"])
@pytest.mark.parametrize("name", SUBJECTS)
def test_many_compiled(name, mode):
    examine(SUBJECTS[name], mode, 50)
