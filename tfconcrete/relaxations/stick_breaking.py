"""Stick-breaking: from R^(K-1) onto the simplex, one break after the other (IGR, Eq. 22).

With u = sigmoid(y), class k takes the share u_k of what the classes before it left:
w_k = u_k prod_{i<k} (1 - u_i). (Eq. 22 as printed has v_i in the product, which leaves
the simplex.) Everything is a sum of logarithms, and the remainder is the product of all
1 - u_i, never `1 - sum`.
"""

import math

import tensorflow as tf

from tfconcrete._dtypes import cast
from tfconcrete._floors import FILL, FLOOR
from tfconcrete._typing import TensorLike
from tfconcrete.relaxations.simplex_transform import (
    SimplexTransform,
    floored_log,
    free_classes,
    mask_scores,
    on_kept_classes,
)
from tfconcrete.relaxations.softmax_plus_plus import (
    SoftmaxTransform,
    log_softmax_plus_plus,
    softmax_plus_plus_log_det,
    threshold,
    with_remainder,
)


def log_stick_breaking(y: TensorLike) -> tf.Tensor:
    """log of `stick_breaking`, exact where a stick underflows.

    Args:
        y: float tensor `[..., K-1]`.

    Returns:
        Tensor `[..., K]`; the last entry is the remainder.

    Example:

    >>> log_w = tfc.relaxations.log_stick_breaking(tf.zeros([2]))
    >>> (log_w / np.log(2)).numpy().round(4)
    array([-1., -2., -2.], dtype=float32)
    """
    y = tf.convert_to_tensor(y)
    nothing = tf.zeros_like(y[..., :1])
    # What the classes before each one left. (TF.js knows no negative axis here.)
    left = tf.concat([nothing, tf.math.log_sigmoid(-y)], -1)
    axis = -1 if y.shape.rank is None else y.shape.rank - 1
    return tf.concat([tf.math.log_sigmoid(y), nothing], -1) + tf.cumsum(left, axis=axis)


def stick_breaking(y: TensorLike) -> tf.Tensor:
    """w_k = sigmoid(y_k) prod_{i<k} sigmoid(-y_i), and the remainder (IGR, Eq. 22).

    Args:
        y: float tensor `[..., K-1]`.

    Returns:
        Tensor `[..., K]` on the simplex; the last entry is the remainder.

    Example:

    >>> tfc.relaxations.stick_breaking(tf.zeros([3])).numpy()
    array([0.5  , 0.25 , 0.125, 0.125], dtype=float32)
    """
    return tf.exp(log_stick_breaking(y))


def stick_breaking_inverse(log_w: TensorLike) -> tf.Tensor:
    """y_k = log w_k - log(sum_{j>k} w_j), from the logarithm of the sticks.

    Args:
        log_w: float tensor `[..., K]`.

    Returns:
        Tensor `[..., K-1]`.

    Example:

    >>> log_w = tf.math.log([0.5, 0.25, 0.25])
    >>> tfc.relaxations.stick_breaking_inverse(log_w).numpy().round(4)
    array([0., 0.], dtype=float32)
    """
    log_w = tf.convert_to_tensor(log_w)
    return log_w[..., :-1] - _log_cumsum_from_end(log_w[..., 1:])


def _log_cumsum_from_end(x):
    """log of the sums of exp(x) from each entry to the last.

    By doubling the reach, in log2 K passes: `tf.math.cumulative_logsumexp` takes K under
    XLA, and a second for a thousand rows of 200.
    """
    size = x.shape[-1]
    if size is None:
        return tf.math.cumulative_logsumexp(x, axis=-1, reverse=True)
    reach = 1
    while reach < size:
        nothing = tf.fill(tf.shape(x[..., :reach]), tf.cast(FILL, x.dtype))
        ahead = tf.concat([x[..., reach:], nothing], -1)
        x = tf.reduce_logsumexp(tf.stack([x, ahead], -1), -1)
        reach *= 2
    return x


def stick_breaking_log_det(log_w: TensorLike) -> tf.Tensor:
    """log |dw/dy| over the first K-1 coordinates.

    The Jacobian is triangular with w_k (1 - u_k) on its diagonal, and the product of all
    1 - u_k is the remainder: the determinant is prod_k w_k, over all K.

    Args:
        log_w: float tensor `[..., K]`, the logarithm of the image.

    Returns:
        Tensor `[...]`.

    Example:

    >>> log_w = tf.math.log([0.5, 0.5])
    >>> round(float(tf.exp(tfc.relaxations.stick_breaking_log_det(log_w))), 4)
    0.25
    """
    return tf.reduce_sum(log_w, axis=-1)


def sticks_from_softmax(z, temperature, delta=1.0):
    """The sticks w behind z = softmax++(w / t): w_k = t log(delta z_k / z_K).

    One logarithm of a ratio near 1 keeps the digits that a difference of two large
    logarithms loses; the gradient is that of the difference, which does not overflow.

    Args:
        z: float tensor `[..., K]` on the simplex. A coordinate below 1e-30 counts as that.
        temperature, delta: positive numbers or tensors that broadcast against
            `z[..., :1]`.

    Returns:
        Tensor `[..., K-1]`, to about the machine epsilon times the temperature.
    """
    z = tf.maximum(tf.convert_to_tensor(z), FLOOR)
    difference = tf.math.log(z[..., :-1]) - tf.math.log(z[..., -1:])
    ratio = tf.math.log(tf.stop_gradient(z[..., :-1] / z[..., -1:]))
    log_ratio = ratio + (difference - tf.stop_gradient(difference))
    return cast(temperature, z.dtype) * (log_ratio + tf.math.log(cast(delta, z.dtype)))


def masked_log_sticks(y, mask):
    """`log_stick_breaking`, in which a masked class takes nothing from those after it."""
    free = free_classes(mask)
    return log_stick_breaking(y if free is None else tf.where(free, y, tf.cast(FILL, y.dtype)))


class SticksTransform(SimplexTransform):
    """Stick-breaking alone, with no temperature (Eq. 22)."""

    def parameters(self, num_free):
        return ()

    def forward(self, y, temperature=1.0, delta=1.0, mask=None):
        return on_kept_classes(masked_log_sticks(y, mask), mask)

    def scores(self, y, temperature=1.0, delta=1.0, mask=None):
        return mask_scores(masked_log_sticks(y, mask), mask)

    def start(self, probs):
        return stick_breaking_inverse(tf.math.log(probs))

    def forward_log_det(self, y, temperature=1.0, delta=1.0):
        return stick_breaking_log_det(log_stick_breaking(y))

    def inverse(self, z, temperature=1.0, delta=1.0):
        return stick_breaking_inverse(floored_log(z))

    def inverse_log_det(self, z, temperature=1.0, delta=1.0):
        return -stick_breaking_log_det(floored_log(z))


class StickBreakingTransform(SoftmaxTransform):
    """`"stick_breaking"`: softmax++ of the first K-1 sticks (Eq. 24).

    Sticks lie in (0, 1) and sum to less than 1, so the image is a part of the simplex. The
    inverse reads them off the ratios z_k / z_K, to about the machine epsilon times the
    temperature: a stick below the epsilon (1.2e-7 in float32) counts as the epsilon.
    """

    name = "stick_breaking"
    has_exact_probs = False

    def remainder_wins(self, delta):
        return delta > 1.0

    def inner(self, y, mask=None):
        return tf.exp(masked_log_sticks(y, mask)[..., :-1]), mask

    def scores(self, y, temperature, delta=1.0, mask=None):
        # Sticks by their logarithms, which do not underflow. A threshold of 0 or less is
        # below them all.
        bar = threshold(temperature, delta, y.dtype)
        bar = tf.where(bar > 0.0, tf.math.log(tf.maximum(bar, FLOOR)), y.dtype.min)
        log_w = masked_log_sticks(y, mask)
        return mask_scores(with_remainder(log_w[..., :-1], bar), mask)

    start = SticksTransform.start

    def forward_log_det(self, y, temperature, delta=1.0):
        log_w = log_stick_breaking(y)
        log_z = log_softmax_plus_plus(tf.exp(log_w[..., :-1]), temperature, delta)
        return stick_breaking_log_det(log_w) + softmax_plus_plus_log_det(log_z, temperature)

    def inverse(self, z, temperature, delta=1.0):
        return stick_breaking_inverse(self._log_sticks(z, temperature, delta))

    def inverse_log_det(self, z, temperature, delta=1.0):
        log_det = stick_breaking_log_det(self._log_sticks(z, temperature, delta))
        log_det += softmax_plus_plus_log_det(floored_log(z), temperature)
        inside = self._in_image(z, temperature, delta)
        return tf.where(inside, -log_det, tf.cast(-math.inf, z.dtype))

    def _sticks(self, z, temperature, delta):
        """The sticks with their remainder, `[..., K]`, before any floor."""
        sticks = sticks_from_softmax(z, temperature, delta)
        return tf.concat([sticks, 1.0 - tf.reduce_sum(sticks, -1, keepdims=True)], -1)

    def _log_sticks(self, z, temperature, delta):
        return tf.math.log(tf.maximum(self._sticks(z, temperature, delta), epsilon(z.dtype)))

    def _in_image(self, z, temperature, delta):
        """False where a stick is negative by more than rounding explains."""
        sticks = self._sticks(z, temperature, delta)
        valid = tf.reduce_all(sticks >= -stick_error(z, temperature), -1)
        # Where z has lost a coordinate, its sticks are not known well enough to say.
        return valid | tf.reduce_any(z < FLOOR, -1)


def epsilon(dtype):
    """The spacing of numbers at 1."""
    return 2.0**-52 if dtype == tf.float64 else 2.0**-23


def stick_error(z, temperature):
    """What rounding can explain in sums of sticks that were read off z; `[..., 1]`."""
    num_classes = tf.cast(tf.shape(z)[-1], z.dtype)
    return 16.0 * epsilon(z.dtype) * num_classes * tf.maximum(cast(temperature, z.dtype), 1.0)
