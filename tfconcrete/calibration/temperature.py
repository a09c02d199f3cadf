"""Which temperature: one that brings samples to the vertices, or what the papers advise."""

import collections
import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfconcrete._checks import (
    check_count,
    check_number,
    check_positive,
    invalid_type,
    invalid_value,
)
from tfconcrete._seeds import as_seed
from tfconcrete._typing import Seed
from tfconcrete.calibration.vertices import vertex_distance

SuggestedTemperature = collections.namedtuple(
    "SuggestedTemperature", ["posterior", "prior", "bound"]
)
SuggestedTemperature.__doc__ = """Temperatures to start from.

Fields:
    posterior: The temperature of the relaxed variable itself.
    prior: The temperature of its prior, where the objective has one.
    bound: 1 / (K - 1), at or below which no density has a mode inside the simplex.
"""

# Concrete, Appendix D.5: number of classes, posterior, prior.
_TUNED = ((2, 2 / 3, 1 / 2), (4, 1.0, 2 / 3), (8, 2 / 3, 2 / 5))


def suggest_temperature(num_classes: int) -> SuggestedTemperature:
    """The temperatures that the Concrete paper found best for that many classes.

    They are for Concrete variables with a relaxed prior, and a place to start: 2, 4 and 8
    classes were tuned (Appendix D.5), others get the values of the nearest size above, or
    of 8. The bound 1 / (K - 1) of Proposition 1 (d) is given beside them: at or below it
    no sample distribution can hide its information inside the simplex, but the paper
    found much higher temperatures necessary for more than two classes (Appendix C.4).

    Args:
        num_classes: K, at least 2.

    Returns:
        A named tuple `(posterior, prior, bound)`.

    Example:

    >>> tfc.calibration.suggest_temperature(4)
    SuggestedTemperature(posterior=1.0, prior=0.6666666666666666, bound=0.3333333333333333)
    """
    num_classes = check_count(num_classes, "num_classes", minimum=2)
    tuned = [row for row in _TUNED if num_classes <= row[0]] or _TUNED[-1:]
    _, posterior, prior = tuned[0]
    return SuggestedTemperature(posterior, prior, 1.0 / (num_classes - 1))


def calibrate_temperature(
    make_distribution: Callable,
    distance: float = 0.2,
    share: float = 0.75,
    inputs: Any = None,
    num_samples: int = 50_000,
    bounds: tuple[float, float] = (1e-3, 10.0),
    seed: Seed = 0,
) -> float:
    """The temperature at which `share` of the samples are within `distance` of a vertex.

    Relaxations become comparable at temperatures found this way, which are not the same
    for different families (IGR, Section 5 and Appendix F). Found by bisection on a fixed
    noise, so that the result is reproducible and the search has no noise of its own.

    Args:
        make_distribution: One of
            - a callable from a temperature to a distribution (or directly to a tensor of
              samples `[..., K]`);
            - a distribution, whose `copy(temperature=...)` is tried;
            - a sampling layer, with `inputs`. The layer keeps its temperature and seed.
        distance: Euclidean distance to the nearest vertex.
        share: What part of the samples should be that near.
        inputs: For a layer, what it is called on.
        num_samples: Number of samples for each temperature that is tried, over the whole
            batch of a distribution or layer. At the default the result is good to about
            one part in a hundred.
        bounds: The temperatures to search between.
        seed: An int or an int32 `[2]` tensor.

    Returns:
        A float.

    Example:

    >>> t = tfc.calibration.calibrate_temperature(
    ...     lambda t: tfc.distributions.Concrete(t, logits=tf.zeros([10])))
    >>> round(t, 2)
    0.16
    """
    check_positive(distance, "distance")
    share = check_number(share, "share", "a number in (0, 1)")
    if not 0.0 < share < 1.0:
        raise invalid_value("share", "a number in (0, 1)", share)
    check_count(num_samples, "num_samples")
    low, high = bounds
    if not 0.0 < low < high < math.inf:
        raise invalid_value("bounds", "two positive numbers, the smaller first", bounds)
    draw = _sampler(make_distribution, inputs, num_samples, as_seed(seed))

    def near(temperature):
        distances = vertex_distance(draw(temperature))
        return float(tf.reduce_mean(tf.cast(distances <= distance, tf.float64)))

    # Up from below: some families have an upper limit of their own (1 for the
    # interpolation), which a search that starts low need not touch.
    if near(low) < share:
        raise _unreachable(bounds, distance, share, "already fewer at the lower bound")
    upper = min(max(10.0 * low, 0.1), high)
    while near(upper) >= share:
        if upper >= high:
            raise _unreachable(bounds, distance, share, "still more at the upper bound")
        low, upper = upper, min(2.0 * upper, high)
    log_low, log_high = math.log(low), math.log(upper)
    while log_high - log_low > 1e-4:
        middle = 0.5 * (log_low + log_high)
        if near(math.exp(middle)) >= share:
            log_low = middle
        else:
            log_high = middle
    return math.exp(0.5 * (log_low + log_high))


def _unreachable(bounds, distance, share, why):
    return ValueError(
        f"No temperature in {tuple(bounds)} brings a share of {share} of the samples within "
        f"{distance} of a vertex: {why}. Widen `bounds`, or change `distance` or `share`."
    )


def _sampler(make_distribution, inputs, num_samples, seed):
    """A function from a temperature to simplex samples with the same noise every time."""
    if hasattr(make_distribution, "variable"):
        return _layer_sampler(make_distribution, inputs, num_samples, seed)
    if inputs is not None:
        raise invalid_value("inputs", "None, unless a sampling layer is calibrated", inputs)
    if isinstance(make_distribution, tfd.Distribution):
        distribution = make_distribution

        def make(temperature):
            return distribution.copy(temperature=temperature)

    elif callable(make_distribution) and not isinstance(make_distribution, keras.Layer):
        make = make_distribution
    else:
        raise invalid_type(
            "make_distribution",
            "a callable from a temperature to a distribution, a distribution, or a sampling layer",
            make_distribution,
        )

    def draw(temperature):
        made = make(temperature)
        if not isinstance(made, tfd.Distribution):
            return tf.convert_to_tensor(made)
        batch = max(made.batch_shape.num_elements() or 1, 1)
        return _on_simplex(made, made.sample(-(-num_samples // batch), seed=seed))

    return draw


def _layer_sampler(layer, inputs, num_samples, seed):
    if inputs is None:
        raise invalid_value("inputs", "what the layer is called on", inputs)
    inputs = tf.nest.map_structure(tf.convert_to_tensor, inputs)
    first = tf.nest.flatten(inputs)[0]
    copies = -(-num_samples // max(first.shape.num_elements() // first.shape[layer.axis], 1))
    # Copies along a new axis: at the end where classes are counted from the front.
    axis = layer.axis
    new = 0 if axis < 0 else -1
    repeated = tf.nest.map_structure(
        lambda x: tf.repeat(tf.expand_dims(x, new), copies, new), inputs
    )

    def draw(temperature):
        # The hook behind the training output: neither weight nor seed of the layer move.
        sample = layer.relax(repeated, tf.constant(temperature), seed=seed)
        return layer.variable.on_simplex(layer.from_output(sample))

    return draw


def _on_simplex(distribution, sample):
    """Samples of the families that live elsewhere, as points of the simplex."""
    space = getattr(distribution, "event_space", "simplex")
    if space == "log":
        return tf.exp(sample)
    if space == "logit":
        sample = tf.sigmoid(sample)
    if distribution.event_shape.rank == 0:
        return tf.stack([sample, 1.0 - sample], -1)
    return sample
