"""TFP distributions of relaxed discrete variables (stage 4)."""

from tfconcrete.distributions.bin_concrete import BinConcrete
from tfconcrete.distributions.concrete import Concrete
from tfconcrete.distributions.exp_concrete import ExpConcrete
from tfconcrete.distributions.igr import IGR
from tfconcrete.distributions.logistic_normal import LogisticNormal
from tfconcrete.distributions.logit_bin_concrete import LogitBinConcrete

__all__ = [
    "BinConcrete",
    "Concrete",
    "ExpConcrete",
    "IGR",
    "LogisticNormal",
    "LogitBinConcrete",
]
