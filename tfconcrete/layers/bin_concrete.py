"""`BinConcreteSample`: relaxed binary variables, element by element."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import (
    check_flag,
    check_mask,
    invalid_type,
    invalid_value,
    is_number,
)
from tfconcrete._dtypes import working
from tfconcrete._floors import FLOOR
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.estimators.bin_concrete import bin_concrete_straight_through
from tfconcrete.layers.base import SamplingLayer, check_tensor
from tfconcrete.relaxations import bin_concrete, logit_bin_concrete
from tfconcrete.schedules.schedule import Schedule
from tfconcrete.variables import Binary, RelaxedBinary


def _check_levels(levels):
    expected = "two different finite numbers, the values of the states 0 and 1"
    if not isinstance(levels, (tuple, list)) or not all(is_number(level) for level in levels):
        raise invalid_type("levels", expected, levels)
    finite = all(abs(level) < float("inf") for level in levels)
    if len(levels) != 2 or not finite or levels[0] == levels[1]:
        raise invalid_value("levels", expected, levels)
    return tuple(float(level) for level in levels)


@keras.saving.register_keras_serializable(package="tfconcrete")
class BinConcreteSample(SamplingLayer):
    """A Binary Concrete sample, sigmoid((logits + Logistic) / temperature), element-wise.

    Forward: a number between the two levels; with `hard=True` one of them, an exact
    draw of the state 1 with probability sigmoid(logits).
    Backward: the gradient of the relaxed sample in both cases.
    Bias: none for the relaxed objective, which differs from the discrete one; with
    `hard=True` biased.

    Every element is a variable of its own, so there is no class axis: a mask keeps or
    drops whole variables, and a dropped one is exactly 0 whatever the levels.

    Args:
        temperature: A positive number or a schedule.
        hard: Whether the forward value is one of the two levels.
        levels: The values of the states 0 and 1; `(-1, 1)` are the papers' units.
        inference: `"argmax"` (the state 1 where its logit is positive), `"sample"` (an
            exact draw) or `"probs"` (the probability of the state 1, not mapped to the
            levels), the output outside training.
        seed: An int, None, or a `keras.random.SeedGenerator`.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        logits: float tensor of any shape, the log odds of the state 1.
        class_mask: boolean, broadcast against `logits`; True keeps the variable.
        training: Whether to sample relaxed, or as `inference` says.

    Returns:
        Tensor of the shape of `logits`.

    Reference:
        Maddison, Mnih & Teh (2017), Eq. 16 and Appendix B.

    Example:

    >>> layer = tfc.layers.BinConcreteSample(levels=(-1, 1), seed=0)
    >>> layer(tf.constant([[2.0, -1.0]])).numpy()
    array([[ 1., -1.]], dtype=float32)
    """

    def __init__(
        self,
        temperature: TensorLike | Schedule = 2 / 3,
        hard: bool = False,
        levels: Sequence[float] = (0, 1),
        inference: str = "argmax",
        seed: Seed = None,
        **kwargs,
    ) -> None:
        if "axis" in kwargs:
            raise ValueError(
                "Unrecognized keyword argument `axis`: a BinConcreteSample works on "
                f"each element by itself. Received: axis={kwargs['axis']}"
            )
        super().__init__(temperature, inference=inference, seed=seed, **kwargs)
        self.hard = check_flag(hard, "hard")
        self.levels = _check_levels(levels)

    @property
    def variable(self) -> Binary:
        return (Binary if self.hard else RelaxedBinary)(levels=self.levels)

    def relax(
        self,
        logits: tf.Tensor,
        temperature: TensorLike,
        class_mask: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        sample = bin_concrete_straight_through if self.hard else bin_concrete
        # The mask comes after the levels: a masked element is 0 even where 0 is neither.
        state = sample(working(logits), temperature, seed=seed)
        return tf.cast(self.variable.to_levels(state), logits.dtype)

    def relax_node(
        self,
        logits: tf.Tensor,
        temperature: TensorLike,
        class_mask: TensorLike | None = None,
        seed: Seed = None,
    ) -> Any:
        if self.hard:
            return self.relax(logits, temperature, class_mask=class_mask, seed=seed)
        if not self.has_hook_of(BinConcreteSample):
            # A subclass relaxes in its own way: its sample is all that is known.
            sample = self.relax(logits, temperature, class_mask=class_mask, seed=seed)
            state = self.variable.from_levels(working(sample))
            upper, lower = (tf.maximum(part, FLOOR) for part in (state, 1.0 - state))
            return tf.math.log(upper) - tf.math.log(lower)
        return logit_bin_concrete(logits, temperature, seed=seed)

    def _check_shape(self, logits_shape):
        """Any shape will do."""
        return

    def _check_inputs(self, logits, class_mask):
        check_tensor(logits, "logits")
        if class_mask is not None:
            check_mask(class_mask, logits.shape, axis=None)

    def get_config(self) -> dict[str, Any]:
        config = {**super().get_config(), "hard": self.hard, "levels": self.levels}
        config.pop("axis")
        return config
