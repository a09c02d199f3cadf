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
from tfconcrete.relaxations.diag_normal import diag_normal_kl
from tfconcrete.relaxations.discretize import categorical, codes, discretize
from tfconcrete.relaxations.gaussian_argmax import gaussian_argmax_probs
from tfconcrete.relaxations.hypercube import hypercube_code, hypercube_corners
from tfconcrete.relaxations.igr import igr, igr_and_truncation, igr_location, igr_probs
from tfconcrete.relaxations.interpolation import (
    interpolate,
    interpolate_inverse,
    interpolation,
)
from tfconcrete.relaxations.planar_flow import planar_flow, planar_flow_inverse
from tfconcrete.relaxations.softmax_plus_plus import (
    log_softmax_plus_plus,
    softmax_plus_plus,
    softmax_plus_plus_inverse,
    softmax_plus_plus_log_det,
)
from tfconcrete.relaxations.stick_breaking import (
    log_stick_breaking,
    stick_breaking,
    stick_breaking_inverse,
    stick_breaking_log_det,
)
from tfconcrete.relaxations.truncation import (
    Truncation,
    truncate,
    truncated_stick_breaking,
)

__all__ = [
    "Truncation",
    "bin_concrete",
    "bin_concrete_log_prob",
    "binary_from_quantile",
    "categorical",
    "codes",
    "concrete",
    "concrete_log_prob",
    "diag_normal_kl",
    "discretize",
    "exp_concrete",
    "exp_concrete_log_prob",
    "gaussian_argmax_probs",
    "hypercube_code",
    "hypercube_corners",
    "igr",
    "igr_and_truncation",
    "igr_location",
    "igr_probs",
    "interpolate",
    "interpolate_inverse",
    "interpolation",
    "log_softmax_plus_plus",
    "log_stick_breaking",
    "logit_bin_concrete",
    "logit_bin_concrete_log_prob",
    "planar_flow",
    "planar_flow_inverse",
    "softmax_plus_plus",
    "softmax_plus_plus_inverse",
    "softmax_plus_plus_log_det",
    "stick_breaking",
    "stick_breaking_inverse",
    "stick_breaking_log_det",
    "truncate",
    "truncated_stick_breaking",
]
