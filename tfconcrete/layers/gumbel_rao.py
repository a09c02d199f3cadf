"""`GumbelRao`: straight-through Gumbel-Softmax, averaged over the noise given the draw."""

from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import check_count
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.estimators.gumbel_rao import gumbel_rao
from tfconcrete.layers.base import SamplingLayer
from tfconcrete.schedules.schedule import Schedule


@keras.saving.register_keras_serializable(package="tfconcrete")
class GumbelRao(SamplingLayer):
    """A one-hot draw with the Gumbel-Softmax gradient averaged over noises that draw it.

    Forward: D, an exact one-hot draw from softmax(logits).
    Backward: the mean, over `num_samples` Gumbel noises conditioned on D, of the gradient
    of softmax((logits + noise) / temperature) (GR-MCK).
    Bias: that of `ConcreteSample(hard=True)`, with less variance. The noises are drawn in
    the backward pass only, in chunks.

    Args:
        temperature: A positive number or a schedule.
        num_samples: How many conditional noises to average, K of GR-MCK.
        axis: The class axis of the logits.
        inference: `"argmax"`, `"sample"` or `"probs"`, the output outside training.
        seed: An int, None, or a `keras.random.SeedGenerator`.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        training: Whether to draw a straight-through sample, or as `inference` says.

    Returns:
        Tensor of the shape of `logits`, one-hot.

    Reference:
        Paulus, Maddison & Krause (2021); Fan et al. (2022), Eq. 11.

    Example:

    >>> layer = tfc.layers.GumbelRao(num_samples=10, seed=0)
    >>> float(tf.reduce_sum(layer(tf.zeros([1, 4]), training=True)))
    1.0
    """

    def __init__(
        self,
        temperature: TensorLike | Schedule = 1.0,
        num_samples: int = 100,
        axis: int = -1,
        inference: str = "argmax",
        seed: Seed = None,
        **kwargs,
    ) -> None:
        super().__init__(temperature, axis=axis, inference=inference, seed=seed, **kwargs)
        self.num_samples = check_count(num_samples, "num_samples")

    def relax(
        self,
        logits: tf.Tensor,
        temperature: TensorLike,
        class_mask: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        return gumbel_rao(
            logits,
            temperature,
            num_samples=self.num_samples,
            class_mask=class_mask,
            axis=self.axis,
            seed=seed,
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_samples": self.num_samples}
