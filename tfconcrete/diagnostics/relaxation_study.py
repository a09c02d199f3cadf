"""Vanishing gradients of IGR against Concrete samples (IGR, Appendix A and Figure 4)."""

import collections
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfconcrete._checks import check_count, check_positive
from tfconcrete._seeds import as_seed, fold_in
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.diagnostics.gradient_statistics import gradient_variance, vanishing_gradients
from tfconcrete.relaxations import concrete, igr

RelaxationGradients = collections.namedtuple(
    "RelaxationGradients", ["family", "temperature", "vanishing", "variance", "noise"]
)
RelaxationGradients.__doc__ = """How the gradients of one relaxation behave.

Fields:
    family: `"concrete"` or `"igr"`.
    temperature: The temperature.
    vanishing: Share of the entries of dz/dalpha (Concrete, Eq. 26) or dz/dloc (IGR) that
        are exactly zero in float32.
    variance: Variance of single-sample gradients of a linear objective, averaged over the
        parameters.
    noise: That variance over the mean square of the gradient's expectation, which does
        not depend on the units of the parameters.
"""


def relaxation_gradients(
    family: str,
    temperature: float,
    loc: TensorLike,
    scale_diag: TensorLike | None = None,
    num_samples: int = 10_000,
    seed: Seed = 0,
) -> RelaxationGradients:
    """The gradient statistics of one relaxation at one temperature.

    Args:
        family: `"concrete"`, whose `loc` are log alpha `[K]`, or `"igr"` (softmax++),
            whose `loc` and `scale_diag` are `[K-1]`.
        temperature: positive number.
        loc: float array of parameters, as above.
        scale_diag: positive float array, for `"igr"`; None is 1.
        num_samples: Number of samples.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        A `RelaxationGradients` of floats.

    Example:

    >>> cold = tfc.diagnostics.relaxation_gradients("concrete", 0.1, tf.zeros([10]))
    >>> warm = tfc.diagnostics.relaxation_gradients("concrete", 1.0, tf.zeros([10]))
    >>> cold.vanishing > warm.vanishing
    True
    """
    if family not in ("concrete", "igr"):
        raise ValueError(
            'Invalid value received for argument `family`. Expected one of "concrete", '
            f'"igr". Received: family={family!r}'
        )
    check_positive(temperature, "temperature")
    num_samples = check_count(num_samples, "num_samples", minimum=2)
    seed = as_seed(seed)
    loc = tf.convert_to_tensor(loc, tf.float32)
    log_scale = 0.0 if scale_diag is None else tf.math.log(tf.cast(scale_diag, tf.float32))
    # One copy of the parameters a sample: the gradients come out sample by sample.
    copies = tf.repeat(loc[tf.newaxis], num_samples, 0)
    # alpha itself for Concrete, as in Eq. 26.
    parameters = tf.exp(copies) if family == "concrete" else copies

    with tf.GradientTape(persistent=True) as tape:
        tape.watch(parameters)
        if family == "concrete":
            z = concrete(tf.math.log(parameters), temperature, seed=seed)
        else:
            z = igr(parameters, log_scale, temperature, seed=seed)
        # A linear objective with one weight for each class, from -1 to 1.
        objective = tf.linalg.matvec(z, np.linspace(-1.0, 1.0, z.shape[-1], dtype=np.float32))
    jacobian = tape.batch_jacobian(z, parameters)
    gradient = tape.gradient(objective, parameters)
    if family == "concrete":  # per unit of the logits, the parameters of a network
        gradient *= parameters
    variance = gradient_variance(gradient)
    signal = tf.reduce_mean(tf.square(tf.reduce_mean(gradient, 0)))
    return RelaxationGradients(
        family,
        float(temperature),
        float(vanishing_gradients(jacobian)),
        float(variance),
        float(variance / signal),
    )


def compare_relaxations(
    pairs: Sequence,
    num_classes: int = 10,
    igr_loc: TensorLike | None = None,
    num_samples: int = 10_000,
    seed: Seed = 0,
) -> list:
    """Concrete against IGR of scale 1, near uniform, at paired temperatures (Figure 4).

    Args:
        pairs: A list of pairs `(concrete_temperature, igr_temperature)`.
        num_classes: K.
        igr_loc: float array `[K-1]`, the location of the IGR; None is 0. For a uniform
            one: `tfc.calibration.fit_igr_prior(np.full(K, 1 / K), temperature).loc`.
        num_samples: Number of samples for each.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        A list with one `(concrete, igr)` pair of `RelaxationGradients` for each pair.

    Example:

    >>> [(gs, igr)] = tfc.diagnostics.compare_relaxations([(0.25, 0.1)], num_samples=1000)
    >>> gs.family, igr.family
    ('concrete', 'igr')
    """
    num_classes = check_count(num_classes, "num_classes", minimum=2)
    seed = as_seed(seed)
    loc = tf.zeros([num_classes - 1]) if igr_loc is None else igr_loc
    rows = []
    for concrete_temperature, igr_temperature in pairs:
        rows.append(
            (
                relaxation_gradients(
                    "concrete",
                    concrete_temperature,
                    tf.zeros([num_classes]),
                    num_samples=num_samples,
                    seed=fold_in(seed, 0),
                ),
                relaxation_gradients(
                    "igr",
                    igr_temperature,
                    loc,
                    num_samples=num_samples,
                    seed=fold_in(seed, 1),
                ),
            )
        )
    return rows
