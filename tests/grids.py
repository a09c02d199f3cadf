"""Grids of parameters of which the quick tests run a part, and the slow ones the rest."""

import itertools

import pytest


def grid(*axes, quick):
    """Every combination of the axes for `parametrize`, slow where `quick` of it is false."""
    return [
        pytest.param(*values, marks=() if quick(*values) else pytest.mark.slow)
        for values in itertools.product(*axes)
    ]
