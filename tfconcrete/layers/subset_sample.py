"""`SubsetSample`: exactly k of n classes."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import check_choice, check_flag
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.estimators.k_subset import (
    straight_through_gumbel_top_k,
    straight_through_k_subset,
)
from tfconcrete.layers.base import SamplingLayer
from tfconcrete.relaxations.k_subset import relaxed_k_subset
from tfconcrete.relaxations.subset_rows import check_subset_size
from tfconcrete.relaxations.top_k import relaxed_top_k
from tfconcrete.schedules.schedule import Schedule
from tfconcrete.variables import KSubset


def _exact(logits, k, temperature, **kwargs):
    """The exact estimator, which has no temperature."""
    return straight_through_k_subset(logits, k, **kwargs)


_SAMPLERS: dict[tuple[str, bool], Callable] = {
    ("exact", True): _exact,
    ("exact", False): relaxed_k_subset,
    ("gumbel", True): straight_through_gumbel_top_k,
    ("gumbel", False): relaxed_top_k,
}


@keras.saving.register_keras_serializable(package="tfconcrete")
class SubsetSample(SamplingLayer):
    """Exactly k of n classes, k-hot, with p(z) proportional to exp(z . logits).

    Forward, by `estimator`:
    `"exact"`: a draw from that law. Backward: the gradient of its exact marginals (SIMPLE),
    which does not depend on the temperature. Bias: none for linear objectives.
    `"gumbel"`: the k largest of logits + Gumbel, classes drawn one after another without
    replacement (for k > 1 a slightly flatter law). Backward: the gradient of Xie & Ermon's
    relaxed top-k at the layer's temperature. Bias: falls with the temperature, while the
    variance grows.

    With `hard=False` the forward value is the relaxed sample of either: the exact marginals
    of (logits + Gumbel) / temperature, or the relaxed top-k. Both sum to k.

    Outside training exactly k ones: the k largest logits, or an exact draw, or with
    `inference="probs"` the marginals. The codes are `[..., k]`, the largest logit first.
    Where a mask keeps fewer than k classes all of them are taken, and the codes end in -1.

    Args:
        k: A whole number from 1 to `num_classes - 1`.
        temperature: A positive number or a schedule.
        estimator: `"exact"` or `"gumbel"`.
        hard: Whether the forward value is k-hot.
        axis: The class axis of the logits.
        inference: `"argmax"`, `"sample"` or `"probs"`, the output outside training.
        seed: An int, None, or a `keras.random.SeedGenerator`.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        training: Whether to draw a training sample, or as `inference` says.

    Returns:
        Tensor of the shape of `logits`.

    Reference:
        Ahmed, Zeng, Niepert & Van den Broeck (2023), "SIMPLE"; Xie & Ermon (2019),
        "Reparameterizable Subset Sampling via Continuous Relaxations".

    Example:

    >>> layer = tfc.layers.SubsetSample(k=2, seed=0)
    >>> logits = tf.constant([[1.0, 2.0, 0.0, 3.0]])
    >>> layer(logits).numpy()
    array([[0., 1., 0., 1.]], dtype=float32)
    >>> float(tf.reduce_sum(layer(logits, training=True)))
    2.0
    """

    def __init__(
        self,
        k: int,
        temperature: TensorLike | Schedule = 0.5,
        estimator: str = "exact",
        hard: bool = True,
        axis: int = -1,
        inference: str = "argmax",
        seed: Seed = None,
        **kwargs,
    ) -> None:
        super().__init__(temperature, axis=axis, inference=inference, seed=seed, **kwargs)
        self.k = check_subset_size(k)
        self.estimator = check_choice(estimator, "estimator", ("exact", "gumbel"))
        self.hard = check_flag(hard, "hard")

    @property
    def variable(self) -> KSubset:
        return KSubset(self._num_states, self.axis, self.k)

    def relax(
        self,
        logits: tf.Tensor,
        temperature: TensorLike,
        class_mask: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        sample = _SAMPLERS[self.estimator, self.hard]
        return sample(
            logits,
            self.k,
            temperature=temperature,
            class_mask=class_mask,
            axis=self.axis,
            seed=seed,
        )

    def _check_shape(self, logits_shape):
        super()._check_shape(logits_shape)
        check_subset_size(self.k, logits_shape[self.axis])

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "k": self.k,
            "estimator": self.estimator,
            "hard": self.hard,
        }
