"""Independent Bernoulli variables given their sum: the law of a random subset, in rows.

A subset z of count classes with p(z) proportional to exp(z . logits) is a row of
independent Bernoulli variables with those log odds, given that they sum to count; a number
added to all log odds changes nothing. `tilt` picks the one that makes the expected sum the
wanted one. The condition is then among the likeliest values of the sum, and nothing below
can overflow or underflow whatever the logits are: no logarithms are needed.

The mass of the sum at count is a Fourier coefficient of its characteristic function,

    P(S = count) = mean over t of exp(-i theta_t count) prod_i (q_i + p_i exp(i theta_t)),

at M equidistant angles theta_t; what aliasing adds is P(S = count +- M), and below rounding
for M a few standard deviations of the sum. So everything costs O(n sqrt(count)) and is
parallel over classes and angles, where the recursion over classes costs O(n count) in n
dependent steps.
"""

import math

import numpy as np
import tensorflow as tf

from tfconcrete._floors import FLOOR, clip

# How far the expected sum may be from the wanted one.
_TOLERANCE = 0.5
# A logit as far below another as matters: the odds are 0 in float64, from their middle too.
_FAR = -1600.0
# Angles are taken in at most _CHUNKS pieces of at least _CHUNK, which bounds both the ops and
# the memory outside XLA, [rows, angles of a piece, num_classes].
_CHUNK, _CHUNKS = 16, 4
# Factors of a product that are multiplied one by one, along vectors, before the rest.
_GROUP = 8


def tilt(subset):
    """Log odds whose expected sum is `subset.count`, to within a half.

    Args:
        subset: `SubsetRows`.

    Returns:
        Tensor `[rows, num_classes]`, `subset.logits` minus a number for each row that has
        no gradient. Where all kept classes are taken, they have infinite odds.
    """
    logits = tf.stop_gradient(subset.logits)
    count = tf.maximum(subset.count, 1.0)
    settled = False if subset.forced is None else subset.forced
    # Between these a solution lies: the k-th largest logit is 0, so that of the others each
    # has at most the odds 1.
    low = -tf.math.log(2.0 * count) - 1.0
    high = tf.zeros_like(low) + (math.log(2.0 * logits.shape[-1]) + 1.0)

    def unsettled(excess):
        return tf.logical_and(tf.abs(excess) > _TOLERANCE, tf.logical_not(settled))

    def step(shift, low, high, excess):
        # Newton on the logarithm of the expected sum, or the middle where it leaves.
        p = tf.sigmoid(logits - shift)
        mean = tf.reduce_sum(p, axis=-1, keepdims=True)
        variance = tf.reduce_sum(p * (1.0 - p), axis=-1, keepdims=True)
        excess = mean - count
        low = tf.where(excess > 0.0, shift, low)
        high = tf.where(excess < 0.0, shift, high)
        newton = shift + mean * tf.math.log(mean / count) / tf.maximum(variance, 1e-6)
        inside = tf.logical_and(newton > low, newton < high)
        moved = tf.where(inside, newton, 0.5 * (low + high))
        return tf.where(unsettled(excess), moved, shift), low, high, excess

    # From the middle between the k-th logit and the next: where they are far apart that is the
    # solution, and leaves both classes their certainty.
    far = tf.cast(_FAR, logits.dtype)
    following = tf.reduce_max(tf.where(logits < 0.0, logits, far), axis=-1, keepdims=True)
    at_least = tf.reduce_sum(tf.cast(logits >= 0.0, logits.dtype), axis=-1, keepdims=True)
    start = tf.where(at_least > count, tf.zeros_like(low), 0.5 * tf.maximum(following, far))
    shift, *_ = tf.while_loop(
        lambda shift, low, high, excess: tf.reduce_any(unsettled(excess)),
        step,
        (start, low, high, tf.zeros_like(low) + math.inf),
        maximum_iterations=60,
    )
    log_odds = subset.logits - tf.stop_gradient(shift)
    if subset.forced is None:
        return log_odds
    certain = tf.where(subset.mask, tf.cast(1e30, logits.dtype), subset.logits)
    return tf.where(subset.forced, tf.stop_gradient(certain), log_odds)


def log_sigmoids(log_odds):
    """`(log p, log q)` of independent variables."""
    return -tf.nn.softplus(-log_odds), -tf.nn.softplus(log_odds)


def log_mass(log_odds, count, k):
    """log P(S = count) of the sum S of the variables.

    Args:
        log_odds: float tensor `[rows, num_classes]` from `tilt`.
        count: `[rows, 1]`.
        k: whole number, the largest count.

    Returns:
        Tensor `[rows, 1]`.
    """

    @tf.custom_gradient
    def mass(log_odds):
        def backward(upstream):
            return upstream * (marginals(log_odds, count, k) - tf.sigmoid(log_odds))

        return _Fourier(log_odds, count, k).log_mass(), backward

    return mass(log_odds)


def marginals(log_odds, count, k):
    """P(z_i = 1 | S = count).

    The gradient is the covariance of z given the sum, applied to the incoming one.

    Args:
        log_odds, count, k: as in `log_mass`.

    Returns:
        Tensor `[rows, num_classes]`.
    """

    return marginal_pair(log_odds, count, k)[0]


def marginal_pair(log_odds, count, k):
    """`marginals`, and 1 minus them with digits of their own where those are near 1."""

    @tf.custom_gradient
    def means(log_odds):
        fourier = _Fourier(log_odds, count, k)

        def backward(upstream, complement_upstream):
            return fourier.covariance_product(upstream - complement_upstream)

        return fourier.marginals(), backward

    return means(log_odds)


def covariance_product(log_odds, count, k, vector):
    """Cov(z | S = count) applied to `vector`, `[rows, num_classes]`."""
    return _Fourier(log_odds, count, k).covariance_product(vector)


def num_angles(num_classes, k, precision):
    """M, odd: aliasing is below `precision`, relative to the mass at k.

    Bennett's inequality for a sum of variance at most that of a Poisson; `num_classes + 1`
    angles are exact.
    """
    variance = min(k, num_classes - k) + _TOLERANCE
    bound = precision * 0.3 / math.sqrt(variance + 1.0)
    angles = 3
    while angles <= num_classes:
        ratio = (angles - _TOLERANCE) / variance
        exponent = variance * ((1.0 + ratio) * math.log1p(ratio) - ratio)
        if 2.0 * math.exp(-exponent) <= bound:
            break
        angles += 2
    return angles


class _Fourier:
    """One row's characteristic function at the angles of the upper half circle.

    With f_it = q_i + p_i w_t, w_t = exp(i theta_t), phi_t = prod_i f_it and weights
    a_t = w_t**-count phi_t / sum, which sum to 1:

        E[z_i]        = sum_t a_t g_it,                         g_it = p_i w_t / f_it
        Cov(z) u at i = u_i sum_t a_t g_it (1 - g_it) + sum_t a_t U_t g_it - E[z_i] E[z . u]
        U_t           = sum_j g_jt u_j.

    Conjugate angles count by their real parts, twice; angle 0 (f = 1) is apart. In real
    numbers, with c = cos theta, s = sin theta and D_it = |f_it|**2:

        g       = p (p + c q + i s q) / D
        g (1-g) = p q (q**2 w + 2 p q + p**2 conj(w)) / D**2.
    """

    def __init__(self, log_odds, count, k):
        dtype = log_odds.dtype
        precision = 1e-17 if dtype == tf.float64 else 1e-9
        size = num_angles(log_odds.shape[-1], k, precision)
        step = np.arange(1, (size + 1) // 2)
        theta = 2.0 * math.pi * step / size
        self.cos, self.sin = (tf.constant(f(theta), dtype) for f in (np.cos, np.sin))
        self.cos2, self.sin2 = (tf.constant(f(theta / 2) ** 2, dtype) for f in (np.cos, np.sin))
        self.p, self.q = tf.sigmoid(log_odds), tf.sigmoid(-log_odds)
        real, imag = self._characteristic()
        # w_t**-count, from the angle's number modulo `size`: a whole number, exact.
        turn = tf.math.floormod(count * tf.constant(step, dtype), float(size))
        turn *= 2.0 * math.pi / size
        cos, sin = tf.cos(turn), tf.sin(turn)
        real, imag = 2.0 * (real * cos + imag * sin), 2.0 * (imag * cos - real * sin)
        total = 1.0 + tf.reduce_sum(real, axis=-1, keepdims=True)
        self._log_mass = tf.math.log(total / size)
        self.real, self.imag, self.zero = real / total, imag / total, 1.0 / total

    def _characteristic(self):
        """phi_t, `(real, imaginary)`, each `[rows, angles]`."""
        num_classes = self.p.shape[-1]
        size = -(-num_classes // _GROUP)
        p = tf.pad(self.p, [[0, 0], [0, size * _GROUP - num_classes]])
        p = tf.reshape(p, [-1, 1, _GROUP, size])
        real, imag = [], []
        for piece in self._pieces():
            one_minus_cos = 2.0 * self.sin2[piece, tf.newaxis]
            sin = self.sin[piece, tf.newaxis]
            x, y = 1.0 - p[:, :, 0] * one_minus_cos, p[:, :, 0] * sin
            for j in range(1, _GROUP):
                a, b = 1.0 - p[:, :, j] * one_minus_cos, p[:, :, j] * sin
                x, y = x * a - y * b, x * b + y * a
            product = tf.reduce_prod(tf.complex(x, y), axis=-1)
            real.append(tf.math.real(product))
            imag.append(tf.math.imag(product))
        return tf.concat(real, -1), tf.concat(imag, -1)

    def _pieces(self):
        """Slices of the angles."""
        num = self.cos.shape[0]
        length = max(_CHUNK, -(-num // _CHUNKS))
        return [slice(start, min(start + length, num)) for start in range(0, num, length)]

    def _inverse(self, piece):
        """1 / D, `[rows, angles of the piece, num_classes]`; a sum of squares, never 0."""
        difference = tf.square(self.p - self.q)[:, tf.newaxis]
        cos2, sin2 = self.cos2[piece, tf.newaxis], self.sin2[piece, tf.newaxis]
        return 1.0 / (cos2 + sin2 * difference)

    def _sum(self, weights, power=1):
        """sum_t weights_t / D_it**power for each of the `weights`, a list of `[rows, angles]`."""
        weights = tf.stack(weights, axis=1)
        total = 0.0
        for piece in self._pieces():
            total += tf.matmul(weights[:, :, piece], self._inverse(piece) ** power)
        return tf.unstack(total, axis=1)

    def log_mass(self):
        return self._log_mass

    def marginals(self):
        """E[z_i] and E[1 - z_i], where 1 - g = q (q + p conj(w)) / D."""
        p, q, zero = self.p, self.q, self.zero
        below, above = self._turned()
        plain, below, above = self._sum([self.real, below, above])
        taken = p * (p * (zero + plain) + q * (zero + below))
        left = q * (q * (zero + plain) + p * (zero + above))
        return clip(taken, 0.0, 1.0), clip(left, 0.0, 1.0)

    def _turned(self):
        """The real parts of a_t w_t and of a_t conj(w_t)."""
        cos, sin = self.real * self.cos, self.imag * self.sin
        return cos - sin, cos + sin

    def covariance_product(self, vector):
        p, q, x, y = self.p, self.q, self.real, self.imag
        # The covariance does not see a constant; without it little is left to cancel.
        weight = tf.maximum(tf.reduce_sum(p, axis=-1, keepdims=True), FLOOR)
        vector -= tf.reduce_sum(p * vector, axis=-1, keepdims=True) / weight
        terms = tf.stack([p * p * vector, p * q * vector], axis=-1)
        sums = [tf.matmul(self._inverse(piece), terms) for piece in self._pieces()]
        plain, turned = tf.unstack(tf.concat(sums, axis=1), axis=-1)
        u_real, u_imag = plain + self.cos * turned, self.sin * turned
        u_zero = self.zero * tf.reduce_sum(p * vector, axis=-1, keepdims=True)
        b_real, b_imag = x * u_real - y * u_imag, x * u_imag + y * u_real
        mean = u_zero + tf.reduce_sum(b_real, axis=-1, keepdims=True)

        below, above = self._turned()
        b_below = b_real * self.cos - b_imag * self.sin
        b_above = b_real * self.cos + b_imag * self.sin
        m_plain, m_below, m_above, c_plain, c_below, c_above = self._sum(
            [x, below, above, b_real, b_below, b_above]
        )
        v_below, v_plain, v_above = self._sum([below, x, above], power=2)
        own = p * q * (self.zero + q * q * v_below + 2.0 * p * q * v_plain + p * p * v_above)
        # Cov(z_i, z . u) = -Cov(1 - z_i, z . u): of the two the one whose factor is small, so
        # that classes which are nearly certain have nearly no gradient, however large u is.
        taken = p * (p * (u_zero + c_plain) + q * (u_zero + c_below))
        taken -= p * (p * (self.zero + m_plain) + q * (self.zero + m_below)) * mean
        left = q * (q * (u_zero + c_plain) + p * (u_zero + c_above))
        left -= q * (q * (self.zero + m_plain) + p * (self.zero + m_above)) * mean
        return tf.where(p > q, -left, taken) + own * vector
