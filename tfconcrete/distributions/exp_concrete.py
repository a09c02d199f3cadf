"""The ExpConcrete distribution: a Concrete variable in log space."""

import tensorflow as tf
from tensorflow_probability import bijectors as tfb

from tfconcrete._floors import FILL, clip, log_floor
from tfconcrete._typing import TensorLike
from tfconcrete.distributions.parameters import assert_sum, simplex_bijector
from tfconcrete.distributions.relaxed import RelaxedOneHot
from tfconcrete.relaxations.concrete import exp_concrete_log_prob
from tfconcrete.relaxations.masking import prepare_logits


class ExpConcrete(RelaxedOneHot):
    """The logarithm of a Concrete variable, which does not underflow (Appendix C.3).

    The density is the paper's kappa, with respect to prod_{i<K} dy_i / x_K where
    x = exp(y): the change to `Concrete` is the sum of y. Use this one wherever samples
    come close to a vertex.

    Args:
        temperature: positive number or float tensor `[...]`, of the batch's shape.
        logits: float tensor `[..., K]`, log alpha: unnormalised log probabilities, not
            probabilities.
        probs: float tensor `[..., K]`, alternative to `logits`.
        validate_args: Whether to check at run time what is only known then.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Events are `[K]`, with logsumexp 0.

    Example:

    >>> d = tfc.distributions.ExpConcrete(0.1, logits=[0.0, 1.0, 2.0])
    >>> y = d.sample(seed=0)
    >>> bool(tf.math.is_finite(d.log_prob(y)))
    True

    Reference:
        Maddison, Mnih & Teh (2017), "The Concrete Distribution", Appendix C.3.
    """

    event_space = "log"

    def __init__(
        self,
        temperature: TensorLike,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "ExpConcrete",
    ) -> None:
        parameters = dict(locals())
        super().__init__(
            temperature, logits, probs, validate_args, allow_nan_stats, parameters, name
        )

    @classmethod
    def _parameter_properties(cls, dtype, num_classes=None):
        return super()._parameter_properties(dtype, num_classes)

    def _image(self, y):
        return tf.cast(clip(y, log_floor(self.dtype), y.dtype.max), self.dtype)

    def _log_change(self, y):
        return tf.zeros([], y.dtype)

    def _log_prob(self, y):
        # At y = -inf, a vertex, the density's limit is 0: a large finite negative.
        y = tf.cast(y, self._working_dtype)
        y = clip(y, FILL, y.dtype.max)
        temperature = self._working_temperature()[..., tf.newaxis]
        log_kappa = exp_concrete_log_prob(y, temperature, self._working_logits())
        return tf.cast(log_kappa, self.dtype)

    def _mode(self):
        # log kappa is largest where the terms of its log-softmax, logits - t y, are equal.
        temperature = self._working_temperature()[..., tf.newaxis]
        logits, _ = prepare_logits(self._working_logits())
        return self._image(tf.nn.log_softmax(logits / temperature))

    def _default_event_space_bijector(self):
        # The Log's determinant runs over all K coordinates and takes away that of the
        # softmax: together they are kappa's base measure.
        return tfb.Chain(
            [
                tfb.Log(validate_args=self.validate_args),
                simplex_bijector(self.dtype, self.validate_args),
            ],
            validate_args=self.validate_args,
        )

    def _sample_control_dependencies(self, y):
        if not self.validate_args:
            return []
        return [
            tf.debugging.assert_non_positive(y, "A sample must not be positive."),
            assert_sum(tf.exp(y), "The exponential of a sample must sum to 1."),
        ]
