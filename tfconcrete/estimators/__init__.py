"""Gradients through discrete draws (stage 3): tensors and a seed in, tensors out, no state.

The straight-through family returns one-hot draws whose gradient is a surrogate's. With
the same seed all of them draw the same class, that of `relaxations.categorical`, but for
`straight_through_gumbel_softmax`, whose draw is the rounding of `relaxations.concrete`:
the same class too below 64 classes, and another one from 64 on, where a draw that needs
no noise for every class goes by blocks of classes.

The score-function family takes an objective and returns its value, with an unbiased
gradient; the `*_surrogate` forms take the objective's values and log q instead.
"""

from tfconcrete.estimators.bin_concrete import bin_concrete_straight_through
from tfconcrete.estimators.disarm import disarm, disarm_tree
from tfconcrete.estimators.discrete_latent import sample_and_log_prob
from tfconcrete.estimators.gapped import expected_gap, gapped_straight_through
from tfconcrete.estimators.gumbel_rao import gumbel_rao
from tfconcrete.estimators.gumbel_softmax import (
    gumbel_softmax,
    straight_through_gumbel_softmax,
)
from tfconcrete.estimators.k_subset import (
    straight_through_gumbel_top_k,
    straight_through_k_subset,
)
from tfconcrete.estimators.reinmax import reinmax
from tfconcrete.estimators.score_function import nvil, reinforce, rloo, vimco
from tfconcrete.estimators.straight_through import straight_through
from tfconcrete.estimators.surrogates import (
    NVILResult,
    nvil_surrogate,
    reinforce_surrogate,
    rloo_surrogate,
    vimco_surrogate,
)

__all__ = [
    "NVILResult",
    "bin_concrete_straight_through",
    "disarm",
    "disarm_tree",
    "expected_gap",
    "gapped_straight_through",
    "gumbel_rao",
    "gumbel_softmax",
    "nvil",
    "nvil_surrogate",
    "reinforce",
    "reinforce_surrogate",
    "reinmax",
    "rloo",
    "rloo_surrogate",
    "sample_and_log_prob",
    "straight_through",
    "straight_through_gumbel_softmax",
    "straight_through_gumbel_top_k",
    "straight_through_k_subset",
    "vimco",
    "vimco_surrogate",
]
