"""Which of several independent Gaussians is largest: exact probabilities, by quadrature.

The class that rounding a softmax++ sample gives is the argmax of K-1 Gaussians and of
the constant t log delta, the remainder. With F the CDF of the largest Gaussian and
h_k = d log Phi_k / dy, the probability that class k wins at y is h_k F dy, so that

    P(k) = integral of h_k F dy from t log delta on,

and one grid in y serves all classes. It is piecewise Gauss-Legendre between edges at a few
standard deviations around the mean of every class that can win, so that each step of the
integrand is resolved whatever the scales. (Gauss-Hermite in one of the Gaussians fails at
the steps of the others; nodes equidistant in F miss a narrow class between broad ones.)
"""

import collections
import math

import numpy as np
import tensorflow as tf

from tfconcrete._dtypes import cast, float_at_least_32
from tfconcrete._floors import clip
from tfconcrete._typing import TensorLike

# Where the edges of a class are, in its standard deviations: about one apart, closer above
# the mean, where the largest of many equal Gaussians has its mass.
_EDGES = np.array([-4.5, -2.5, -1.0, 0.4, 1.4, 2.2, 2.9, 3.6, 4.4, 5.4])
_REACH = 6.0
# More classes than this give edges by those that reach highest with noise of these sizes,
# so many for each size.
_MOST_CLASSES = 32
_NOISES = (0.0, 1.5, 3.0, 5.0)


def gaussian_argmax_probs(loc: TensorLike, scale: TensorLike, threshold: TensorLike) -> tf.Tensor:
    """P(argmax of [y, threshold] = k) for y ~ Normal(loc, scale), independent entries.

    Piecewise Gauss-Legendre quadrature; the error is below 1e-5 up to 32 classes and 1e-4
    beyond, for scales within a factor of 1e6 of each other. (Beyond 32 classes that asks
    that no more than a few of very different scale can win at the same place.)
    Differentiable in `loc`, `scale` and `threshold`.

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
    loc = tf.convert_to_tensor(loc)
    dtype = float_at_least_32(loc.dtype)
    # Double precision, until positions have become differences over scales: single has no
    # digits for a narrow class that is far from 0.
    loc = clip(tf.cast(loc, tf.float64), -1e30, 1e30)
    scale = cast(scale, tf.float64)
    threshold = clip(cast(threshold, tf.float64), -1e30, 1e30)
    shape = tf.broadcast_dynamic_shape(tf.shape(loc), tf.shape(scale))
    shape = tf.broadcast_dynamic_shape(shape, tf.shape(threshold[..., tf.newaxis] + loc))
    loc, scale = tf.broadcast_to(loc, shape), tf.broadcast_to(scale, shape)
    threshold = tf.broadcast_to(threshold, shape[:-1])

    @tf.custom_gradient
    def integrate(loc, scale, threshold):
        grid = _grid(loc, scale, threshold, dtype)
        return _probs(grid), lambda upstream: _gradients(grid, upstream)

    return integrate(loc, scale, threshold)


def gaussian_argmax_jacobian(loc, scale, threshold):
    """`gaussian_argmax_probs` and their Jacobian in `loc`.

    Args:
        loc: float64 tensor `[K-1]`.
        scale: positive float64 tensor `[K-1]`.
        threshold: number or float64 scalar.

    Returns:
        `(probs [K], jacobian [K, K-1])`.
    """
    grid = _grid(loc, scale, cast(threshold, loc.dtype), loc.dtype)
    others, _ = _meetings(grid)
    jacobian = tf.linalg.diag(tf.reduce_sum(others, -1) + grid.at_threshold) - others
    return _probs(grid), tf.concat([jacobian, -grid.at_threshold[tf.newaxis]], -2)


_Grid = collections.namedtuple(
    "_Grid", ["standard", "hazard", "masses", "scale", "below", "at_threshold", "to_threshold"]
)


def _probs(grid):
    winners = tf.reduce_sum(grid.masses, -2)
    total = tf.reduce_sum(winners, -1, keepdims=True)
    some = total > 0.0
    winners *= tf.where(some, (1.0 - grid.below) / tf.where(some, total, 1.0), 1.0)
    return tf.concat([winners, grid.below], -1)


def _gradients(grid, upstream):
    """To loc, scale and threshold, from the gradient `[..., K]` to the probabilities.

    Class j takes from class k where they meet, at the rate of the integral of h_j h_k F, if
    loc_j grows, and z_j times that at each place if scale_j does; from the remainder, h_j F
    at the threshold. What one wins the other loses: no small number is a difference of two
    large ones, however narrow a class is.
    """
    to_winners, to_last = upstream[..., :-1], upstream[..., -1:]
    gains = to_winners[..., tf.newaxis] - to_winners[..., tf.newaxis, :]
    from_last = (to_winners - to_last) * grid.at_threshold
    to_loc, to_scale = (tf.reduce_sum(others * gains, -1) for others in _meetings(grid))
    gradients = (
        to_loc + from_last,
        to_scale + from_last * grid.to_threshold,
        -tf.reduce_sum(from_last, -1),
    )
    return [tf.cast(gradient, tf.float64) for gradient in gradients]


def _meetings(grid):
    """Integrals of h_j h_k F, and of z_j times that, `[..., K-1, K-1]`, 0 for j = k."""
    hazard = grid.hazard / grid.scale

    def integral(masses):
        others = tf.matmul(masses, hazard, transpose_a=True)
        return tf.linalg.set_diag(others, tf.zeros_like(others[..., 0]))

    return integral(grid.masses), integral(grid.masses * grid.standard)


def _grid(loc, scale, threshold, dtype):
    """What the sums need, at nodes that are held fixed.

    `standard [..., nodes, K-1]` are the nodes in standard deviations of each class, `hazard`
    is h_k scale_k there, `masses` is the part of P(k) that the node adds. `below [..., 1]` is
    F at the threshold, `at_threshold [..., K-1]` is h_k F there and `to_threshold` is where
    it lies in standard deviations.
    """
    origin = tf.reduce_max(loc, -1, keepdims=True)
    loc, threshold = loc - origin, threshold[..., tf.newaxis] - origin
    edges, smallest = _edges(loc, scale, threshold)
    scale = tf.maximum(scale, smallest)
    wide = scale[..., tf.newaxis, :]
    starts = tf.cast((edges[..., :-1, :] - loc[..., tf.newaxis, :]) / wide, dtype)
    lengths = tf.cast((edges[..., 1:, :] - edges[..., :-1, :]) / wide, dtype)
    nodes, weights = np.polynomial.legendre.leggauss(4)
    fractions, weights = (cast(x[:, np.newaxis] / 2.0, dtype) for x in (1.0 + nodes, weights))
    starts, lengths = starts[..., tf.newaxis, :], lengths[..., tf.newaxis, :]
    by_node = tf.concat([tf.shape(loc)[:-1], [-1, tf.shape(loc)[-1]]], 0)
    standard = _bounded(tf.reshape(starts + fractions * lengths, by_node))
    hazard, below = _hazard_and_cdf(standard)
    lengths = tf.reshape(weights * lengths, by_node)
    to_threshold = tf.cast(_bounded((threshold - loc) / scale), dtype)
    hazard_there, below_there = _hazard_and_cdf(to_threshold)
    return _Grid(
        standard=standard,
        hazard=hazard,
        masses=hazard * below * lengths,
        scale=tf.cast(wide, dtype),
        below=below_there,
        at_threshold=hazard_there * below_there / tf.cast(scale, dtype),
        to_threshold=to_threshold,
    )


def _edges(loc, scale, threshold):
    """The edges of the segments `[..., segments + 1, 1]`, and the smallest scale of use."""
    first, last = _range(loc, scale, threshold)
    smallest = tf.maximum(1e-12 * tf.maximum(tf.abs(first), tf.abs(last)), 1e-30)
    scale = tf.maximum(scale, smallest)
    first, last = _range(loc, scale, threshold)
    if loc.shape[-1] is None or loc.shape[-1] > _MOST_CLASSES:
        loc, scale = _highest(loc, scale)
    positions = loc[..., tf.newaxis] + scale[..., tf.newaxis] * _EDGES
    positions = tf.reshape(positions, tf.concat([tf.shape(loc)[:-1], [-1]], 0))
    inner = tf.sort(clip(positions, first, last), -1)
    return tf.concat([first, inner, last], -1)[..., tf.newaxis], smallest


def _range(loc, scale, threshold):
    """Where the largest Gaussian is, if above the threshold, but for K times 1e-9."""
    first = tf.maximum(tf.reduce_max(loc - _REACH * scale, -1, keepdims=True), threshold)
    return first, tf.maximum(tf.reduce_max(loc + _REACH * scale, -1, keepdims=True), first)


def _highest(loc, scale):
    """The classes whose loc + noise * scale is largest, for each of a few noises."""
    reach = loc[..., tf.newaxis, :] + scale[..., tf.newaxis, :] * np.array(_NOISES)[:, np.newaxis]
    count = tf.minimum(_MOST_CLASSES // len(_NOISES), tf.shape(loc)[-1])
    index = tf.math.top_k(reach, count, sorted=False).indices
    # (Not the int32 indices but what they pick is reshaped: on a GPU they would leave it.)
    shape = tf.concat([tf.shape(loc)[:-1], [-1]], 0)
    picked = [tf.gather(x, index, batch_dims=loc.shape.rank - 1) for x in (loc, scale)]
    return [tf.reshape(x, shape) for x in picked]


def _bounded(standard):
    """Beyond 11, Phi is 0 or 1 as far as any sum can tell, and phi / Phi still a number."""
    return clip(standard, -11.0, 11.0)


def _hazard_and_cdf(standard):
    """phi / Phi for each class, and the product of Phi over the classes, size 1 there."""
    x = standard * -math.sqrt(0.5)
    cdf = 0.5 * tf.math.erfc(x)
    density = tf.exp(-tf.square(x)) * (1.0 / math.sqrt(2.0 * math.pi))
    return density / cdf, tf.reduce_prod(cdf, -1, keepdims=True)
