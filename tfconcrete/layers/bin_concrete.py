"""`BinConcreteSample`: relaxed binary variables, element by element."""

import keras
import tensorflow as tf

from tfconcrete._checks import (
    check_flag,
    check_floating,
    check_mask,
    invalid_type,
    invalid_value,
    is_number,
)
from tfconcrete.estimators.bin_concrete import bin_concrete_straight_through
from tfconcrete.layers.base import SamplingLayer
from tfconcrete.noise import logistic
from tfconcrete.relaxations import bin_concrete
from tfconcrete.relaxations.bin_concrete import prepare_binary_logits
from tfconcrete.relaxations.masking import zero_masked


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
        temperature=2 / 3,
        hard=False,
        levels=(0, 1),
        inference="argmax",
        seed=None,
        **kwargs,
    ):
        if "axis" in kwargs:
            raise ValueError(
                "Unrecognized keyword argument `axis`: a BinConcreteSample works on "
                f"each element by itself. Received: axis={kwargs['axis']}"
            )
        super().__init__(temperature, inference=inference, seed=seed, **kwargs)
        self.hard = check_flag(hard, "hard")
        self.levels = _check_levels(levels)

    @property
    def kl_options(self):
        return ("analytic", "mass") if self.hard else ("density", "mass", "analytic")

    def _relax(self, logits, temperature, class_mask, seed):
        sample = bin_concrete_straight_through if self.hard else bin_concrete
        # The mask comes after the levels: a masked element is 0 even where 0 is neither.
        working, mask = prepare_binary_logits(logits, class_mask)
        return self._to_levels(sample(working, temperature, seed=seed), mask, logits.dtype)

    def _argmax(self, logits, class_mask):
        working, mask = prepare_binary_logits(logits, class_mask)
        state = tf.cast(working > 0.0, working.dtype)
        return self._to_levels(state, mask, logits.dtype)

    def _draw(self, logits, class_mask, seed):
        working, mask = prepare_binary_logits(logits, class_mask)
        noise = tf.cast(logistic(tf.shape(working), seed), working.dtype)
        state = tf.cast(tf.stop_gradient(working + noise) > 0.0, working.dtype)
        return self._to_levels(state, mask, logits.dtype)

    def _probs(self, logits, class_mask):
        working, mask = prepare_binary_logits(logits, class_mask)
        return tf.cast(zero_masked(tf.sigmoid(working), mask), logits.dtype)

    def _codes(self, sample):
        """int32 states, 0 or 1, of the shape of `sample`: the nearer level; masked is 0."""
        low, high = self.levels
        upper = tf.abs(sample - high) < tf.abs(sample - low)
        if 0.0 not in self.levels:
            upper &= sample != 0.0
        return tf.cast(upper, tf.int32)

    def _num_classes(self, sample):
        return 2

    def _to_levels(self, state, mask, dtype):
        """0 and 1 to the two levels, both exactly; masked elements to 0."""
        low, high = self.levels
        return tf.cast(zero_masked(state * high + (1.0 - state) * low, mask), dtype)

    def _check_shape(self, logits_shape):
        """Any shape will do."""

    def _check_inputs(self, logits, class_mask):
        check_floating(logits, "logits")
        if class_mask is not None:
            check_mask(class_mask, logits.shape, axis=None)

    def get_config(self):
        config = super().get_config()
        del config["axis"]
        return {**config, "hard": self.hard, "levels": self.levels}
