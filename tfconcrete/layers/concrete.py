"""`ConcreteSample` and `ExpConcreteSample`: Gumbel-Softmax samples and their logarithms."""

from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import check_flag
from tfconcrete._dtypes import working
from tfconcrete._floors import FLOOR, log_floor
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.estimators.gumbel_softmax import straight_through_gumbel_softmax
from tfconcrete.layers.base import SamplingLayer
from tfconcrete.relaxations import concrete, exp_concrete
from tfconcrete.relaxations.masking import prepare_logits
from tfconcrete.schedules.schedule import Schedule
from tfconcrete.variables import Categorical, RelaxedCategorical
from tfconcrete.variables.base import Variable


@keras.saving.register_keras_serializable(package="tfconcrete")
class ConcreteSample(SamplingLayer):
    """A Concrete (Gumbel-Softmax) sample, softmax((logits + Gumbel) / temperature).

    Forward: a point of the simplex, near a vertex at low temperatures; with `hard=True`
    the one-hot vector of its largest entry, an exact draw from softmax(logits).
    Backward: the gradient of the relaxed sample in both cases (with `hard=True` this is
    Straight-Through Gumbel-Softmax).
    Bias: none for the relaxed objective, which differs from the discrete one; with
    `hard=True` biased, more so at high temperatures, while the variance grows as the
    temperature falls.

    Args:
        temperature: A positive number or a schedule.
        hard: Whether the forward value is one-hot.
        axis: The class axis of the logits.
        inference: `"argmax"`, `"sample"` or `"probs"`, the output outside training.
        seed: An int, None, or a `keras.random.SeedGenerator`.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        training: Whether to sample relaxed, or as `inference` says.

    Returns:
        Tensor of the shape of `logits`.

    Reference:
        Maddison, Mnih & Teh (2017), Eq. 10; Jang, Gu & Poole (2017); `hard=True`: Fan et
        al. (2022), Eq. 10.

    Example:

    >>> layer = tfc.ConcreteSample(temperature=0.5, seed=0)
    >>> logits = tf.constant([[1.0, 2.0, 0.0]])
    >>> layer(logits).numpy()
    array([[0., 1., 0.]], dtype=float32)
    >>> float(tf.reduce_sum(layer(logits, training=True)).numpy().round(5))
    1.0
    """

    def __init__(
        self,
        temperature: TensorLike | Schedule = 2 / 3,
        hard: bool = False,
        axis: int = -1,
        inference: str = "argmax",
        seed: Seed = None,
        **kwargs,
    ) -> None:
        super().__init__(temperature, axis=axis, inference=inference, seed=seed, **kwargs)
        self.hard = check_flag(hard, "hard")

    @property
    def variable(self) -> Variable:
        family = Categorical if self.hard else RelaxedCategorical
        return family(self._num_states, self.axis)

    def relax(
        self,
        logits: tf.Tensor,
        temperature: TensorLike,
        class_mask: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        sample = straight_through_gumbel_softmax if self.hard else concrete
        return sample(logits, temperature, class_mask=class_mask, axis=self.axis, seed=seed)

    def relax_node(
        self,
        logits: tf.Tensor,
        temperature: TensorLike,
        class_mask: TensorLike | None = None,
        seed: Seed = None,
    ) -> Any:
        if self.hard:
            return self.relax(logits, temperature, class_mask=class_mask, seed=seed)
        if not self.has_hook_of(ConcreteSample):
            # A subclass relaxes in its own way: its sample is all that is known.
            sample = self.relax(logits, temperature, class_mask=class_mask, seed=seed)
            return tf.math.log(tf.maximum(working(sample), FLOOR))
        return exp_concrete(logits, temperature, class_mask=class_mask, axis=self.axis, seed=seed)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "hard": self.hard}


@keras.saving.register_keras_serializable(package="tfconcrete")
class ExpConcreteSample(SamplingLayer):
    """The logarithm of a Concrete sample, which keeps what underflows on the simplex.

    Forward: log softmax((logits + Gumbel) / temperature).
    Backward: its gradient.
    Bias: none for the relaxed objective, which differs from the discrete one.

    Outside training the output is a logarithm too: that of a one-hot vector (0 for the
    class, and for the others a finite number so negative that its `exp` is exactly 0),
    or with `inference="probs"` of the class probabilities.

    Args:
        temperature: A positive number or a schedule.
        axis: The class axis of the logits.
        inference: `"argmax"`, `"sample"` or `"probs"`, the output outside training.
        seed: An int, None, or a `keras.random.SeedGenerator`.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        training: Whether to sample relaxed, or as `inference` says.

    Returns:
        Tensor of the shape of `logits`; its `exp` lies on the simplex, and is exactly 0
        for a masked class.

    Reference:
        Maddison, Mnih & Teh (2017), Appendix C.3.

    Example:

    >>> layer = tfc.ExpConcreteSample(temperature=0.1, seed=0)
    >>> tf.exp(layer(tf.constant([[1.0, 2.0, 0.0]]))).numpy()
    array([[0., 1., 0.]], dtype=float32)
    """

    def __init__(
        self,
        temperature: TensorLike | Schedule = 2 / 3,
        axis: int = -1,
        inference: str = "argmax",
        seed: Seed = None,
        **kwargs,
    ) -> None:
        super().__init__(temperature, axis=axis, inference=inference, seed=seed, **kwargs)

    @property
    def variable(self) -> Variable:
        return RelaxedCategorical(self._num_states, self.axis)

    def relax(
        self,
        logits: tf.Tensor,
        temperature: TensorLike,
        class_mask: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        return exp_concrete(logits, temperature, class_mask=class_mask, axis=self.axis, seed=seed)

    def to_output(self, state: tf.Tensor) -> tf.Tensor:
        """The logarithm of a state: 0, or a finite number whose `exp` is exactly 0."""
        floor = tf.cast(log_floor(state.dtype), state.dtype)
        log_one = tf.where(tf.math.is_nan(state), state, tf.zeros_like(state))
        return tf.where(state == 0.0, floor, log_one)

    def from_output(self, output: tf.Tensor) -> tf.Tensor:
        return tf.exp(output)

    def _drop_masked(self, output, class_mask):
        if class_mask is None:
            return output
        return tf.where(class_mask, output, tf.cast(log_floor(output.dtype), output.dtype))

    def _drawn(self, mode, logits, class_mask):
        if mode == "sample":
            return super()._drawn(mode, logits, class_mask)
        prepared, mask = prepare_logits(logits, class_mask, self.axis)
        floor = tf.cast(log_floor(logits.dtype), prepared.dtype)
        log_probs = tf.maximum(tf.nn.log_softmax(prepared, axis=self.axis), floor)
        log_probs = log_probs if mask is None else tf.where(mask, log_probs, floor)
        return tf.cast(log_probs, logits.dtype)
