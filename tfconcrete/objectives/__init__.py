"""Bounds, KL terms and likelihoods, as functions of tensors (stage 5)."""

from tfconcrete.objectives.bias import base_rate_bias
from tfconcrete.objectives.bounds import multi_sample_bound, streamed_bound
from tfconcrete.objectives.capacity import LinearCapacity, capacity_penalty
from tfconcrete.objectives.kl import (
    bernoulli_kl,
    bernoulli_mass_kl,
    bin_concrete_density_kl,
    categorical_kl,
    categorical_mass_kl,
    concrete_density_kl,
    gaussian_density_kl,
    gaussian_kl,
)
from tfconcrete.objectives.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    get_likelihood,
)

__all__ = [
    "Bernoulli",
    "Categorical",
    "Gaussian",
    "LinearCapacity",
    "base_rate_bias",
    "bernoulli_kl",
    "bernoulli_mass_kl",
    "bin_concrete_density_kl",
    "capacity_penalty",
    "categorical_kl",
    "categorical_mass_kl",
    "concrete_density_kl",
    "gaussian_density_kl",
    "gaussian_kl",
    "get_likelihood",
    "multi_sample_bound",
    "streamed_bound",
]
