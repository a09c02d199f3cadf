"""Which of several independent Gaussians is largest: exact probabilities, by quadrature.

The class that rounding a softmax++ sample gives is the argmax of K-1 Gaussians and of
the constant t log delta, the remainder. With F the CDF of the largest Gaussian and
h_k = d log Phi_k / dy, the probability that class k wins at y is h_k F dy, so that

    P(k) = integral of h_k / sum_j h_j over s = F(y), from F(t log delta) to 1,

a smooth, bounded integrand on a bounded interval, and one grid serves all classes.
(Gauss-Hermite quadrature in one of the Gaussians needs far more nodes: its integrand
has steps as sharp as the other scales are small.)
"""

import collections
import math

import numpy as np
import tensorflow as tf

from tfconcrete._dtypes import cast, float_at_least_32

NUM_NODES = 512
_MAX_STEPS = 24
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(NUM_NODES)
# Fractions of [0, 1], measured from both ends so that neither loses digits.
_FROM_TOP = (1.0 - _NODES) / 2.0
_WEIGHTS = _WEIGHTS / 2.0


def gaussian_argmax_probs(loc, scale, threshold):
    """P(argmax of [y, threshold] = k) for y ~ Normal(loc, scale), independent entries.

    Gauss-Legendre quadrature with 512 nodes; the error is below 1e-5 for scales within
    a factor 30 of each other, 1e-4 within 100, 1e-3 within 1,000. Differentiable in `loc`,
    `scale` and `threshold`.

    Args:
        loc: float tensor `[..., K-1]`.
        scale: positive float tensor that broadcasts against `loc`.
        threshold: number or tensor that broadcasts against `loc[..., 0]`: what the
            largest entry has to exceed. At -inf the last class never wins.

    Returns:
        Tensor `[..., K]` that sums to 1; the last entry is the threshold's.

    Example:

    >>> tfc.relaxations.gaussian_argmax_probs(
    ...     tf.zeros([2]), tf.ones([2]), threshold=0.0).numpy().round(4)
    array([0.375, 0.375, 0.25 ], dtype=float32)
    """
    grid = _grid(loc, scale, threshold)
    # log of h_k F for each node and class; the grid's own density is its sum, held
    # fixed, so that differentiating the sum differentiates under the integral.
    log_winner = grid.log_hazard + tf.reduce_sum(grid.log_cdf, -1, keepdims=True)
    log_grid = tf.stop_gradient(tf.reduce_logsumexp(log_winner, -1, keepdims=True))
    winners = tf.reduce_sum(grid.weights * tf.exp(log_winner - log_grid), -2)
    # The integral starts at the threshold: a term of value 0 whose gradient is -h_k F
    # there.
    winners -= grid.at_threshold * (grid.threshold - tf.stop_gradient(grid.threshold))
    return tf.concat([winners, grid.below[..., tf.newaxis]], -1)


def gaussian_argmax_jacobian(loc, scale, threshold):
    """`gaussian_argmax_probs` and their Jacobian in `loc`, as two matrix products.

    d log(h_k F) / dloc_j is -h_j for j other than k, and (y - loc_k) / scale_k^2 for k.

    Args:
        loc: float tensor `[K-1]`.
        scale, threshold: as in `gaussian_argmax_probs`.

    Returns:
        `(probs [K], jacobian [K, K-1])`.
    """
    grid = _grid(loc, scale, threshold)
    shares = grid.weights * tf.nn.softmax(grid.log_hazard, -1)
    hazard = tf.exp(grid.log_hazard)
    own = tf.reduce_sum(shares * (grid.standard / scale + hazard), -2)
    jacobian = tf.linalg.diag(own) - tf.matmul(shares, hazard, transpose_a=True)
    probs = tf.concat([tf.reduce_sum(shares, -2), grid.below[..., tf.newaxis]], -1)
    # The probabilities sum to 1, so their derivatives sum to 0.
    return probs, tf.concat([jacobian, -tf.reduce_sum(jacobian, -2, keepdims=True)], -2)


_Grid = collections.namedtuple(
    "_Grid",
    ["standard", "log_cdf", "log_hazard", "weights", "below", "threshold", "at_threshold"],
)


def _grid(loc, scale, threshold):
    """Everything the sums need, `[..., nodes, K-1]`, at nodes that are held fixed."""
    loc = tf.convert_to_tensor(loc)
    dtype = float_at_least_32(loc.dtype)
    loc, scale = tf.cast(loc, dtype), cast(scale, dtype)
    threshold = cast(threshold, dtype)[..., tf.newaxis]
    shape = tf.broadcast_dynamic_shape(tf.shape(loc), tf.shape(scale))
    shape = tf.broadcast_dynamic_shape(shape, tf.shape(threshold + loc))
    loc, scale = tf.broadcast_to(loc, shape), tf.broadcast_to(scale, shape)
    standard = (threshold - loc) / scale
    log_cdf = log_normal_cdf(standard)
    log_below = tf.reduce_sum(log_cdf, -1, keepdims=True)
    log_density = _log_density(standard) - tf.math.log(scale)
    at_threshold = tf.stop_gradient(tf.exp(log_density - log_cdf + log_below))
    below = tf.exp(log_below[..., 0])

    above = tf.stop_gradient(1.0 - below)[..., tf.newaxis]
    tail = tf.maximum(above * cast(_FROM_TOP, dtype), 1e-30)  # [..., nodes], 1 - s
    y = tf.stop_gradient(_quantiles(tail, loc, scale))
    loc, scale = loc[..., tf.newaxis, :], scale[..., tf.newaxis, :]
    standard = (y[..., tf.newaxis] - loc) / scale
    log_cdf = log_normal_cdf(standard)
    log_hazard = _log_density(standard) - tf.math.log(scale) - log_cdf
    weights = (above * cast(_WEIGHTS, dtype))[..., tf.newaxis]
    return _Grid(standard, log_cdf, log_hazard, weights, below, threshold, at_threshold)


def _log_density(x):
    return -0.5 * tf.square(x) - 0.5 * math.log(2.0 * math.pi)


def log_normal_cdf(x):
    """log Phi(x), with gradients, for x above -12 (below, the value at -12)."""
    # Smaller tail first: 1 - Phi keeps its digits where Phi is near 1.
    tail = 0.5 * tf.math.erfc(tf.minimum(tf.abs(x), 12.0) * math.sqrt(0.5))
    return tf.where(x > 0.0, tf.math.log1p(-tail), tf.math.log(tail))


def _quantiles(tail, loc, scale):
    """y with F(y) = 1 - tail, F the CDF of the largest; `[..., nodes]`.

    log F is concave and increasing, so Newton's method started left of the root never
    passes it. The largest of the single quantiles is left of it.
    """
    loc, scale = loc[..., tf.newaxis, :], scale[..., tf.newaxis, :]
    target = tf.math.log1p(-tail)
    tail = tail[..., tf.newaxis]
    y = tf.reduce_max(loc - scale * tf.math.ndtri(tail), -1)

    def step(index, y, _):
        standard = (y[..., tf.newaxis] - loc) / scale
        log_cdf = log_normal_cdf(standard)
        slope = tf.reduce_sum(tf.exp(_log_density(standard) - log_cdf) / scale, -1)
        gap = target - tf.reduce_sum(log_cdf, -1)
        y += tf.where(gap > 0.0, gap / tf.maximum(slope, 1e-30), 0.0)
        # The error left is about the square of this one: nodes need no more.
        return index + 1, y, tf.reduce_any(gap > -1e-4 * target)

    return tf.while_loop(
        lambda index, y, going: (index < _MAX_STEPS) & going, step, (0, y, True)
    )[1]
