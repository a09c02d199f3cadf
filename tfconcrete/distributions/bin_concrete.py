"""The Binary Concrete distribution on the unit interval."""

import tensorflow as tf
from tensorflow_probability import bijectors as tfb

from tfconcrete._floors import SMALLEST, clip
from tfconcrete._typing import TensorLike
from tfconcrete.distributions.relaxed import RelaxedBinary
from tfconcrete.relaxations.bin_concrete import bin_concrete_log_prob
from tfconcrete.relaxations.cooling import cool


class BinConcrete(RelaxedBinary):
    """sigmoid((logits + Logistic) / temperature), a relaxed binary variable (Eq. 16).

    `log_prob` (Eq. 17) counts x or 1 - x below 1e-30 as 1e-30, since the sample has lost
    its logit there: at low temperatures use `LogitBinConcrete` or
    `experimental_sample_and_log_prob`, which are exact.

    Args:
        temperature: positive number or float tensor that broadcasts against `logits`.
        logits: float tensor of any shape, the log odds of the state 1.
        probs: float tensor of any shape, alternative to `logits`.
        validate_args: Whether to check at run time what is only known then.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Events are scalars.

    Example:

    >>> d = tfc.distributions.BinConcrete(2 / 3, probs=[0.2, 0.9])
    >>> d.quantile(0.5).shape
    TensorShape([2])

    Reference:
        Maddison, Mnih & Teh (2017), "The Concrete Distribution", Definition 2.
    """

    def __init__(
        self,
        temperature: TensorLike,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "BinConcrete",
    ) -> None:
        parameters = dict(locals())
        super().__init__(
            temperature, logits, probs, validate_args, allow_nan_stats, parameters, name
        )

    @classmethod
    def _parameter_properties(cls, dtype, num_classes=None):
        return super()._parameter_properties(dtype, num_classes)

    def _image(self, y):
        return tf.cast(tf.sigmoid(y), self.dtype)

    def _log_change(self, y):
        # -log x - log(1 - x) with x = sigmoid(y)
        return tf.nn.softplus(-y) + tf.nn.softplus(y)

    def _log_prob(self, x):
        temperature, logits = self._working_parameters()
        x = tf.cast(x, self._working_dtype)
        return tf.cast(bin_concrete_log_prob(x, temperature, logits), self.dtype)

    def _distribution_function(self, x, inside, below, above):
        """`inside(t logit(x) - logits)`, and its limits outside the open interval."""
        temperature, logits = self._working_parameters()
        x = tf.cast(x, self._working_dtype)
        smallest = SMALLEST[x.dtype]
        log_x = tf.math.log(clip(x, smallest, 1.0))
        log_rest = tf.math.log(clip(1.0 - x, smallest, 1.0))
        value = inside(temperature * (log_x - log_rest) - logits)
        value = tf.where(x <= 0.0, tf.cast(below, value.dtype), value)
        value = tf.where(x >= 1.0, tf.cast(above, value.dtype), value)
        return tf.cast(value, self.dtype)

    def _cdf(self, x):
        return self._distribution_function(x, tf.sigmoid, 0.0, 1.0)

    def _log_cdf(self, x):
        def inside(z):
            return -tf.nn.softplus(-z)

        return self._distribution_function(x, inside, -float("inf"), 0.0)

    def _survival_function(self, x):
        return self._distribution_function(x, lambda z: tf.sigmoid(-z), 1.0, 0.0)

    def _log_survival_function(self, x):
        def inside(z):
            return -tf.nn.softplus(z)

        return self._distribution_function(x, inside, 0.0, -float("inf"))

    def _quantile(self, p):
        temperature, logits = self._working_parameters()
        p = tf.cast(p, self._working_dtype)
        noise = tf.math.log(p) - tf.math.log1p(-p)
        return tf.cast(tf.sigmoid(cool(logits + noise, temperature)), self.dtype)

    def _mode(self):
        raise NotImplementedError(
            "`BinConcrete` has no mode: below temperature 1 its density is unbounded at 0 "
            "and 1. Use `discrete().mode()` for the more probable state, or "
            "`LogitBinConcrete`, whose density has one."
        )

    def _default_event_space_bijector(self):
        return tfb.Sigmoid(validate_args=self.validate_args)

    def _sample_control_dependencies(self, x):
        if not self.validate_args:
            return []
        return [
            tf.debugging.assert_non_negative(x, "A sample must not be negative."),
            tf.debugging.assert_less_equal(x, tf.ones([], x.dtype), "A sample must be at most 1."),
        ]
