"""Codes and one-hot vectors of any scores under any mask, against Python's comparisons."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given

from tests.properties.cases import cases, settings
from tests.properties.laws import plain
from tests.properties.table import MODES
from tfconcrete import relaxations
from tfconcrete.relaxations.discretize import argmax_and_codes


def reference(x, mask):
    """Code and one-hot row of one row of scores, by Python's own comparisons."""
    classes = np.flatnonzero(mask).tolist()
    hot = np.zeros(len(x))
    if not classes:
        return -1, hot
    if np.isnan(x[classes]).any():
        hot[classes] = np.nan
        return -1, hot
    # A kept -inf is as good as the smallest finite score.
    code = max(classes, key=lambda k: (max(x[k], -1.7e308), -k))
    hot[code] = 1.0
    return code, hot


def examine(mode, max_examples):
    @settings(max_examples)
    @given(cases())
    def holds(case):
        x, _, mask = case.tensors()
        rows = np.moveaxis(case.logits, case.axis, -1)
        kept = np.moveaxis(case.kept, case.axis, -1)
        lowest = float(x.dtype.min)
        codes = np.empty(rows.shape[:-1], int)
        hot = np.empty(rows.shape)
        for index in np.ndindex(rows.shape[:-1]):
            bounded = np.where(rows[index] == -np.inf, lowest, rows[index])
            codes[index], hot[index] = reference(bounded, kept[index])
        hot = np.moveaxis(hot, -1, case.axis)

        def run(x, mask):
            return argmax_and_codes(x, case.axis, mask), relaxations.codes(x, case.axis, mask)

        (seen_hot, seen), alone = MODES[mode](run)(x, mask)
        np.testing.assert_array_equal(plain(seen_hot), hot)
        np.testing.assert_array_equal(seen, codes)
        np.testing.assert_array_equal(alone, codes)
        num_classes = case.logits.shape[case.axis]
        back = relaxations.one_hot(seen, num_classes, case.axis % case.logits.ndim)
        np.testing.assert_array_equal(back, np.nan_to_num(hot))
        if mask is None:
            np.testing.assert_array_equal(
                plain(MODES[mode](relaxations.discretize)(x, case.axis)), hot
            )
        assert seen.dtype == tf.int32

    holds()


def test_a_few():
    examine("eager", 40)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "max_examples"), [("eager", 500), ("graph", 50), ("xla", 50)])
def test_many(mode, max_examples):
    examine(mode, max_examples)
