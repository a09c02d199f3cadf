"""Countably infinite support, cut per sample at a precision (IGR, Section 4.2).

The sticks of stick-breaking become small, so that a sample needs only the first of
them: those up to and including the one that takes the cumulative sum over the precision
rho. The cut is on the sticks w and softmax++ is applied to the kept ones; Eq. 25 with
the g of Eq. 24 would not converge, because exp(w_k / t) of the tail goes to 1, not to 0.

Shapes are static: K-1 is the largest number of classes, and a boolean mask says which of
them a sample keeps.
"""

import collections
import math

import tensorflow as tf

from tfconcrete._checks import check_number, invalid_value
from tfconcrete._dtypes import cast
from tfconcrete._floors import FILL, FLOOR
from tfconcrete._typing import TensorLike
from tfconcrete.relaxations.softmax_plus_plus import class_scores
from tfconcrete.relaxations.stick_breaking import (
    StickBreakingTransform,
    epsilon,
    log_stick_breaking,
    masked_log_sticks,
    stick_error,
    sticks_from_softmax,
)

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


def truncate(
    log_w: TensorLike, precision: float | None, class_mask: TensorLike | None = None
) -> Truncation:
    """Keeps class k while the sticks before it sum to at most `precision` (Eq. 25).

    Args:
        log_w: float tensor `[..., K]`, the logarithm of the sticks and the remainder.
        precision: rho, in (0, 1).
        class_mask: None, or a boolean tensor `[..., K]`; False for classes that are not
            there, whose sticks are of length 0 and which no sample keeps.

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
    axis = -1 if w.shape.rank is None else w.shape.rank - 1
    left = tf.cumsum(w, axis=axis, reverse=True)[..., :-1]
    # Where it is NaN too, so that the sample is NaN. (TensorFlow would optimize the negation
    # of `left < ...` to `left >= ...`, which drops it.)
    kept = (left >= 1.0 - precision) | tf.math.is_nan(left)
    if class_mask is not None:
        kept &= tf.convert_to_tensor(class_mask)[..., :-1]
    cut = tf.where(kept, tf.zeros_like(left), w[..., :-1])
    return Truncation(
        kept=kept,
        mass=tf.reduce_sum(cut, -1) + w[..., -1],
        # Counted in floats: int32 sums run on the host of a GPU.
        num_classes=tf.cast(tf.reduce_sum(tf.cast(kept, tf.float32), -1), tf.int32),
    )


def truncated_stick_breaking(
    y: TensorLike, temperature: TensorLike, delta: TensorLike = 1.0, precision: float | None = 0.99
) -> tuple[tf.Tensor, Truncation]:
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
    transform, y = TruncatedTransform(precision), tf.convert_to_tensor(y)
    return transform.forward(y, temperature, delta), transform.truncation(y)


class TruncatedTransform(StickBreakingTransform):
    """`"stick_breaking"` with a `precision`: softmax++ of the sticks that are kept.

    An image lies in one of K-1 strata, that of the samples that keep n classes. Densities
    are with respect to Lebesgue measure on the n kept coordinates of z, and the integrals
    over the strata sum to 1.

    Args:
        precision: rho, in (0, 1).
    """

    def __init__(self, precision):
        self.precision = check_precision(precision)

    def get_config(self):
        return {"precision": self.precision}

    def truncation(self, y, mask=None):
        return truncate(masked_log_sticks(y, mask), self.precision, mask)

    def inner(self, y, mask=None):
        return super().inner(y, mask)[0], self._kept(y, mask)

    def scores(self, y, temperature, delta=1.0, mask=None):
        return super().scores(y, temperature, delta, self._kept(y, mask))

    def _kept(self, y, mask):
        """The mask `[..., K]` of what is neither masked nor cut."""
        kept = self.truncation(y, mask).kept
        remainder = tf.ones_like(kept[..., :1]) if mask is None else mask[..., -1:]
        return tf.concat([kept, remainder], -1)

    def sample_log_prob(self, y, log_prob, temperature, delta=1.0):
        return _log_prob(y, self.truncation(y).kept, log_prob, temperature, delta)

    def log_prob(self, z, log_prob_of, temperature, delta=1.0):
        kept = z[..., :-1] > 0.0
        sticks = tf.where(kept, sticks_from_softmax(z, temperature, delta), 0.0)
        smallest = epsilon(z.dtype)
        w = tf.where(kept, tf.maximum(sticks, smallest), 0.0)
        left = tf.maximum(1.0 - tf.cumsum(w, axis=-1), smallest)
        y = tf.where(kept, tf.math.log(tf.where(kept, w, 1.0) / left), 0.0)
        log_prob = _log_prob(y, kept, log_prob_of(y), temperature, delta)
        # Where z has lost its remainder, its sticks are not known well enough to say.
        inside = self._in_support(sticks, kept, stick_error(z, temperature))
        return tf.where(inside | (z[..., -1] < FLOOR), log_prob, tf.cast(-math.inf, z.dtype))

    def _in_support(self, sticks, kept, error):
        """Whether these are the sticks that `truncate` would keep, up to rounding.

        The first n of them, at least one: positive, their sum less than 1 and, unless all
        are kept, above rho, which the sum without the last is not.
        """
        before = tf.cumsum(sticks, axis=-1, exclusive=True)
        total = tf.reduce_sum(sticks, -1)
        error_total = error[..., 0] if error.shape.rank else error
        ordered = tf.reduce_all(kept[..., :-1] | ~kept[..., 1:], -1) & kept[..., 0]
        fitting = (sticks >= -error) & (before <= self.precision + error)
        passed = (total > self.precision - error_total) | kept[..., -1]
        within = tf.reduce_all(fitting | ~kept, -1) & (total < 1.0 + error_total)
        return ordered & passed & within


def _log_prob(y, kept, log_prob, temperature, delta):
    """The log density at the image of y, from that of the kept coordinates of y.

    The determinant is that of the sticks, prod w_k (1 - u_k), times that of softmax++, the
    product of z_k / t and of the remainder, all over the kept classes.
    """
    y = tf.where(kept, y, 0.0)
    log_w = log_stick_breaking(y)[..., :-1]
    sticks = tf.exp(tf.where(kept, log_w, 0.0))
    scores = class_scores(sticks, temperature, delta)
    everywhere = tf.concat([kept, tf.ones_like(kept[..., :1])], -1)
    log_z = tf.nn.log_softmax(tf.where(everywhere, scores, tf.cast(FILL, y.dtype)), -1)
    log_temperature = tf.math.log(cast(temperature, y.dtype))
    log_det = log_w + tf.math.log_sigmoid(-y) + log_z[..., :-1] - log_temperature
    return tf.reduce_sum(tf.where(kept, log_prob - log_det, 0.0), -1) - log_z[..., -1]
