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
from tfconcrete.relaxations.diag_normal import diag_normal_kl, gaussian_kl
from tfconcrete.relaxations.discretize import categorical, codes, discretize, one_hot
from tfconcrete.relaxations.distinct import distinct_argmax, distinct_concrete
from tfconcrete.relaxations.gaussian_argmax import gaussian_argmax_probs
from tfconcrete.relaxations.hypercube import hypercube_code, hypercube_corners
from tfconcrete.relaxations.igr import (
    igr,
    igr_and_truncation,
    igr_location,
    igr_probs,
    igr_scores,
)
from tfconcrete.relaxations.interpolation import (
    interpolate,
    interpolate_inverse,
    interpolation,
)
from tfconcrete.relaxations.k_subset import (
    k_subset,
    k_subset_covariance,
    k_subset_entropy,
    k_subset_kl,
    k_subset_log_partition,
    k_subset_log_prob,
    k_subset_marginals,
    relaxed_k_subset,
)
from tfconcrete.relaxations.planar_flow import planar_flow, planar_flow_inverse
from tfconcrete.relaxations.simplex_transform import SimplexTransform
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
from tfconcrete.relaxations.top_k import k_hot, relaxed_top_k, top_k_codes, top_k_hot
from tfconcrete.relaxations.transforms import get_transform
from tfconcrete.relaxations.truncation import (
    Truncation,
    truncate,
    truncated_stick_breaking,
)

__all__ = [
    "SimplexTransform",
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
    "distinct_argmax",
    "distinct_concrete",
    "exp_concrete",
    "exp_concrete_log_prob",
    "gaussian_argmax_probs",
    "gaussian_kl",
    "get_transform",
    "hypercube_code",
    "hypercube_corners",
    "igr",
    "igr_and_truncation",
    "igr_location",
    "igr_probs",
    "igr_scores",
    "interpolate",
    "interpolate_inverse",
    "interpolation",
    "k_hot",
    "k_subset",
    "k_subset_covariance",
    "k_subset_entropy",
    "k_subset_kl",
    "k_subset_log_partition",
    "k_subset_log_prob",
    "k_subset_marginals",
    "log_softmax_plus_plus",
    "log_stick_breaking",
    "logit_bin_concrete",
    "logit_bin_concrete_log_prob",
    "one_hot",
    "planar_flow",
    "planar_flow_inverse",
    "relaxed_k_subset",
    "relaxed_top_k",
    "softmax_plus_plus",
    "softmax_plus_plus_inverse",
    "softmax_plus_plus_log_det",
    "stick_breaking",
    "stick_breaking_inverse",
    "stick_breaking_log_det",
    "top_k_codes",
    "top_k_hot",
    "truncate",
    "truncated_stick_breaking",
]
