"""What a discrete variable is: states, draws, probabilities, masses, codes (stage 5)."""

from tfconcrete.variables.base import KLOption, Variable
from tfconcrete.variables.binary import Binary, RelaxedBinary
from tfconcrete.variables.categorical import Categorical, RelaxedCategorical
from tfconcrete.variables.gaussian_simplex import GaussianSimplex
from tfconcrete.variables.k_subset import KSubset

__all__ = [
    "Binary",
    "Categorical",
    "GaussianSimplex",
    "KLOption",
    "KSubset",
    "RelaxedBinary",
    "RelaxedCategorical",
    "Variable",
]
