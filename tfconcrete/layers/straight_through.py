"""`StraightThrough`: the plain straight-through estimator."""

import keras
import tensorflow as tf

from tfconcrete._typing import Seed, TensorLike
from tfconcrete.estimators.straight_through import straight_through
from tfconcrete.layers.base import SamplingLayer
from tfconcrete.schedules.schedule import Schedule


@keras.saving.register_keras_serializable(package="tfconcrete")
class StraightThrough(SamplingLayer):
    """A one-hot draw that is differentiated as if it were the probabilities.

    Forward: an exact one-hot draw from softmax(logits).
    Backward: the gradient of softmax(logits / temperature), whatever was drawn.
    Bias: none for linear objectives at temperature 1; first order otherwise.

    Args:
        temperature: A positive number or a schedule; it acts on the gradient only.
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
        Bengio, Leonard & Courville (2013); Fan et al. (2022), Eq. 7.

    Example:

    >>> layer = tfc.layers.StraightThrough(seed=0)
    >>> float(tf.reduce_sum(layer(tf.zeros([1, 4]), training=True)))
    1.0
    """

    def __init__(
        self,
        temperature: TensorLike | Schedule = 1.0,
        axis: int = -1,
        inference: str = "argmax",
        seed: Seed = None,
        **kwargs,
    ) -> None:
        super().__init__(temperature, axis=axis, inference=inference, seed=seed, **kwargs)

    def relax(
        self,
        logits: tf.Tensor,
        temperature: TensorLike,
        class_mask: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        return straight_through(
            logits,
            temperature,
            class_mask=class_mask,
            axis=self.axis,
            seed=seed,
        )
