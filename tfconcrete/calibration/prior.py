"""The IGR distribution behind given class probabilities (IGR, Eq. 20).

The parameters of an IGR cannot be read off the probabilities it relaxes, so they are
solved for: the location, at a fixed scale. (Eq. 20 as printed, E||z - p||^2, is minimal
at a point mass inside the simplex; what is meant is the mean, ||E[z] - p||^2, and even
that leaves the scale free.)
"""

import numpy as np
import tensorflow as tf

from tfconcrete._checks import (
    check_choice,
    check_count,
    check_number,
    check_temperature,
    invalid_value,
)
from tfconcrete._softmax import softmax
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.distributions import IGR
from tfconcrete.relaxations.gaussian_argmax import gaussian_argmax_jacobian
from tfconcrete.relaxations.simplex_transform import SimplexTransform
from tfconcrete.relaxations.softmax_plus_plus import SoftmaxTransform, log_softmax_plus_plus
from tfconcrete.relaxations.transforms import get_transform

# A class of probability 0 is one of this, so that its location is a number. Smaller ones
# are below what the quadrature resolves.
_SMALLEST = 1e-7
_NEWTON_STEPS = 100
_ADAM_STEPS = 400


def fit_igr_prior(
    probs: TensorLike,
    temperature: TensorLike,
    transform: str | SimplexTransform = "softmax++",
    scale: TensorLike = 1.0,
    match: str = "discrete",
    delta: TensorLike = 1.0,
    num_samples: int | None = None,
    seed: Seed = 0,
) -> IGR:
    """An `IGR` of the given scale whose rounding probabilities, or mean, are `probs`.

    For softmax++ a damped Newton iteration: on exact probabilities by quadrature for
    `"discrete"` (to 1e-5), on a fixed stratified noise for `"mean"` (to about 1e-3). The
    other transforms have no quadrature: a compiled Adam on the same kind of noise, to a
    few 1e-3. Seconds on a CPU in all cases (a thousand classes too).

    Args:
        probs: float array `[K]` of probabilities that sum to 1.
        temperature: positive number.
        transform: `"softmax++"`, `"stick_breaking"`, `"interpolation"` or a bijector. With
            `"stick_breaking"` and delta <= 1 the last class never wins the rounding:
            `"discrete"` then needs `probs[-1] = 0` (append a class).
        scale: positive number or array `[K-1]`, the scale of the result. At temperature
            0.1 about 0.22, 0.70 and 0.90 of the samples are near a vertex for 0.3, 1, 3.
        match: `"discrete"`, the probabilities of rounding to the nearest vertex, or
            `"mean"`, the expectation of the relaxed sample.
        delta: positive number, the weight of the remainder class in softmax++.
        num_samples: Size of the noise, where noise is used; None lets it depend on K.
        seed: An int, the seed of that noise.

    Returns:
        A `tfc.distributions.IGR` with event shape `[K]`, float32.

    Example:

    >>> prior = tfc.calibration.fit_igr_prior([0.5, 0.3, 0.2], temperature=0.1)
    >>> prior.discrete().probs_parameter().numpy().round(4)
    array([0.5, 0.3, 0.2], dtype=float32)
    """
    probs = _checked_probs(probs)
    match = check_choice(match, "match", ("discrete", "mean"))
    check_temperature(temperature)
    temperature = check_number(temperature, "temperature", "a positive number")
    scale = np.broadcast_to(np.asarray(scale, np.float64), [len(probs) - 1])
    if not np.all(np.isfinite(scale) & (scale > 0)):
        raise invalid_value("scale", "a positive number or array [K-1]", scale)
    # Checks transform, delta and the temperature's range.
    IGR(np.zeros(len(scale), np.float32), np.float32(scale), temperature, transform, delta)
    simplex_transform = get_transform(transform)
    if num_samples is not None:
        check_count(num_samples, "num_samples")
    target = np.maximum(probs, _SMALLEST)
    target /= target.sum()
    if simplex_transform == SoftmaxTransform():
        if match == "discrete":
            moments = _rounding(scale, temperature * np.log(delta))
        else:
            noise = stratified_normal(num_samples, len(scale), seed)
            moments = _mean(scale, temperature, delta, noise)
        loc = _newton(moments, target, scale)
    else:
        if match == "discrete" and probs[-1] and not simplex_transform.remainder_wins(delta):
            raise invalid_value(
                "probs",
                "probs[-1] = 0 (append a class): after stick-breaking with delta <= 1 the "
                "last class never is the largest",
                probs,
            )
        noise = stratified_normal(num_samples, len(scale), seed, 400_000, 20_000)
        loc = _minimize(simplex_transform, (temperature, delta), target, scale * noise, match)
    return IGR(loc.astype(np.float32), scale.astype(np.float32), temperature, transform, delta)


def _checked_probs(probs):
    values = np.asarray(probs)
    if values.ndim != 1 or len(values) < 2 or values.dtype.kind not in "fiu":
        raise invalid_value("probs", "an array [K] of at least two probabilities", probs)
    values = values.astype(np.float64)
    if not (np.all(np.isfinite(values) & (values >= 0)) and abs(values.sum() - 1) < 1e-4):
        raise invalid_value("probs", "non-negative numbers that sum to 1", probs)
    return values / values.sum()


def stratified_normal(num_samples, num_dims, seed, elements=2_000_000, most=50_000):
    """Normal noise `[num_samples, num_dims]` with one draw in each stratum of each column.

    A Latin hypercube: the error of a mean is far below that of independent draws.
    """
    if num_samples is None:
        num_samples = int(np.clip(elements // num_dims, 1_000, most))
    generator = np.random.default_rng(seed)
    strata = np.tile((np.arange(num_samples) + 0.5) / num_samples, (num_dims, 1))
    uniforms = generator.permuted(strata, axis=1).T
    return tf.math.ndtri(tf.constant(uniforms, tf.float64)).numpy()


def _rounding(scale, threshold):
    """loc to the probabilities of rounding and their Jacobian, both by quadrature."""
    scale = tf.constant(scale)

    @tf.function
    def moments(loc):
        return gaussian_argmax_jacobian(loc, scale, threshold)

    return moments


def _mean(scale, temperature, delta, noise):
    """loc to the mean of softmax++ samples and its Jacobian, on fixed noise."""
    shift = tf.constant(scale * noise)

    @tf.function
    def moments(loc):
        z = tf.exp(log_softmax_plus_plus(loc + shift, temperature, delta))
        mean = tf.reduce_mean(z, 0)
        outer = tf.matmul(z, z[:, :-1], transpose_a=True) / len(noise)
        return mean, (tf.linalg.diag(mean)[:, :-1] - outer) / temperature

    return moments


def _newton(moments, target, scale):
    """loc with moments(loc)[0] = target.

    Newton on the logarithms of all but one probability (they sum to 1), with steps cut
    to a few scales and halved until the error falls. The Jacobian is an M-matrix (raising
    one location lowers every other class), so the steps are well defined.
    """
    free = slice(0, len(target) - 1)
    loc = scale * (np.log(target[free]) - np.log(target[-1])) / 4.0

    def evaluate(loc):
        values, jacobian = moments(tf.constant(loc))
        values = np.maximum(values.numpy(), 1e-300)
        return np.log(values) - np.log(target), values, jacobian.numpy()

    residual, values, jacobian = evaluate(loc)
    for _ in range(_NEWTON_STEPS):
        error = np.max(np.abs(values - target))
        if error < 1e-9 and np.max(np.abs(residual)) < 1e-2:
            break
        step = np.linalg.solve(jacobian[free] / values[free, None], -residual[free])
        step *= min(1.0, 2.0 / np.max(np.abs(step / scale)))
        merit = np.sum(target * np.abs(residual)) + error
        for _ in range(12):
            trial = evaluate(loc + step)
            found = np.sum(target * np.abs(trial[0])) + np.max(np.abs(trial[1] - target))
            if found < merit:
                break
            step = step / 2.0
        else:
            break  # as near as the moments can tell
        loc = loc + step
        residual, values, jacobian = trial
    return loc


def _minimize(transform, parameters, target, shift, match):
    """loc that minimises the distance of a smooth mean to `target`, on fixed noise.

    Adam with a falling rate, the whole loop compiled.
    """
    shift, target = tf.constant(shift, tf.float32), tf.constant(target, tf.float32)
    start = tf.clip_by_value(transform.start(target), -8.0, 8.0)

    def gradient(loc, sharpness):
        with tf.GradientTape() as tape:
            tape.watch(loc)
            y = loc + shift
            if match == "discrete":
                # Rounding has no gradient; the softmax of the scores that it compares has,
                # and comes as near as its own temperature, 1 / sharpness, is low.
                points = softmax(sharpness * transform.scores(y, *parameters), -1)
            else:
                points = transform.smoothed(sharpness).forward(y, *parameters)
            mean = tf.reduce_mean(points, 0)
            if match == "discrete":
                loss = -tf.reduce_sum(target * tf.math.log(tf.maximum(mean, 1e-12)))
            else:
                loss = tf.reduce_sum(tf.square(mean - target))
        return tape.gradient(loss, loc)

    def step(index, loc, first, second):
        done = tf.cast(index, tf.float32) / _ADAM_STEPS
        rate = 0.15 * (1.0 + tf.cos(np.pi * done)) + 1e-3
        g = gradient(loc, 3.0 * tf.pow(20.0, tf.minimum(1.5 * done, 1.0)))
        first = 0.9 * first + 0.1 * g
        second = 0.99 * second + 0.01 * tf.square(g)
        count = tf.cast(index + 1, tf.float32)
        unbiased = first / (1.0 - tf.pow(0.9, count))
        spread = tf.sqrt(second / (1.0 - tf.pow(0.99, count)))
        return index + 1, loc - rate * unbiased / (spread + 1e-12), first, second

    @tf.function(jit_compile=True)
    def run():
        state = (0, start, tf.zeros_like(start), tf.zeros_like(start))
        return tf.while_loop(lambda index, *_: index < _ADAM_STEPS, step, state)[1]

    return run().numpy().astype(np.float64)
