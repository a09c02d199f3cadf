"""`ReinMax`: a straight-through estimator of second order."""

import keras
import tensorflow as tf

from tfconcrete._typing import Seed, TensorLike
from tfconcrete.estimators.reinmax import reinmax
from tfconcrete.layers.base import SamplingLayer
from tfconcrete.schedules.schedule import Schedule


@keras.saving.register_keras_serializable(package="tfconcrete")
class ReinMax(SamplingLayer):
    """A one-hot draw whose gradient follows Heun's method, of second order.

    Forward: D, an exact one-hot draw from p = softmax(logits).
    Backward: 2 J(q) - J(p) / 2 applied to the incoming gradient, where
    q = (D + softmax(logits / temperature)) / 2 and J(q) = diag(q) - q q^T.
    Bias: none for objectives up to quadratic at temperature 1; second order otherwise.

    Args:
        temperature: A positive number or a schedule; at least 1 is best.
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
        Liu, Dong, Liu, Yu & Gao (2023), "Bridging Discrete and Backpropagation".

    Example:

    >>> layer = tfc.layers.ReinMax(seed=0)
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
        return reinmax(
            logits,
            temperature,
            class_mask=class_mask,
            axis=self.axis,
            seed=seed,
        )
