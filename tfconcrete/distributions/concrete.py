"""The Concrete distribution on the simplex."""

import tensorflow as tf

from tfconcrete._typing import TensorLike
from tfconcrete.distributions.parameters import assert_sum, simplex_bijector
from tfconcrete.distributions.relaxed import RelaxedOneHot
from tfconcrete.relaxations.concrete import concrete_log_prob


class Concrete(RelaxedOneHot):
    """softmax((logits + Gumbel) / temperature), a relaxed one-hot variable (Eq. 10).

    The density (Eq. 11) is with respect to Lebesgue measure on the first K-1
    coordinates. `log_prob` counts a coordinate below 1e-30 as 1e-30, since the sample
    has lost its logarithm there: at low temperatures use `ExpConcrete` or
    `experimental_sample_and_log_prob`, which are exact.

    Args:
        temperature: positive number or float tensor `[...]`, of the batch's shape.
        logits: float tensor `[..., K]`, log alpha: unnormalised log probabilities, not
            probabilities.
        probs: float tensor `[..., K]`, alternative to `logits`.
        validate_args: Whether to check at run time what is only known then.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Events are `[K]`.

    Example:

    >>> d = tfc.distributions.Concrete(0.5, logits=tf.zeros([2, 3]))
    >>> d.sample(4, seed=0).shape
    TensorShape([4, 2, 3])
    >>> d.discrete().event_shape
    TensorShape([3])

    Reference:
        Maddison, Mnih & Teh (2017), "The Concrete Distribution", Definition 1.
    """

    def __init__(
        self,
        temperature: TensorLike,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Concrete",
    ) -> None:
        parameters = dict(locals())
        super().__init__(
            temperature, logits, probs, validate_args, allow_nan_stats, parameters, name
        )

    @classmethod
    def _parameter_properties(cls, dtype, num_classes=None):
        return super()._parameter_properties(dtype, num_classes)

    def _image(self, y):
        return tf.cast(tf.exp(y), self.dtype)

    def _log_change(self, y):
        return -tf.reduce_sum(y, -1)

    def _log_prob(self, x):
        x = tf.cast(x, self._working_dtype)
        temperature = self._working_temperature()[..., tf.newaxis]
        log_density = concrete_log_prob(x, temperature, self._working_logits())
        return tf.cast(log_density, self.dtype)

    def _mode(self):
        raise NotImplementedError(
            "`Concrete` has no mode: at low temperatures its density is unbounded at the "
            "vertices. Use `discrete().mode()` for the most probable class, or "
            "`ExpConcrete`, whose density has one."
        )

    def _default_event_space_bijector(self):
        return simplex_bijector(self.dtype, self.validate_args)

    def _sample_control_dependencies(self, x):
        if not self.validate_args:
            return []
        return [
            tf.debugging.assert_non_negative(x, "A sample must not be negative."),
            assert_sum(x, "A sample must sum to 1."),
        ]
