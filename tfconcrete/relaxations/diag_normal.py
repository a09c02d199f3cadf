"""The KL divergence of independent Gaussians, which is that of any IGR pair (IGR, Eq. 19)."""

import tensorflow as tf

from tfconcrete._checks import check_floating
from tfconcrete._dtypes import cast
from tfconcrete._typing import TensorLike


def gaussian_kl(
    loc: TensorLike,
    log_scale: TensorLike,
    prior_loc: TensorLike = 0.0,
    prior_log_scale: TensorLike = 0.0,
) -> tf.Tensor:
    """KL(N(loc, scale), N(prior_loc, prior_scale)) for each coordinate.

    The KL of two IGR variables with the same transform, temperature and delta (IGR,
    Eq. 19): an invertible map leaves it as it is.

    Args:
        loc, log_scale: float tensors that broadcast.
        prior_loc, prior_log_scale: numbers or tensors that broadcast against them.

    Returns:
        Tensor of the common shape; sum it over the coordinates of a variable.

    Example:

    >>> float(tfc.relaxations.gaussian_kl(tf.constant(1.0), tf.constant(0.0)))
    0.5
    """
    check_floating(loc, "loc")
    loc = tf.convert_to_tensor(loc)
    log_scale, prior_loc, prior_log_scale = (
        cast(value, loc.dtype) for value in (log_scale, prior_loc, prior_log_scale)
    )
    log_ratio = log_scale - prior_log_scale
    shift = (loc - prior_loc) * tf.exp(-prior_log_scale)
    # exp(2 r) - 1 - 2 r without the cancellation near r = 0.
    return 0.5 * (tf.math.expm1(2.0 * log_ratio) - 2.0 * log_ratio + tf.square(shift))


def diag_normal_kl(
    loc: TensorLike, scale: TensorLike, prior_loc: TensorLike = 0.0, prior_scale: TensorLike = 1.0
) -> tf.Tensor:
    """`gaussian_kl` of scales that are given as such, coordinate by coordinate.

    Args:
        loc: float tensor.
        scale: positive float tensor that broadcasts against `loc`.
        prior_loc, prior_scale: numbers or tensors that broadcast against `loc`.

    Returns:
        Tensor of the common shape; sum it over the coordinates of a variable.

    Example:

    >>> kl = tfc.relaxations.diag_normal_kl(tf.constant([1.0, 0.0]), tf.ones([2]))
    >>> kl.numpy()
    array([0.5, 0. ], dtype=float32)
    """
    loc = tf.convert_to_tensor(loc)
    log_scale, prior_log_scale = (
        tf.math.log(cast(value, loc.dtype)) for value in (scale, prior_scale)
    )
    return gaussian_kl(loc, log_scale, prior_loc, prior_log_scale)
