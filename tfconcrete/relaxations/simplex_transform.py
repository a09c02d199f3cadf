"""What a map from R^(K-1) onto the simplex of K classes is, for everything that uses one."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfconcrete._checks import check_positive, check_temperature, invalid_value, static_value
from tfconcrete._floors import FLOOR, clip
from tfconcrete._softmax import softmax
from tfconcrete._typing import TensorLike
from tfconcrete.relaxations.masking import prepare_logits, zero_masked


class SimplexTransform:
    """g(y, temperature), a map from R^(K-1) onto the simplex of K classes (IGR, Eq. 17).

    The base of the transforms behind `igr`, `tfc.distributions.IGR` and the bijectors, and
    of one's own: any instance may be given wherever those take a `transform`. `forward` is
    enough for samples, with `scores` for rounding; `inverse` and the two log determinants
    are for densities. All are pure, classes last: `y [..., K-1]` and `z [..., K]` of one
    dtype (float32 or float64), `temperature` and `delta` broadcasting against `y[..., :1]`,
    `mask` a boolean tensor `[..., K]` or None, True for the classes to keep. A masked
    coordinate of `y` is finite but means nothing: no result may depend on it.

    Attributes:
        name: What a configuration calls the transform, or None.
        max_temperature: The largest temperature at which the image is on the simplex.
        has_exact_probs: Whether `probs` is there.

    Example:

    >>> transform = tfc.relaxations.get_transform("interpolation")
    >>> transform.name, transform.max_temperature, transform.has_exact_probs
    ('interpolation', 1.0, False)
    >>> transform.forward(tf.zeros([2]), temperature=0.5).numpy()
    array([0.75 , 0.125, 0.125], dtype=float32)
    """

    name: str | None = None
    max_temperature = math.inf
    has_exact_probs = False

    def check(self, temperature: TensorLike, delta: TensorLike = 1.0) -> None:
        """Raises where the temperature or delta, as far as known now, is out of range."""
        check_temperature(temperature)
        check_positive(delta, "delta")
        known = static_value(temperature)
        if known is not None and np.any(known.astype(np.float64) > self.max_temperature):
            raise invalid_value(
                "temperature",
                f"a number in (0, {self.max_temperature:g}] for the {self.name}",
                temperature,
            )

    def check_num_free(self, num_free: int) -> None:
        """Raises where the transform is not for vectors of `num_free` numbers."""
        return

    def parameters(self, num_free: int) -> tuple[str, ...]:
        """Which of `"temperature"` and `"delta"` the image depends on."""
        return ("temperature", "delta")

    def remainder_wins(self, delta: TensorLike) -> bool:
        """Whether the last class can be the largest."""
        return True

    def truncation(self, y: tf.Tensor, mask: tf.Tensor | None = None) -> tuple | None:
        """The `Truncation` of a sample, or None where samples keep all their classes."""
        return None

    def forward(
        self,
        y: TensorLike,
        temperature: TensorLike,
        delta: TensorLike = 1.0,
        mask: TensorLike | None = None,
    ) -> tf.Tensor:
        """g(y, temperature) `[..., K]`; masked classes are 0, as is a row without classes."""
        raise NotImplementedError(f"{type(self).__name__} has no `forward`.")

    def scores(
        self,
        y: TensorLike,
        temperature: TensorLike,
        delta: TensorLike = 1.0,
        mask: TensorLike | None = None,
    ) -> tf.Tensor:
        """What rounding compares, `[..., K]`; masked classes are -inf."""
        return mask_scores(floored_log(self.forward(y, temperature, delta, mask)), mask)

    def smoothed(self, sharpness: TensorLike) -> "SimplexTransform":
        """This transform with its jumps, if it has any, made slopes."""
        return self

    def start(self, probs: tf.Tensor) -> tf.Tensor:
        """A y, `[..., K-1]`, from which to search for one that rounds as `probs [..., K]`."""
        return tf.math.log(probs[..., :-1]) - tf.math.log(probs[..., -1:])

    def probs(
        self,
        loc: TensorLike,
        scale: TensorLike,
        temperature: TensorLike,
        delta: TensorLike = 1.0,
        mask: TensorLike | None = None,
    ) -> tf.Tensor:
        """The exact probability of each class to be the largest, y ~ Normal(loc, scale)."""
        raise NotImplementedError(f"{type(self).__name__} has no exact probabilities.")

    def forward_log_det(
        self, y: TensorLike, temperature: TensorLike, delta: TensorLike = 1.0
    ) -> Any:
        """log |dz/dy| over the first K-1 coordinates of z, at y; `[...]`."""
        raise NotImplementedError(f"{type(self).__name__} has no densities.")

    def inverse(self, z: tf.Tensor, temperature: TensorLike, delta: TensorLike = 1.0) -> tf.Tensor:
        """The y behind z, `[..., K-1]`."""
        raise NotImplementedError(f"{type(self).__name__} has no inverse.")

    def inverse_log_det(
        self, z: TensorLike, temperature: TensorLike, delta: TensorLike = 1.0
    ) -> tf.Tensor:
        """log |dy/dz|, at z; -inf outside the image. `[...]`."""
        raise NotImplementedError(f"{type(self).__name__} has no densities.")

    def sample_log_prob(
        self, y: TensorLike, log_prob: TensorLike, temperature: TensorLike, delta: TensorLike = 1.0
    ) -> tf.Tensor:
        """The log density of z at g(y), from that of each coordinate of y; `[...]`."""
        log_det = self.forward_log_det(y, temperature, delta)
        return tf.reduce_sum(log_prob, -1) - log_det

    def log_prob(
        self, z: TensorLike, log_prob_of: Callable, temperature: TensorLike, delta: TensorLike = 1.0
    ) -> tf.Tensor:
        """The log density of z; `log_prob_of(y)` is that of each coordinate of y."""
        log_prob = log_prob_of(self.inverse(z, temperature, delta))
        return tf.reduce_sum(log_prob, -1) + self.inverse_log_det(z, temperature, delta)

    def get_config(self) -> dict[str, Any]:
        """The keyword arguments that make an equal transform."""
        return {}

    def __eq__(self, other):
        return type(self) is type(other) and self.get_config() == other.get_config()

    def __hash__(self):
        return hash((type(self), tuple(sorted(self.get_config().items()))))


def mask_scores(scores, mask):
    """Scores of which no masked class can be the largest, whatever those of the others."""
    if mask is None:
        return scores
    kept = clip(scores, scores.dtype.min, scores.dtype.max)
    return tf.where(mask, kept, tf.cast(-math.inf, scores.dtype))


def free_classes(mask):
    """The mask of the K-1 coordinates, without the remainder."""
    return None if mask is None else mask[..., :-1]


def on_kept_classes(log_z, mask):
    """The simplex point of logarithm `log_z`, its mass shared out to the kept classes."""
    if mask is None:
        return tf.exp(log_z)
    return zero_masked(softmax(prepare_logits(log_z, mask)[0], -1), mask)


def floored_log(z):
    """log z, which a sample has lost below 1e-30."""
    return tf.math.log(tf.maximum(z, FLOOR))
