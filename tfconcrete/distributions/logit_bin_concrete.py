"""The logit of a Binary Concrete variable: a Logistic one."""

import math

import tensorflow as tf
from tensorflow_probability import bijectors as tfb

from tfconcrete._dtypes import cast_within
from tfconcrete._floors import FILL, clip
from tfconcrete._typing import TensorLike
from tfconcrete.distributions.relaxed import RelaxedBinary
from tfconcrete.relaxations.bin_concrete import logit_bin_concrete_log_prob
from tfconcrete.relaxations.cooling import cool


class LogitBinConcrete(RelaxedBinary):
    """(logits + Logistic) / temperature, whose sigmoid is Binary Concrete (Eq. 26).

    A Logistic variable with location logits / temperature and scale 1 / temperature, on
    the whole line: nothing saturates, and the density is exact everywhere.

    Args:
        temperature: positive number or float tensor that broadcasts against `logits`.
        logits: float tensor of any shape, the log odds of the state 1.
        probs: float tensor of any shape, alternative to `logits`.
        validate_args: Whether to check at run time what is only known then.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Events are scalars.

    Example:

    >>> d = tfc.distributions.LogitBinConcrete(0.5, logits=[0.0, 1.0])
    >>> d.mean().numpy()
    array([0., 2.], dtype=float32)

    Reference:
        Maddison, Mnih & Teh (2017), "The Concrete Distribution", Appendix C.3.2.
    """

    event_space = "logit"

    def __init__(
        self,
        temperature: TensorLike,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "LogitBinConcrete",
    ) -> None:
        parameters = dict(locals())
        super().__init__(
            temperature, logits, probs, validate_args, allow_nan_stats, parameters, name
        )

    @classmethod
    def _parameter_properties(cls, dtype, num_classes=None):
        return super()._parameter_properties(dtype, num_classes)

    def _image(self, y):
        return cast_within(y, self.dtype)

    def _log_change(self, y):
        return tf.zeros([], y.dtype)

    def _log_prob(self, y):
        temperature, logits = self._working_parameters()
        # At an infinite y the density's limit is 0: a large finite negative.
        y = clip(tf.cast(y, self._working_dtype), FILL, -FILL)
        return tf.cast(logit_bin_concrete_log_prob(y, temperature, logits), self.dtype)

    def _standardize(self, y):
        temperature, logits = self._working_parameters()
        return temperature * tf.cast(y, self._working_dtype) - logits

    def _cdf(self, y):
        return tf.cast(tf.sigmoid(self._standardize(y)), self.dtype)

    def _log_cdf(self, y):
        return tf.cast(-tf.nn.softplus(-self._standardize(y)), self.dtype)

    def _survival_function(self, y):
        return tf.cast(tf.sigmoid(-self._standardize(y)), self.dtype)

    def _log_survival_function(self, y):
        return tf.cast(-tf.nn.softplus(self._standardize(y)), self.dtype)

    def _quantile(self, p):
        temperature, logits = self._working_parameters()
        p = tf.cast(p, self._working_dtype)
        noise = tf.math.log(p) - tf.math.log1p(-p)
        return tf.cast(cool(logits + noise, temperature), self.dtype)

    def _mean(self):
        temperature, logits = self._working_parameters()
        return tf.cast(logits / temperature, self.dtype)

    def _mode(self):
        return self._mean()

    def _stddev(self):
        temperature, logits = self._working_parameters()
        stddev = math.pi / (math.sqrt(3.0) * temperature)
        return tf.cast(stddev + tf.zeros_like(logits), self.dtype)

    def _variance(self):
        return tf.square(self._stddev())

    def _entropy(self):
        temperature, logits = self._working_parameters()
        entropy = 2.0 - tf.math.log(temperature)
        return tf.cast(entropy + tf.zeros_like(logits), self.dtype)

    def _default_event_space_bijector(self):
        return tfb.Identity(validate_args=self.validate_args)
