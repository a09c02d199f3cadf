"""Trees as merges: spans and their agreement, against plain recursion."""

import numpy as np
import pytest

import tfconcrete as tfc


def test_spans_by_hand():
    assert tfc.diagnostics.tree_spans([]) == []
    assert tfc.diagnostics.tree_spans([-1, -1]) == []
    assert tfc.diagnostics.tree_spans([2, 0, 0, 0]) == [(2, 4), (0, 2), (0, 4), (0, 5)]


def test_spans_of_random_trees_nest():
    rng = np.random.default_rng(0)
    for length in range(2, 12):
        merges = [int(rng.integers(length - 1 - step)) for step in range(length - 1)]
        spans = tfc.diagnostics.tree_spans(merges)
        assert len(set(spans)) == length - 1 and spans[-1] == (0, length)
        for a, b in spans:
            for c, d in spans:
                assert b <= c or d <= a or (a <= c and d <= b) or (c <= a and b <= d)


def test_agreement_does_not_depend_on_the_order_of_merges():
    # ((0 1) (2 3)), built from the left and from the right.
    one, other = [0, 1, 0, -1], [2, 0, 0, -1]
    assert tfc.diagnostics.tree_f1([one], [other]).tolist() == [1.0]
    left = [0, 0, 0, -1]
    assert tfc.diagnostics.tree_f1([one], [left]).tolist() == [0.5]


def test_small_trees_agree():
    merges = [[-1, -1], [0, -1]]
    assert tfc.diagnostics.tree_f1(merges, merges).tolist() == [1.0, 1.0]


def test_errors():
    with pytest.raises(ValueError, match="`merges`"):
        tfc.diagnostics.tree_spans([2, 0])
    with pytest.raises(ValueError, match="`merges`"):
        tfc.diagnostics.tree_f1([[0, 0]], [[0, -1]])
    with pytest.raises(ValueError, match="`merges`"):
        tfc.diagnostics.tree_f1([0, 0], [0, 0])
