"""Gradients through discrete draws (stage 3): tensors and a seed in, tensors out, no state.

The straight-through family returns one-hot draws whose gradient is a surrogate's. With
the same seed all of them draw the same class, that of `relaxations.categorical`.
"""

from tfconcrete.estimators.bin_concrete import bin_concrete_straight_through
from tfconcrete.estimators.gapped import expected_gap, gapped_straight_through
from tfconcrete.estimators.gumbel_rao import gumbel_rao
from tfconcrete.estimators.gumbel_softmax import (
    gumbel_softmax,
    straight_through_gumbel_softmax,
)
from tfconcrete.estimators.reinmax import reinmax
from tfconcrete.estimators.straight_through import straight_through

__all__ = [
    "bin_concrete_straight_through",
    "expected_gap",
    "gapped_straight_through",
    "gumbel_rao",
    "gumbel_softmax",
    "reinmax",
    "straight_through",
    "straight_through_gumbel_softmax",
]
