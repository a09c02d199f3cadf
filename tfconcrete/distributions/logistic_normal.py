"""The Logistic Normal distribution, with a temperature."""

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfconcrete._typing import TensorLike
from tfconcrete.distributions.gaussian_simplex import GaussianSimplex
from tfconcrete.distributions.rounding import one_hot_categorical
from tfconcrete.relaxations.masking import prepare_logits
from tfconcrete.relaxations.softmax_plus_plus import SoftmaxTransform


class LogisticNormal(GaussianSimplex):
    """softmax([Normal(loc, scale), 0] / temperature): K-1 normals and a zero logit.

    The density is with respect to Lebesgue measure on the first K-1 coordinates.
    `log_prob` counts a coordinate below 1e-30 as 1e-30; use
    `experimental_sample_and_log_prob` where samples are that close to a vertex.

    Args:
        loc: float tensor `[..., K-1]`.
        scale_diag: positive float tensor `[..., K-1]`, the standard deviations.
        temperature: positive number or float tensor `[...]`, of the batch's shape.
        validate_args: Whether to check at run time what is only known then.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Events are `[K]`.

    Example:

    >>> d = tfc.distributions.LogisticNormal(tf.zeros([2]), tf.ones([2]), 0.5)
    >>> d.sample(seed=0).shape
    TensorShape([3])

    Reference:
        Maddison, Mnih & Teh (2017), "The Concrete Distribution", Section 4 and 5.2.
    """

    def __init__(
        self,
        loc: TensorLike,
        scale_diag: TensorLike | None,
        temperature: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "LogisticNormal",
    ) -> None:
        super().__init__(
            SoftmaxTransform(),
            loc,
            scale_diag,
            temperature,
            1.0,
            validate_args,
            allow_nan_stats,
            dict(locals()),
            name,
        )

    # TFP warns where a subclass has its own `__init__` and inherits this.
    @classmethod
    def _parameter_properties(cls, dtype, num_classes=None):
        return super()._parameter_properties(dtype, num_classes)

    def discrete(self, name: str = "discrete") -> tfd.OneHotCategorical:
        """The categorical of the location with a zero logit appended (Section 5.2).

        The rounded sample is a multinomial probit, whose mass function is not known;
        this is what the paper evaluates in its place.

        Returns:
            `tfd.OneHotCategorical` of this distribution's batch shape and dtype.
        """
        with self._name_and_control_scope(name):
            loc, _ = self.gaussians()
            shape = tf.concat([self.batch_shape_tensor(), self.event_shape_tensor() - 1], 0)
            loc = tf.broadcast_to(loc, shape)
            logits, _ = prepare_logits(tf.concat([loc, tf.zeros_like(loc[..., :1])], -1))
            return one_hot_categorical(logits, self.dtype)
