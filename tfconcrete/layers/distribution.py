"""`DistributionSample`: any TFP distribution as a layer, with its KL in the loss."""

from typing import Any

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfconcrete._checks import (
    check_count,
    check_number,
    invalid_type,
    num_required_arguments,
)
from tfconcrete._dtypes import float_at_least_32, working
from tfconcrete._seeds import as_seed
from tfconcrete._typing import Seed
from tfconcrete.distributions.divergence import closed_form_kl, monte_carlo_kl
from tfconcrete.distributions.rounding import (
    class_indices,
    in_space_of,
    nan_where_unknown,
    rounded,
)
from tfconcrete.layers.inference import InferenceLayer
from tfconcrete.layers.recorder import note_codes


def _restore(value):
    return keras.saving.deserialize_keras_object(value) if isinstance(value, dict) else value


@keras.saving.register_keras_serializable(package="tfconcrete")
class DistributionSample(InferenceLayer):
    """A sample of any TFP distribution, in an ordinary Keras model.

    In training the output is a sample, differentiable where the distribution is
    reparameterised. Otherwise it is the rounding of a relaxed distribution (the most
    probable class of its `discrete()`), or the mode of another one (its mean where TFP
    has no mode, or a NaN for one, as for a Gamma whose density is unbounded).

    With a prior, every call adds `kl_weight * KL(q, prior)` to the model's losses, summed
    over the variables of an example and averaged over the batch: the closed form where
    one is registered with `tfd.kl_divergence`, else a Monte Carlo estimate with the
    sample itself, in log space for relaxed distributions. (Outside training its noise is
    the same in every call, so that an evaluation can be repeated.)

    Args:
        distribution: A callable from the layer's inputs to a TFP distribution. Register
            it with `keras.saving.register_keras_serializable` to save the model.
        prior: None, or a callable (registered too) that returns the prior, of no
            argument or of the layer's inputs. A TFP distribution also works, in models
            that are not saved.
        kl_weight: A non-negative number.
        kl_samples: How many samples to average in a Monte Carlo KL.
        inference: `"argmax"` (rounding or mode), `"sample"` (a draw from `discrete()`
            where there is one, else a sample) or `"probs"` (the probabilities of
            `discrete()`, else the mean), the output outside training.
        seed: An int, None, or a `keras.random.SeedGenerator`.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: What `distribution` takes: a tensor, or a structure of tensors with the
            batch first. Half precision arrives as float32.
        training: Whether to sample, or as `inference` says.

    Returns:
        Tensor of the distribution's batch and event shape.

    Example:

    >>> import tensorflow_probability as tfp
    >>> @keras.saving.register_keras_serializable("example")
    ... def posterior(inputs):
    ...     return tfc.distributions.Concrete(0.5, logits=inputs)
    >>> @keras.saving.register_keras_serializable("example")
    ... def prior():
    ...     return tfc.distributions.Concrete(0.5, logits=tf.zeros([3]))
    >>> inputs = keras.Input([3])
    >>> z = tfc.layers.DistributionSample(posterior, prior, seed=0)(inputs)
    >>> model = keras.Model(inputs, z)
    >>> model(tf.constant([[0.0, 2.0, 1.0]])).numpy()
    array([[0., 1., 0.]], dtype=float32)
    >>> len(model.losses)
    1
    """

    def __init__(
        self,
        distribution: Any,
        prior: Any = None,
        kl_weight: float = 1.0,
        kl_samples: int = 1,
        inference: str = "argmax",
        seed: Seed = None,
        **kwargs,
    ) -> None:
        super().__init__(inference=inference, seed=seed, **kwargs)
        self.distribution = _restore(distribution)
        if not callable(self.distribution):
            expected = "a callable from the layer's inputs to a distribution"
            raise invalid_type("distribution", expected, distribution)
        self.prior = _restore(prior)
        if not (prior is None or callable(self.prior) or isinstance(prior, tfd.Distribution)):
            raise invalid_type("prior", "None or a callable to a distribution", prior)
        self.kl_weight = check_number(kl_weight, "kl_weight", "a non-negative number", 0.0)
        self.kl_samples = check_count(kl_samples, "kl_samples")
        self.supports_masking = True
        self._build_at_init()

    def call(self, inputs: Any, training: bool | None = None) -> tf.Tensor:
        q = self._make(self.distribution, "distribution", working(inputs))
        self.note_compiled(training)
        mode = self.current_mode(training)
        kl, sample = None, None
        if self.prior is not None and not self.is_serving:
            kl, sample = self._kl(q, inputs, training)
        if mode != "relaxed":
            if mode == "argmax" and rounded(q) is not None:
                self.warn_without_gradient(training, inputs)
            sample = self._discrete(q, mode)
        elif sample is None:
            sample = q.sample(seed=self.next_seed())
        if kl is not None:
            self.add_loss(self.kl_weight * _per_example(kl))
        sample = keras.tree.map_structure(lambda x: tf.cast(x, self.compute_dtype), sample)
        return nan_where_unknown(q, sample)

    def _make(self, fn, name, *arguments):
        d = fn(*arguments)
        if not isinstance(d, tfd.Distribution):
            raise invalid_type(name, "a callable that returns a TFP distribution", d)
        return d

    def _kl(self, q, inputs, training):
        """The KL for each batch member, and the sample behind it where it took one."""
        prior = self.prior
        if not isinstance(prior, tfd.Distribution):
            arguments = (working(inputs),) if num_required_arguments(prior) else ()
            prior = self._make(prior, "prior", *arguments)
        kl = closed_form_kl(q, prior)
        if kl is not None:
            return kl, None
        seed = self.next_seed() if training else as_seed(0)
        samples, log_ratios = monte_carlo_kl(q, prior, self.kl_samples, seed)
        sample = keras.tree.map_structure(lambda x: x[0], samples)
        return tf.reduce_mean(log_ratios, 0), sample

    def _discrete(self, q, mode):
        discrete = rounded(q)
        if mode == "probs":
            return _mean(q) if discrete is None else nan_where_unknown(discrete, discrete.mean())
        if discrete is None:
            return q.sample(seed=self.next_seed()) if mode == "sample" else _mode(q)
        sample = discrete.sample(seed=self.next_seed()) if mode == "sample" else discrete.mode()
        sample = nan_where_unknown(discrete, tf.cast(sample, float_at_least_32(self.compute_dtype)))
        if mode == "argmax":
            note_codes(self.name, class_indices(discrete, sample))
        return in_space_of(q, sample, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        if isinstance(self.prior, tfd.Distribution):
            raise ValueError(
                f"The prior of layer '{self.name}' is a distribution, which cannot be "
                "saved. Give a callable that returns it, registered with "
                f"`keras.saving.register_keras_serializable`. Received: prior={self.prior}"
            )
        return {
            **super().get_config(),
            "distribution": keras.saving.serialize_keras_object(self.distribution),
            "prior": keras.saving.serialize_keras_object(self.prior),
            "kl_weight": self.kl_weight,
            "kl_samples": self.kl_samples,
            "inference": self.inference,
        }


def _per_example(kl):
    """The sum over an example's variables, averaged over the batch."""
    if kl.shape.rank is None or kl.shape.rank > 1:
        kl = tf.reduce_sum(kl, tf.range(1, tf.rank(kl)))
    return tf.reduce_mean(kl)


def _mode(q):
    """The mode, or the mean where TFP has none: for the class, or (NaN) for some parameters."""
    mode = _or_none(q.mode)
    if mode is None:
        return q.mean()
    mean = _or_none(q.mean) if q.allow_nan_stats else None
    if mean is None:
        return mode
    return keras.tree.map_structure(
        lambda x, y: tf.where(tf.math.is_nan(x), y, x) if x.dtype.is_floating else x, mode, mean
    )


def _mean(q):
    mean = _or_none(q.mean)
    return q.mode() if mean is None else mean


def _or_none(statistic):
    try:
        return statistic()
    except NotImplementedError:
        return None
