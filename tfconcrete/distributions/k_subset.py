"""Random subsets of exactly k classes."""

import math

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfconcrete._checks import invalid_value
from tfconcrete._dtypes import float_at_least_32
from tfconcrete._seeds import as_seed
from tfconcrete._typing import TensorLike
from tfconcrete.bijectors.arguments import as_parameter
from tfconcrete.distributions.parameters import (
    ParameterProperties,
    check_class_parameter,
    common_dtype,
)
from tfconcrete.relaxations.k_subset import (
    k_subset,
    k_subset_covariance,
    k_subset_entropy,
    k_subset_kl,
    k_subset_log_partition,
    k_subset_log_prob,
    k_subset_marginals,
)
from tfconcrete.relaxations.subset_rows import check_subset_size
from tfconcrete.relaxations.top_k import top_k_hot


class KSubset(tfd.AutoCompositeTensorDistribution):
    """k of n classes, p(z) proportional to exp(z . logits) for k-hot z.

    That is n independent Bernoulli variables with log odds `logits`, given that they sum to
    k (the conditional Bernoulli or conditional Poisson distribution), for k = 1 a
    `tfd.OneHotCategorical`. All of its methods are exact, in O(n sqrt(k)) for one row
    (samples in O(n k)).

    Args:
        k: whole number from 1 to `n - 1`.
        logits: float tensor `[..., n]`; a number added to all of a row changes nothing.
        validate_args: Whether to check at run time what is only known then.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Events are `[n]`, zeros and k ones, of the dtype of `logits`. Anything else has the log
    probability -inf.

    Example:

    >>> d = tfc.distributions.KSubset(2, logits=tf.zeros([5]))
    >>> d.sample(3, seed=0).shape
    TensorShape([3, 5])
    >>> round(float(d.marginals()[0]), 4), round(float(tf.exp(d.entropy())), 4)
    (0.4, 10.0)

    Reference:
        Ahmed, Zeng, Niepert & Van den Broeck (2023), "SIMPLE: A Gradient Estimator for
        k-Subset Sampling".
    """

    def __init__(
        self,
        k: int,
        logits: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "KSubset",
    ) -> None:
        parameters = dict(locals())
        check_class_parameter(logits, "logits")
        dtype = common_dtype(logits)
        self._logits = as_parameter(logits, "logits", dtype)
        if self._logits.shape.rank is None or self._logits.shape[-1] is None:
            raise invalid_value("logits", "a known number of classes", logits)
        self._k = check_subset_size(k, self._logits.shape[-1])
        super().__init__(
            dtype=dtype,
            reparameterization_type=tfd.NOT_REPARAMETERIZED,
            validate_args=validate_args,
            allow_nan_stats=allow_nan_stats,
            parameters=parameters,
            name=name,
        )

    @classmethod
    def _parameter_properties(cls, dtype, num_classes=None):
        return {"logits": ParameterProperties(event_ndims=1)}

    @property
    def k(self) -> tf.Tensor:
        """How many classes are taken."""
        return self._k

    @property
    def logits(self) -> tf.Tensor:
        """The argument `logits`."""
        return self._logits

    def logits_parameter(self, name: str = "logits_parameter") -> tf.Tensor:
        """The logits as a tensor."""
        with self._name_and_control_scope(name):
            return tf.identity(self._logits)

    def marginals(self, name: str = "marginals") -> tf.Tensor:
        """P(z_i = 1), `[..., n]`; they sum to k."""
        with self._name_and_control_scope(name):
            return k_subset_marginals(self._logits, self._k)

    def log_partition(self, name: str = "log_partition") -> tf.Tensor:
        """log sum_z exp(z . logits) over all subsets z, `[...]`."""
        with self._name_and_control_scope(name):
            return tf.cast(k_subset_log_partition(self._logits, self._k), self.dtype)

    def _event_shape(self):
        return self._logits.shape[-1:]

    def _event_shape_tensor(self):
        return tf.shape(self._logits)[-1:]

    def _sample_n(self, n, seed=None):
        logits = tf.convert_to_tensor(self._logits)
        repeated = tf.broadcast_to(logits, tf.concat([[n], tf.shape(logits)], 0))
        return k_subset(repeated, self._k, seed=as_seed(seed))

    def _log_prob(self, z):
        working = float_at_least_32(self.dtype)
        z = tf.cast(z, working)
        log_prob = k_subset_log_prob(z, self._k, self._logits)
        binary = tf.reduce_all(tf.logical_or(z == 0.0, z == 1.0), axis=-1)
        in_support = tf.logical_and(binary, tf.reduce_sum(z, axis=-1) == float(self._k))
        return tf.cast(tf.where(in_support, log_prob, -math.inf), self.dtype)

    def _mean(self):
        return k_subset_marginals(self._logits, self._k)

    def _variance(self):
        marginals = k_subset_marginals(self._logits, self._k)
        return marginals * (1.0 - marginals)

    def _covariance(self):
        return k_subset_covariance(self._logits, self._k)

    def _mode(self):
        return top_k_hot(self._logits, self._k)

    def _entropy(self):
        return tf.cast(k_subset_entropy(self._logits, self._k), self.dtype)

    def _default_event_space_bijector(self):
        return

    def _sample_control_dependencies(self, z):
        if not self.validate_args:
            return []
        z = tf.cast(z, float_at_least_32(self.dtype))
        return [
            tf.debugging.Assert(
                tf.reduce_all(tf.logical_or(z == 0.0, z == 1.0)),
                ["A sample must be of zeros and ones.", z],
            ),
            tf.debugging.assert_equal(
                tf.reduce_sum(z, axis=-1),
                tf.cast(self._k, z.dtype),
                f"A sample must have {self._k} ones.",
            ),
        ]


@tfd.RegisterKL(KSubset, KSubset)
def _kl_k_subset_k_subset(p, q, name=None):
    """E_p[log p(z) - log q(z)], in closed form."""
    if p.k != q.k or p.event_shape != q.event_shape:
        raise ValueError(
            "Invalid value received for argument `q`. Expected a `KSubset` of the same k and "
            f"number of classes, {p.k} of {p.event_shape[-1]}. Received: {q.k} of "
            f"{q.event_shape[-1]}"
        )
    with tf.name_scope(name or "kl_k_subset_k_subset"):
        return tf.cast(k_subset_kl(p.logits, q.logits, p.k), p.dtype)
