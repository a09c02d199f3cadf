"""Invertible Gaussian Reparameterization samples: Gaussian noise onto the simplex.

Potapczynski, Loaiza-Ganem & Cunningham (2020), "Invertible Gaussian Reparameterization".
Equation numbers are theirs. `tfc.distributions.IGR` has the densities.
"""

import tensorflow as tf

from tfconcrete._checks import (
    check_axis,
    check_choice,
    check_floating,
    check_mask,
    check_positive,
    check_temperature,
    invalid_type,
    invalid_value,
)
from tfconcrete._dtypes import cast, float_at_least_32
from tfconcrete.noise import normal
from tfconcrete.relaxations.gaussian_argmax import gaussian_argmax_probs
from tfconcrete.relaxations.interpolation import check_unit_temperature, interpolate
from tfconcrete.relaxations.masking import FILL, zero_masked
from tfconcrete.relaxations.stick_breaking import log_stick_breaking
from tfconcrete.relaxations.temperature import cool
from tfconcrete.relaxations.truncation import check_precision, truncate

TRANSFORMS = ("softmax++", "stick_breaking", "interpolation")


def igr(
    loc,
    log_scale,
    temperature,
    transform="softmax++",
    delta=1.0,
    precision=None,
    class_mask=None,
    axis=-1,
    seed=None,
):
    """g(loc + exp(log_scale) * Normal, temperature), a point of the simplex (Eq. 16, 17).

    Args:
        loc: float tensor `[..., K-1]` (coordinates along `axis`).
        log_scale: float tensor that broadcasts against `loc`.
        temperature: positive number or scalar tensor.
        transform: `"softmax++"` (Eq. 21), `"stick_breaking"` (Eq. 24), `"interpolation"`
            (Eq. 23; temperature at most 1), or a bijector, which is followed by softmax++
            unless it arrives on the simplex by itself.
        delta: positive number, the weight of the remainder class in softmax++.
        precision: None, or with `"stick_breaking"` the rho in (0, 1) at which each
            sample is cut (Eq. 25).
        class_mask: boolean, broadcast against the result; True keeps the class.
        axis: The class axis.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        Tensor `[..., K]` of the dtype of `loc`; the last class is the remainder.

    Example:

    >>> z = tfc.relaxations.igr(tf.zeros([2, 3]), tf.zeros([2, 3]), 0.5, seed=0)
    >>> z.shape
    TensorShape([2, 4])
    """
    return igr_and_truncation(
        loc, log_scale, temperature, transform, delta, precision, class_mask, axis, seed
    )[0]


def igr_and_truncation(
    loc,
    log_scale,
    temperature,
    transform="softmax++",
    delta=1.0,
    precision=None,
    class_mask=None,
    axis=-1,
    seed=None,
):
    """The sample of `igr`, and the `Truncation` behind it (None without `precision`).

    Example:

    >>> z, cut = tfc.relaxations.igr_and_truncation(
    ...     tf.zeros([30]), 0.0, 0.1, "stick_breaking", precision=0.9, seed=0)
    >>> int(tf.math.count_nonzero(z[:-1])) == int(cut.num_classes)
    True
    """
    check_igr(temperature, transform, delta, precision)
    loc, scale, dtype = _working(loc, log_scale, axis)
    noise = tf.cast(normal(tf.shape(loc), seed), loc.dtype)
    mask = _last_axis_mask(class_mask, loc, axis)
    z, truncation = _map(loc + scale * noise, temperature, transform, delta, precision, mask)
    return tf.cast(_move(z, -1, axis), dtype), truncation


def igr_location(
    loc, temperature, transform="softmax++", delta=1.0, precision=None, class_mask=None, axis=-1
):
    """The noise-free point, g(loc, temperature); arguments and result as in `igr`.

    Example:

    >>> tfc.relaxations.igr_location(tf.zeros([2]), temperature=0.5).numpy()
    array([0.33333334, 0.33333334, 0.33333334], dtype=float32)
    """
    check_igr(temperature, transform, delta, precision)
    loc, _, dtype = _working(loc, 0.0, axis)
    mask = _last_axis_mask(class_mask, loc, axis)
    z, _ = _map(loc, temperature, transform, delta, precision, mask)
    return tf.cast(_move(z, -1, axis), dtype)


def igr_probs(loc, log_scale, temperature, delta=1.0, class_mask=None, axis=-1):
    """The probability of each class to be the largest of a softmax++ sample.

    Exact, by one-dimensional quadrature (`gaussian_argmax_probs`). Arguments as in `igr`.

    Returns:
        Tensor `[..., K]` that sums to 1 over the kept classes.

    Example:

    >>> probs = tfc.relaxations.igr_probs(tf.zeros([2]), tf.zeros([2]), temperature=0.5)
    >>> probs.numpy().round(4)
    array([0.375, 0.375, 0.25 ], dtype=float32)
    """
    check_igr(temperature, "softmax++", delta, None)
    loc, scale, dtype = _working(loc, log_scale, axis)
    threshold = cast(temperature, loc.dtype) * tf.math.log(cast(delta, loc.dtype))
    mask = _last_axis_mask(class_mask, loc, axis)
    if mask is not None:
        loc = tf.where(mask[..., :-1], loc, tf.cast(FILL, loc.dtype))
        scale = tf.where(mask[..., :-1], scale, tf.ones_like(scale))
        threshold = tf.where(mask[..., -1], threshold, tf.cast(FILL, loc.dtype))
    probs = zero_masked(gaussian_argmax_probs(loc, scale, threshold), mask)
    return tf.cast(_move(probs, -1, axis), dtype)


def check_igr(temperature, transform, delta, precision):
    """What `igr` asks of its options, wherever their values are known."""
    if isinstance(transform, str):
        check_choice(transform, "transform", TRANSFORMS)
    elif not hasattr(transform, "forward"):
        names = ", ".join(f'"{name}"' for name in TRANSFORMS)
        raise invalid_type("transform", f"one of {names} or a bijector", transform)
    if transform == "interpolation":
        check_unit_temperature(temperature)
    check_temperature(temperature)
    check_positive(delta, "delta")
    if precision is not None:
        check_precision(precision)
        if transform != "stick_breaking":
            raise invalid_value(
                "precision", 'None, or `transform="stick_breaking"` with it', precision
            )


def _working(loc, log_scale, axis):
    """`(loc, scale, dtype)`: working tensors `[..., K-1]`, and the dtype to return to."""
    check_floating(loc, "loc")
    loc = tf.convert_to_tensor(loc)
    dtype = loc.dtype
    check_axis(axis, loc.shape.rank)
    loc = tf.cast(loc, float_at_least_32(dtype))
    scale = tf.exp(cast(log_scale, loc.dtype)) + tf.zeros_like(loc)
    return _move(loc, axis, -1), _move(scale, axis, -1), dtype


def _last_axis_mask(class_mask, loc, axis):
    """The mask as a boolean tensor `[..., K]` with classes last, or None."""
    if class_mask is None:
        return None
    num_free = loc.shape[-1]
    shape = loc.shape[:-1].concatenate([None if num_free is None else num_free + 1])
    dims = shape.as_list()
    dims.insert(axis % len(dims), dims.pop())
    check_mask(class_mask, dims, axis)
    mask = tf.convert_to_tensor(class_mask)
    missing = len(dims) - mask.shape.rank
    mask = tf.reshape(mask, tf.concat([tf.ones([missing], tf.int32), tf.shape(mask)], 0))
    full = tf.concat([tf.shape(loc)[:-1], tf.shape(loc)[-1:] + 1], 0)
    mask = tf.broadcast_to(_move(mask, axis, -1), full)
    mask.set_shape(shape)
    return mask


def _move(x, source, destination):
    rank = x.shape.rank
    order = [i for i in range(rank) if i != source % rank]
    order.insert(destination % rank, source % rank)
    return x if order == list(range(rank)) else tf.transpose(x, order)


def _map(y, temperature, transform, delta, precision, mask):
    """`(g(y, temperature), truncation)`, classes last."""
    free = None if mask is None else mask[..., :-1]
    if not isinstance(transform, str):
        z = transform.forward(zero_masked(y, free))
        if z.shape[-1] == y.shape[-1]:
            return _softmax(z, temperature, delta, mask), None
        return _renormalised(z, mask), None
    if transform == "softmax++":
        return _softmax(zero_masked(y, free), temperature, delta, mask), None
    if mask is not None:
        # A stick of length 0, which takes nothing from those after it.
        y = tf.where(free, y, tf.cast(FILL, y.dtype))
    log_w = log_stick_breaking(y)
    if transform == "interpolation":
        w = _renormalised(tf.exp(log_w), mask)
        return zero_masked(interpolate(w, temperature), mask), None
    truncation = None
    if precision is not None:
        truncation = truncate(log_w, precision)
        remainder = tf.ones_like(truncation.kept[..., :1])
        kept = tf.concat([truncation.kept, remainder], -1)
        mask = kept if mask is None else mask & kept
    return _softmax(tf.exp(log_w[..., :-1]), temperature, delta, mask), truncation


def _softmax(y, temperature, delta, mask):
    """softmax++ with classes masked: exact zeros, and zeros for a row without classes."""
    scores = cool(y, temperature)
    remainder = tf.math.log(cast(delta, y.dtype)) + tf.zeros_like(scores[..., :1])
    scores = tf.concat([scores, remainder], -1)
    if mask is not None:
        scores = tf.where(mask, scores, tf.cast(FILL, y.dtype))
    return zero_masked(tf.nn.softmax(scores, -1), mask)


def _renormalised(z, mask):
    if mask is None:
        return z
    z = zero_masked(z, mask)
    total = tf.reduce_sum(z, -1, keepdims=True)
    return z / tf.where(total > 0.0, total, tf.ones_like(total))
