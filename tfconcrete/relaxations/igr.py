"""Invertible Gaussian Reparameterization samples: Gaussian noise onto the simplex.

Potapczynski, Loaiza-Ganem & Cunningham (2020), "Invertible Gaussian Reparameterization".
Equation numbers are theirs. `tfc.distributions.IGR` has the densities.
"""

import collections
import math

import tensorflow as tf

from tfconcrete._checks import (
    check_axis,
    check_broadcast,
    check_floating,
    check_mask,
    invalid_value,
    is_number,
)
from tfconcrete._dtypes import cast, float_at_least_32
from tfconcrete._floors import clip
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.noise import normal
from tfconcrete.relaxations.masking import zero_masked
from tfconcrete.relaxations.simplex_transform import SimplexTransform, free_classes
from tfconcrete.relaxations.transforms import get_transform
from tfconcrete.relaxations.truncation import Truncation

# Parameters beyond these count as these: samples and gradients stay finite numbers, at
# temperatures from 1e-6 on in float32 too.
_MAX_LOC = 1e30
_MAX_LOG_SCALE = 50.0


def igr(
    loc: TensorLike,
    log_scale: TensorLike,
    temperature: TensorLike,
    transform: str | SimplexTransform = "softmax++",
    delta: TensorLike = 1.0,
    precision: float | None = None,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    seed: Seed = None,
) -> tf.Tensor:
    """g(loc + exp(log_scale) * Normal, temperature), a point of the simplex (Eq. 16, 17).

    Args:
        loc: float tensor `[..., K-1]` (coordinates along `axis`).
        log_scale: float tensor. It, `loc` and `temperature` broadcast, each member of the
            result with noise of its own.
        temperature: positive number or tensor.
        transform: `"softmax++"` (Eq. 21), `"stick_breaking"` (Eq. 24), `"interpolation"`
            (Eq. 23; temperature at most 1), a bijector, which is followed by softmax++
            unless it arrives on the simplex by itself, or a `SimplexTransform`.
        delta: positive number, the weight of the remainder class in softmax++.
        precision: None, or with `"stick_breaking"` the rho in (0, 1) at which each
            sample is cut (Eq. 25).
        class_mask: boolean, broadcast against the result; True keeps the class. A masked
            class is 0 and without gradient, whatever its `loc` and `log_scale`.
        axis: The class axis, of the broadcast parameters.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        Tensor `[..., K]` of the dtype of `loc`; the last class is the remainder. A row
        without classes is 0; one with a NaN in a kept parameter is NaN.

    Example:

    >>> z = tfc.relaxations.igr(tf.zeros([2, 3]), tf.zeros([2, 3]), 0.5, seed=0)
    >>> z.shape
    TensorShape([2, 4])
    """
    return igr_and_truncation(
        loc, log_scale, temperature, transform, delta, precision, class_mask, axis, seed
    )[0]


def igr_and_truncation(
    loc: TensorLike,
    log_scale: TensorLike,
    temperature: TensorLike,
    transform: str | SimplexTransform = "softmax++",
    delta: TensorLike = 1.0,
    precision: float | None = None,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    seed: Seed = None,
) -> tuple[tf.Tensor, Truncation]:
    """The sample of `igr`, and the `Truncation` behind it (None without `precision`).

    Example:

    >>> z, cut = tfc.relaxations.igr_and_truncation(
    ...     tf.zeros([30]), 0.0, 0.1, "stick_breaking", precision=0.9, seed=0)
    >>> int(tf.math.count_nonzero(z[:-1])) == int(cut.num_classes)
    True
    """
    map_ = check_igr(temperature, transform, delta, precision)
    given = _prepare(loc, log_scale, temperature, class_mask, axis)
    noise = tf.cast(normal(tf.shape(given.loc), seed), given.loc.dtype)
    y = given.loc + given.scale * noise
    z = map_.forward(y, given.temperature, delta, given.mask)
    return given.restore(z), map_.truncation(y, given.mask)


def igr_location(
    loc: TensorLike,
    temperature: TensorLike,
    transform: str | SimplexTransform = "softmax++",
    delta: TensorLike = 1.0,
    precision: float | None = None,
    class_mask: TensorLike | None = None,
    axis: int = -1,
) -> tf.Tensor:
    """The noise-free point, g(loc, temperature); arguments and result as in `igr`.

    Example:

    >>> tfc.relaxations.igr_location(tf.zeros([2]), temperature=0.5).numpy()
    array([0.33333334, 0.33333334, 0.33333334], dtype=float32)
    """
    map_ = check_igr(temperature, transform, delta, precision)
    given = _prepare(loc, None, temperature, class_mask, axis)
    return given.restore(map_.forward(given.loc, given.temperature, delta, given.mask))


def igr_scores(
    loc: TensorLike,
    temperature: TensorLike,
    transform: str | SimplexTransform = "softmax++",
    delta: TensorLike = 1.0,
    precision: float | None = None,
    class_mask: TensorLike | None = None,
    axis: int = -1,
) -> tf.Tensor:
    """What rounding the noise-free point compares: its class is the argmax of these.

    Fewer ops than `igr_location`, and exact where that has lost a difference. Arguments as
    in `igr`.

    Returns:
        Tensor `[..., K]` of at least float32; masked classes are -inf.

    Example:

    >>> tfc.relaxations.igr_scores(tf.constant([1.0, 2.0]), temperature=0.5).numpy()
    array([1., 2., 0.], dtype=float32)
    """
    map_ = check_igr(temperature, transform, delta, precision)
    given = _prepare(loc, None, temperature, class_mask, axis)
    scores = map_.scores(given.loc, given.temperature, delta, given.mask)
    return move_axis(scores, -1, axis)


def igr_probs(
    loc: TensorLike,
    log_scale: TensorLike,
    temperature: TensorLike,
    delta: TensorLike = 1.0,
    class_mask: TensorLike | None = None,
    axis: int = -1,
) -> tf.Tensor:
    """The probability of each class to be the largest of a softmax++ sample.

    Exact, by one-dimensional quadrature (`gaussian_argmax_probs`). Arguments as in `igr`.

    Returns:
        Tensor `[..., K]` that sums to 1 over the kept classes.

    Example:

    >>> probs = tfc.relaxations.igr_probs(tf.zeros([2]), tf.zeros([2]), temperature=0.5)
    >>> probs.numpy().round(4)
    array([0.375, 0.375, 0.25 ], dtype=float32)
    """
    map_ = check_igr(temperature, "softmax++", delta, None)
    given = _prepare(loc, log_scale, temperature, class_mask, axis)
    return given.restore(map_.probs(given.loc, given.scale, given.temperature, delta, given.mask))


def check_igr(temperature, transform, delta, precision):
    """The transform, and that `igr` takes its options, wherever their values are known."""
    map_ = get_transform(transform, precision)
    map_.check(temperature, delta)
    return map_


class _Given(
    collections.namedtuple("_Given", ["loc", "scale", "temperature", "mask", "dtype", "axis"])
):
    """Parameters in working form: of one shape, classes last, masked ones without effect."""

    def restore(self, z):
        """A result `[..., K]` in the form of the arguments, NaN where a parameter was."""
        value = self.loc if self.scale is None else self.loc + self.scale
        bad = tf.reduce_any(tf.math.is_nan(value), -1, keepdims=True)
        z = zero_masked(tf.where(bad, tf.cast(math.nan, z.dtype), z), self.mask)
        return tf.cast(move_axis(z, -1, self.axis), self.dtype)


def _prepare(loc, log_scale, temperature, class_mask, axis):
    check_floating(loc, "loc")
    loc = tf.convert_to_tensor(loc)
    dtype, loc = loc.dtype, tf.cast(loc, float_at_least_32(loc.dtype))
    temperature = cast(temperature, loc.dtype)
    loc = _broadcast(loc, temperature, "temperature")
    scale = None
    if log_scale is not None:
        if not is_number(log_scale):
            check_floating(log_scale, "log_scale")
        log_scale = cast(log_scale, loc.dtype)
        loc = _broadcast(loc, log_scale, "log_scale")
        scale = move_axis(_broadcast(log_scale, loc, "loc"), axis, -1)
    rank = loc.shape.rank
    axis = check_axis(axis, rank)
    if temperature.shape.rank != 0:
        temperature = move_axis(_with_rank(temperature, rank), axis, -1)
        if temperature.shape[-1] not in (1, None):
            raise invalid_value("temperature", "a size of 1 along the class axis", temperature)
    loc = clip(move_axis(loc, axis, -1), -_MAX_LOC, _MAX_LOC)
    mask = _last_axis_mask(class_mask, loc, axis)
    loc = zero_masked(loc, free_classes(mask))
    if scale is not None:
        scale = zero_masked(scale, free_classes(mask))
        scale = tf.exp(clip(scale, scale.dtype.min, _MAX_LOG_SCALE))
    return _Given(loc, scale, temperature, mask, dtype, axis)


def _broadcast(x, other, name):
    """`x` in the common shape of both."""
    check_broadcast(other.shape, name, x.shape, "loc")
    same = x.shape == other.shape and x.shape.is_fully_defined()
    return x if same or other.shape.rank == 0 else x + tf.zeros_like(other)


def _with_rank(x, rank):
    """`x` with leading dimensions of size 1."""
    missing = tf.ones([rank - x.shape.rank], tf.int32)
    return x if x.shape.rank == rank else tf.reshape(x, tf.concat([missing, tf.shape(x)], 0))


def _last_axis_mask(class_mask, loc, axis):
    """The mask as a boolean tensor `[..., K]` with classes last, or None."""
    if class_mask is None:
        return None
    num_free = loc.shape[-1]
    shape = loc.shape[:-1].concatenate([None if num_free is None else num_free + 1])
    dims = shape.as_list()
    dims.insert(axis % len(dims), dims.pop())
    check_mask(class_mask, dims, axis)
    mask = _with_rank(tf.convert_to_tensor(class_mask), len(dims))
    full = tf.concat([tf.shape(loc)[:-1], tf.shape(loc)[-1:] + 1], 0)
    mask = tf.broadcast_to(move_axis(mask, axis, -1), full)
    mask.set_shape(shape)
    return mask


def move_axis(x, source, destination):
    """`x` with the axis `source` at `destination`, without an op where that is the same."""
    rank = x.shape.rank
    order = [i for i in range(rank) if i != source % rank]
    order.insert(destination % rank, source % rank)
    return x if order == list(range(rank)) else tf.transpose(x, order)
