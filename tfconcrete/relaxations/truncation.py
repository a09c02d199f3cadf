"""Countably infinite support, cut per sample at a precision (IGR, Section 4.2).

The sticks of stick-breaking become small, so that a sample needs only the first of
them: those up to and including the one that takes the cumulative sum over the precision
rho. The cut is on the sticks w and softmax++ is applied to the kept ones; Eq. 25 with
the g of Eq. 24 would not converge, because exp(w_k / t) of the tail goes to 1, not to 0.

Shapes are static: K-1 is the largest number of classes, and a boolean mask says which of
them a sample keeps.
"""

import collections

import tensorflow as tf

from tfconcrete._checks import check_number, invalid_value
from tfconcrete._dtypes import cast
from tfconcrete.relaxations.masking import FILL
from tfconcrete.relaxations.stick_breaking import log_stick_breaking, sticks_from_softmax
from tfconcrete.relaxations.temperature import cool

Truncation = collections.namedtuple("Truncation", ["kept", "mass", "num_classes"])
Truncation.__doc__ = """Where samples were cut, and what that cost.

Fields:
    kept: boolean tensor `[..., K-1]`, True for the classes a sample keeps.
    mass: float tensor `[...]`, the sum of the sticks that were cut.
    num_classes: int32 tensor `[...]`, how many classes a sample keeps.
"""


def check_precision(precision):
    """A number in the open interval (0, 1)."""
    expected = "a number in the open interval (0, 1)"
    precision = check_number(precision, "precision", expected)
    if not 0.0 < precision < 1.0:
        raise invalid_value("precision", expected, precision)
    return precision


def truncate(log_w, precision):
    """Keeps class k while the sticks before it sum to at most `precision` (Eq. 25).

    Args:
        log_w: float tensor `[..., K]`, the logarithm of the sticks and the remainder.
        precision: rho, in (0, 1).

    Returns:
        A `Truncation`.

    Example:

    >>> log_w = tfc.relaxations.log_stick_breaking(tf.zeros([5]))
    >>> cut = tfc.relaxations.truncate(log_w, precision=0.7)
    >>> cut.kept.numpy(), float(cut.mass), int(cut.num_classes)
    (array([ True,  True, False, False, False]), 0.25, 2)
    """
    precision = check_precision(precision)
    log_w = tf.stop_gradient(tf.convert_to_tensor(log_w))
    w = tf.exp(log_w)
    # What is left before class k, summed from the tail, where it is exact however small,
    # and compared there: sum_{i<k} w_i <= rho is left_k >= 1 - rho.
    left = tf.cumsum(w, axis=-1, reverse=True)[..., :-1]
    kept = left >= 1.0 - precision
    cut = tf.where(kept, tf.zeros_like(left), w[..., :-1])
    return Truncation(
        kept=kept,
        mass=tf.reduce_sum(cut, -1) + w[..., -1],
        num_classes=tf.reduce_sum(tf.cast(kept, tf.int32), -1),
    )


def truncated_stick_breaking(y, temperature, delta=1.0, precision=0.99):
    """softmax++ of the sticks that `truncate` keeps; exact zeros for the others.

    A stick depends on its own and earlier coordinates of `y` alone, so gradients reach
    only the kept coordinates.

    Args:
        y: float tensor `[..., K-1]`.
        temperature: positive number or tensor that broadcasts against `y`.
        delta: positive number or tensor that broadcasts against `y[..., :1]`.
        precision: rho, in (0, 1).

    Returns:
        `(z, truncation)`: a tensor `[..., K]` on the simplex whose last entry is the
        remainder class, and a `Truncation`.

    Example:

    >>> z, cut = tfc.relaxations.truncated_stick_breaking(
    ...     tf.zeros([5]), temperature=0.1, precision=0.7)
    >>> z.numpy().round(3)
    array([0.918, 0.075, 0.   , 0.   , 0.   , 0.006], dtype=float32)
    """
    log_w = log_stick_breaking(y)
    cut = truncate(log_w, precision)
    return tf.exp(_log_softmax_of_kept(log_w, cut.kept, temperature, delta)), cut


def truncated_inverse(z, kept, temperature, delta=1.0):
    """The coordinates of `y` behind the kept classes of a truncated sample.

    Args:
        z: float tensor `[..., K]`, an image of `truncated_stick_breaking`.
        kept: boolean tensor `[..., K-1]`, the classes it keeps.
        temperature, delta: as in `truncated_stick_breaking`.

    Returns:
        Tensor `[..., K-1]`, 0 for the classes that are not kept.
    """
    z = tf.convert_to_tensor(z)
    epsilon = 2.0**-52 if z.dtype == tf.float64 else 2.0**-23
    w = sticks_from_softmax(z, temperature, delta)
    w = tf.where(kept, tf.maximum(w, epsilon), 0.0)
    left = tf.maximum(1.0 - tf.cumsum(w, axis=-1), epsilon)
    return tf.where(kept, tf.math.log(tf.where(kept, w, 1.0) / left), 0.0)


def truncated_log_det(y, kept, temperature, delta=1.0):
    """log |dz/dy| over the kept coordinates.

    The sum of that of the sticks, prod w_k (1 - u_k), and of softmax++, the product of
    z_k / t and of the remainder, all over the kept classes.

    Args:
        y: float tensor `[..., K-1]`; only the kept coordinates are read.
        kept: boolean tensor `[..., K-1]`.
        temperature, delta: as in `truncated_stick_breaking`.

    Returns:
        Tensor `[...]`.
    """
    y = tf.where(kept, tf.convert_to_tensor(y), 0.0)
    log_w = log_stick_breaking(y)
    log_z = _log_softmax_of_kept(log_w, kept, temperature, delta)
    log_temperature = tf.math.log(cast(temperature, y.dtype))
    terms = log_w[..., :-1] + tf.math.log_sigmoid(-y) + log_z[..., :-1] - log_temperature
    return tf.reduce_sum(tf.where(kept, terms, 0.0), -1) + log_z[..., -1]


def _log_softmax_of_kept(log_w, kept, temperature, delta):
    sticks = tf.where(kept, log_w[..., :-1], tf.zeros_like(log_w[..., :-1]))
    scores = cool(tf.exp(sticks), temperature)
    scores = tf.where(kept, scores, tf.cast(FILL, scores.dtype))
    log_delta = tf.math.log(cast(delta, log_w.dtype)) + tf.zeros_like(scores[..., :1])
    return tf.nn.log_softmax(tf.concat([scores, log_delta], -1), axis=-1)
