"""`GapStraightThrough`: the Gapped Straight-Through estimator (GST)."""

from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import check_flag
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.estimators.gapped import check_gap, gapped_straight_through
from tfconcrete.layers.base import SamplingLayer
from tfconcrete.schedules.schedule import Schedule


@keras.saving.register_keras_serializable(package="tfconcrete")
class GapStraightThrough(SamplingLayer):
    """A one-hot draw, differentiated through logits that were moved to favour it (GST).

    Forward: an exact one-hot draw from softmax(logits); with `hard=False` the soft
    sample below.
    Backward: the gradient of softmax((logits + m1 - m2) / temperature), where the
    constants m1 and m2 put the drawn class on top and the others at least `gap` below.
    Bias: not zero at any temperature. Nothing but the draw is random, so the variance is
    low without resampling.

    Args:
        temperature: A positive number or a schedule.
        gap: A non-negative number, or "pi" for the gap that Gumbel noise leaves in the mean
            (Lemma 1).
        hard: Whether the forward value is one-hot.
        axis: The class axis of the logits.
        inference: `"argmax"`, `"sample"` or `"probs"`, the output outside training.
        seed: An int, None, or a `keras.random.SeedGenerator`.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        training: Whether to draw a straight-through sample, or as `inference` says.

    Returns:
        Tensor of the shape of `logits`.

    Reference:
        Fan, Chi, Rudnicky & Ramadge (2022), Eq. 15-19, Algorithm 1.

    Example:

    >>> layer = tfc.GapStraightThrough(temperature=0.5, gap=1.0, seed=0)
    >>> float(tf.reduce_sum(layer(tf.zeros([1, 4]), training=True)))
    1.0
    """

    def __init__(
        self,
        temperature: TensorLike | Schedule = 0.5,
        gap: float | str = 1.0,
        hard: bool = True,
        axis: int = -1,
        inference: str = "argmax",
        seed: Seed = None,
        **kwargs,
    ) -> None:
        super().__init__(temperature, axis=axis, inference=inference, seed=seed, **kwargs)
        self.gap = check_gap(gap)
        self.hard = check_flag(hard, "hard")

    def relax(
        self,
        logits: tf.Tensor,
        temperature: TensorLike,
        class_mask: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        return gapped_straight_through(
            logits,
            temperature,
            gap=self.gap,
            hard=self.hard,
            class_mask=class_mask,
            axis=self.axis,
            seed=seed,
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "gap": self.gap, "hard": self.hard}
