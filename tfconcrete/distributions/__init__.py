"""TFP distributions of discrete variables and their relaxations (stage 4)."""

from tfconcrete.distributions.bin_concrete import BinConcrete
from tfconcrete.distributions.concrete import Concrete
from tfconcrete.distributions.exp_concrete import ExpConcrete
from tfconcrete.distributions.igr import IGR
from tfconcrete.distributions.igr_kl import kl_igr_igr as _kl_igr_igr  # noqa: F401  registers
from tfconcrete.distributions.k_subset import KSubset
from tfconcrete.distributions.logistic_normal import LogisticNormal
from tfconcrete.distributions.logit_bin_concrete import LogitBinConcrete

__all__ = [
    "BinConcrete",
    "Concrete",
    "ExpConcrete",
    "IGR",
    "KSubset",
    "LogisticNormal",
    "LogitBinConcrete",
]
