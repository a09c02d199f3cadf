"""Pure formulas: masses, KL terms, bounds and likelihoods of tensors (stage 3)."""

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
)
from tfconcrete.objectives.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    Likelihood,
    WholeNumbers,
    get_likelihood,
)
from tfconcrete.objectives.mass import (
    bernoulli_entropy,
    bernoulli_log_mass,
    categorical_entropy,
    categorical_log_mass,
    log_probs,
)
from tfconcrete.relaxations.diag_normal import gaussian_kl

__all__ = [
    "Bernoulli",
    "Categorical",
    "Gaussian",
    "Likelihood",
    "LinearCapacity",
    "WholeNumbers",
    "base_rate_bias",
    "bernoulli_entropy",
    "bernoulli_kl",
    "bernoulli_log_mass",
    "bernoulli_mass_kl",
    "bin_concrete_density_kl",
    "capacity_penalty",
    "categorical_entropy",
    "categorical_kl",
    "categorical_log_mass",
    "categorical_mass_kl",
    "concrete_density_kl",
    "gaussian_density_kl",
    "gaussian_kl",
    "get_likelihood",
    "log_probs",
    "multi_sample_bound",
    "streamed_bound",
]
