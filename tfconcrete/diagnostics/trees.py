"""Binary trees given as merges: their spans, and how far two of them agree."""

from collections.abc import Iterable

import numpy as np

from tfconcrete._checks import invalid_value
from tfconcrete._typing import TensorLike


def tree_spans(merges: Iterable[int]) -> list[tuple[int, int]]:
    """The spans of a binary tree that was built by merging neighbours.

    Args:
        merges: int sequence: step t merges node `merges[t]` of those that are left with
            its right neighbour. It ends with the first -1.

    Returns:
        List of pairs `(start, stop)`, one for each merge, in their order: the leaves
        from `start` up to, not including, `stop` are under the node it made.

    Example:

    >>> tfc.diagnostics.tree_spans([1, 0, -1])
    [(1, 3), (0, 3)]
    """
    positions = [int(position) for position in merges]
    if -1 in positions:
        positions = positions[: positions.index(-1)]
    nodes = [(leaf, leaf + 1) for leaf in range(len(positions) + 1)]
    spans = []
    for position in positions:
        if not 0 <= position < len(nodes) - 1:
            raise invalid_value(
                "merges", f"positions from 0 to {len(nodes) - 2} here, the rest -1", merges
            )
        span = (nodes[position][0], nodes[position + 1][1])
        nodes[position : position + 2] = [span]
        spans.append(span)
    return spans


def tree_f1(merges: TensorLike, reference: TensorLike) -> np.ndarray:
    """The unlabelled F1 of the spans of binary trees against those of reference trees.

    The span of the whole sequence, which all trees have, does not count. Binary trees of a
    sequence have equally many spans, so precision, recall and F1 are one number.

    Args:
        merges: int array `[batch, length - 1]`, merges as `tree_spans` reads them.
        reference: int array of that shape, other trees of the same sequences.

    Returns:
        Float array `[batch]`; 1 for sequences of less than three leaves, which have one
        tree only.

    Example:

    >>> left, right = [[0, 0, 0]], [[2, 1, 0]]
    >>> tfc.diagnostics.tree_f1(left, left), tfc.diagnostics.tree_f1(left, right)
    (array([1.]), array([0.]))
    """
    merges, reference = np.asarray(merges), np.asarray(reference)
    if merges.ndim != 2 or merges.shape != reference.shape:
        raise invalid_value(
            "merges", "a shape [batch, length - 1], that of `reference`", merges.shape
        )
    if np.any((merges < 0) != (reference < 0)):
        raise invalid_value("merges", "trees of the same sequences as `reference`", merges)
    return np.array([_agreement(*pair) for pair in zip(merges, reference, strict=True)])


def _agreement(merges, reference):
    inner, inner_reference = (set(tree_spans(m)[:-1]) for m in (merges, reference))
    if not inner_reference:
        return 1.0
    return len(inner & inner_reference) / len(inner_reference)
