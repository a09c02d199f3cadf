"""Pure maps from logits and noise to relaxed samples, and their log densities (stage 2).

Tensors and a seed in, tensors out, no state. `logits` are unnormalised log
probabilities; passing probabilities by mistake gives a flatter distribution, not an
error.
"""

from tfconcrete.relaxations.bin_concrete import (
    bin_concrete,
    bin_concrete_log_prob,
    binary_from_quantile,
    logit_bin_concrete,
    logit_bin_concrete_log_prob,
)
from tfconcrete.relaxations.concrete import (
    concrete,
    concrete_log_prob,
    exp_concrete,
    exp_concrete_log_prob,
)
from tfconcrete.relaxations.discretize import categorical, codes, discretize
from tfconcrete.relaxations.hypercube import hypercube_code, hypercube_corners
from tfconcrete.relaxations.softmax_plus_plus import (
    log_softmax_plus_plus,
    softmax_plus_plus,
    softmax_plus_plus_inverse,
    softmax_plus_plus_log_det,
)

__all__ = [
    "bin_concrete",
    "bin_concrete_log_prob",
    "binary_from_quantile",
    "categorical",
    "codes",
    "concrete",
    "concrete_log_prob",
    "discretize",
    "exp_concrete",
    "exp_concrete_log_prob",
    "hypercube_code",
    "hypercube_corners",
    "log_softmax_plus_plus",
    "logit_bin_concrete",
    "logit_bin_concrete_log_prob",
    "softmax_plus_plus",
    "softmax_plus_plus_inverse",
    "softmax_plus_plus_log_det",
]
