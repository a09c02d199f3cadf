"""The KL divergence of independent Gaussians, which is that of any IGR pair (IGR, Eq. 19)."""

import tensorflow as tf

from tfconcrete._dtypes import cast


def diag_normal_kl(loc, scale, prior_loc=0.0, prior_scale=1.0):
    """KL(Normal(loc, scale) || Normal(prior_loc, prior_scale)), coordinate by coordinate.

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
    scale = cast(scale, loc.dtype)
    prior_loc, prior_scale = cast(prior_loc, loc.dtype), cast(prior_scale, loc.dtype)
    ratio = scale / prior_scale
    distance = (loc - prior_loc) / prior_scale
    # ratio^2 - 1 - 2 log ratio, with the difference first: exact near ratio = 1.
    return 0.5 * (tf.square(distance) + (ratio - 1.0) * (ratio + 1.0)) - tf.math.log(ratio)
