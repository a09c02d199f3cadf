"""What floating-point numbers leave of a layer or a distribution."""

import dataclasses
import math
from typing import Any

import numpy as np
import tensorflow as tf

from tfconcrete._checks import check_choice, check_count
from tfconcrete._seeds import as_seed
from tfconcrete._streams import record_laws
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.diagnostics.probes import probe
from tfconcrete.noise.tails import NoiseTail, noise_tail

_DTYPES = ("float16", "bfloat16", "float32", "float64")


@dataclasses.dataclass(frozen=True)
class NumericReport:
    """What `numeric_report` found; `print` it for a table. Shares are in [0, 1].

    Attributes:
        name: The layer or the distribution.
        num_classes: The number of classes, or of binary variables.
        temperature: The temperature, or None.
        dtype: The dtype of parameters, samples and gradients.
        num_samples: How many samples the shares are of.
        non_finite_samples: Share of sample entries that are infinite or NaN.
        non_finite_gradients: The same of the gradients of samples by their parameters; None
            where no gradient passes.
        non_finite_log_probs: Share of log densities, and of the entries of their gradients,
            that are infinite or NaN; None for layers.
        saturated: Share of the probability mass that lies exactly on a state: on a vertex
            of the simplex (in log space on its logarithm), or at a binary level. 1 for
            straight-through samples, whose soft side shows in the gradients. None where it
            is not known which values are states.
        zero_coordinates: Share of class coordinates that are exactly 0 (in log space log 0);
            None for binary variables.
        zero_gradients: Share of gradient entries that are exactly 0; None without gradient.
        dead_samples: Share of samples all of whose gradient is exactly 0.
        noise: A `tfc.noise.NoiseTail` for each law of noise that was drawn; empty where the
            noise is not of this package.
        noise_cut: The chance that one of `num_classes` exact noises would lie outside the
            range that can be drawn; None without `noise`.

    Example:

    >>> print(tfc.diagnostics.numeric_report(tfc.layers.StraightThrough, 8, temperature=1.0))
    StraightThrough, 8 classes at temperature 1 in float32, 1,000 samples
    non-finite samples    0
    non-finite gradients  0
    saturated mass        1
    zero coordinates      0.875
    zero gradients        0
    dead samples          0
    noise                 gumbel from -2.81 to 22.9, beyond 6e-08 and 1.2e-10
    noise cut             4.8e-07
    """

    name: str
    num_classes: int
    temperature: float | None
    dtype: str
    num_samples: int
    non_finite_samples: float
    non_finite_gradients: float | None
    non_finite_log_probs: float | None
    saturated: float | None
    zero_coordinates: float | None
    zero_gradients: float | None
    dead_samples: float | None
    noise: tuple[NoiseTail, ...]

    @property
    def noise_cut(self) -> float | None:
        if not self.noise:
            return None
        return 1.0 - math.prod(1.0 - tail.cut(self.num_classes) for tail in self.noise)

    @property
    def is_finite(self) -> bool:
        """Whether nothing that was looked at is infinite or NaN."""
        return not any(
            (self.non_finite_samples, self.non_finite_gradients, self.non_finite_log_probs)
        )

    @property
    def shares(self) -> dict[str, float]:
        """The shares that are known, by the names of the table."""
        values = {
            "non-finite samples": self.non_finite_samples,
            "non-finite gradients": self.non_finite_gradients,
            "non-finite log probs": self.non_finite_log_probs,
            "saturated mass": self.saturated,
            "zero coordinates": self.zero_coordinates,
            "zero gradients": self.zero_gradients,
            "dead samples": self.dead_samples,
        }
        return {name: value for name, value in values.items() if value is not None}

    @property
    def title(self) -> str:
        """What was looked at, in one line."""
        temperature = "" if self.temperature is None else f" at temperature {self.temperature:g}"
        return f"{self.name}, {self.num_classes} classes{temperature} in {self.dtype}"

    def __str__(self):
        rows = [(name, f"{value:.3g}") for name, value in self.shares.items()]
        for tail in self.noise:
            beyond = f"beyond {tail.below:.2g} and {tail.above:.2g}"
            rows.append(("noise", f"{tail.law} from {tail.low:.3g} to {tail.high:.3g}, {beyond}"))
        if self.noise:
            rows.append(("noise cut", f"{self.noise_cut:.2g}"))
        width = max(len(name) for name, _ in rows)
        lines = [f"{name.ljust(width)}  {value}" for name, value in rows]
        return "\n".join([f"{self.title}, {self.num_samples:,} samples", *lines])


def numeric_report(
    layer_or_distribution: Any,
    num_classes: int,
    temperature: float | None = None,
    dtype: str = "float32",
    params: TensorLike | None = None,
    num_samples: int = 1000,
    seed: Seed = 0,
) -> NumericReport:
    """Draws in a dtype, and counts what is not finite, saturated, or without gradient.

    Low temperatures and half precision do no harm that shows at once: samples sit exactly
    on the vertices, and their gradients are exactly 0. This counts them before training
    does. The gradients are those of one training sample each, for a random incoming
    gradient.

    Args:
        layer_or_distribution: A sampling layer or a TFP distribution, whose other arguments
            are kept, or the class of one. A distribution must have `logits`, or `loc` and
            `scale_diag`. A `DistributionSample` is called on `params`.
        num_classes: The number of classes, or of binary variables.
        temperature: A positive number; None for the layer's or the distribution's own.
        dtype: `"float16"`, `"bfloat16"`, `"float32"` or `"float64"`: what the layer
            computes in (also under a mixed policy), and the dtype of the parameters.
        params: Logits `[num_classes]`, or for Gaussians `[loc, log_scale]`, each
            `[num_classes - 1]`. None for zeros: a uniform choice, standard Gaussians.
        num_samples: How many samples to draw; a share s is measured to
            sqrt(s (1 - s) / num_samples).
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        A `NumericReport`, to print or for `tfc.plots.numeric_reports`.

    Example:

    >>> warm = tfc.diagnostics.numeric_report(tfc.ConcreteSample, 10, 0.5, "float16")
    >>> cold = tfc.diagnostics.numeric_report(tfc.ConcreteSample, 10, 0.01, "float16")
    >>> warm.saturated < 0.05, cold.saturated > 0.9
    (True, True)
    >>> warm.dead_samples < 0.01, cold.dead_samples > 0.8, cold.is_finite
    (True, True, True)
    """
    num_classes = check_count(num_classes, "num_classes", 2)
    num_samples = check_count(num_samples, "num_samples")
    check_choice(dtype, "dtype", _DTYPES)
    subject = probe(layer_or_distribution, num_classes, temperature, dtype, params, num_samples)
    seed = as_seed(seed)
    with record_laws() as laws, tf.GradientTape(persistent=True) as tape:
        tape.watch(subject.params)
        sample, log_prob = subject.draw(subject.params, seed)
    gradients = _gradients(tape, sample, subject.params)
    densities = [] if log_prob is None else [log_prob]
    densities += [] if log_prob is None else _gradients(tape, log_prob, subject.params)
    return NumericReport(
        name=subject.name,
        num_classes=num_classes,
        temperature=subject.temperature,
        dtype=dtype,
        num_samples=num_samples,
        non_finite_samples=_counted([sample], _is_bad),
        non_finite_gradients=_counted(gradients, _is_bad),
        non_finite_log_probs=_counted(densities, _is_bad),
        **_values(subject, _plain(sample)),
        zero_gradients=_counted(gradients, lambda x: x == 0.0),
        dead_samples=_dead(subject, gradients),
        noise=tuple(noise_tail(law) for law in sorted(laws)),
    )


def _plain(tensor):
    return tf.cast(tensor, tf.float64).numpy()


def _share(booleans):
    return float(np.mean(booleans))


def _gradients(tape, target, params):
    """By those parameters that a gradient reaches, for a random incoming one."""
    upstream = np.random.default_rng(0).normal(size=target.shape)
    upstream = tf.cast(tf.constant(upstream), target.dtype)
    gradients = tape.gradient(target, params, output_gradients=upstream)
    return [gradient for gradient in gradients if gradient is not None]


def _is_bad(values):
    return ~np.isfinite(values)


def _counted(tensors, condition):
    """Share of the entries of all tensors that meet a condition, or None without any."""
    if not tensors:
        return None
    return _share(np.concatenate([condition(_plain(x)).ravel() for x in tensors]))


def _values(subject, sample):
    """How much of the sample is saturated or has underflowed."""
    if subject.states is None:
        return {"saturated": None, "zero_coordinates": None}
    off, on = subject.states
    if subject.axis is None:
        return {"saturated": _share((sample == off) | (sample == on)), "zero_coordinates": None}
    num_mass = sample.size // sample.shape[subject.axis] * subject.num_taken
    return {
        "saturated": float(np.sum(sample == on)) / num_mass,
        "zero_coordinates": _share(sample <= off),
    }


def _dead(subject, gradients):
    """Share of variables that no gradient entry reaches."""
    if not gradients:
        return None
    zero = np.stack([_plain(gradient) == 0.0 for gradient in gradients])
    if subject.axis is not None:
        axis = subject.axis + 1 if subject.axis >= 0 else subject.axis
        zero = np.all(zero, axis)
    return _share(np.all(zero, 0))
