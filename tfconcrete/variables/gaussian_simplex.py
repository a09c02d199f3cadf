"""Gaussians mapped onto the simplex (IGR): K classes from K-1 Gaussians."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfconcrete._dtypes import working
from tfconcrete._floors import FLOOR
from tfconcrete._seeds import as_seed
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.noise import normal
from tfconcrete.objectives.kl import (
    categorical_kl,
    categorical_mass_kl,
    gaussian_density_kl,
)
from tfconcrete.objectives.mass import categorical_entropy, categorical_log_mass
from tfconcrete.relaxations.diag_normal import gaussian_kl
from tfconcrete.relaxations.discretize import argmax_and_codes, categorical
from tfconcrete.relaxations.igr import igr, igr_probs, igr_scores
from tfconcrete.relaxations.transforms import get_transform
from tfconcrete.variables.base import KLOption
from tfconcrete.variables.one_hot import OneHotVariable
from tfconcrete.variables.prior_arrays import broadcast_prior

# Rounded draws behind the probabilities of transforms without a quadrature.
_PROBS_SAMPLES = 1000


@dataclasses.dataclass(frozen=True)
class GaussianSimplex(OneHotVariable):
    """The largest class of g(loc + exp(log_scale) * Normal, temperature), one of K.

    The training node is the pair of the simplex sample and the Gaussians y behind it. Exact
    draws keep their Gaussians as well where the rounding probabilities are not known: with a
    decoder that sees the rounded sample only, log q(y) - log p(y) gives a bound of the same
    discrete model, if a looser one than the masses would.

    Attributes:
        num_states: K, where it is known.
        axis: The class axis.
        transform, delta, precision: As in `tfc.IGRSample`.
        prior: None, or `(loc, scale)` arrays with their classes last, the layer's prior.

    Example:

    >>> variable = tfc.IGRSample(temperature=0.5).variable
    >>> loc, log_scale = tf.constant([[1.0, 2.0]]), tf.zeros([1, 2])
    >>> variable.codes([loc, log_scale], temperature=0.5).numpy()
    array([1], dtype=int32)
    >>> variable.probs([loc * 0.0, log_scale], temperature=0.5).numpy().round(3)
    array([[0.375, 0.375, 0.25 ]], dtype=float32)
    """

    transform: Any = "softmax++"
    delta: float = 1.0
    precision: float | None = None
    prior: Any = None

    @property
    def kl_options(self) -> tuple[KLOption, ...]:
        sampled = KLOption("gaussian_sample", self._gaussian_sample)
        return (KLOption("gaussian", self._gaussian, sampled=sampled),)

    @property
    def num_params(self) -> int:
        return 2

    @property
    def has_exact_probs(self) -> bool:
        return get_transform(self.transform).has_exact_probs

    def states_along(self, params_shape: Any) -> int | None:
        size = tf.TensorShape(params_shape[0])[self.axis]
        return None if size is None else size + 1

    def code_shape(self, params_shape: Any) -> tuple:
        return self.without_axis(params_shape[0])

    def options(self, class_mask: TensorLike | None = None) -> dict[str, Any]:
        """What the functions of `tfc.relaxations.igr` take beside the parameters."""
        return {
            "transform": self.transform,
            "delta": self.delta,
            "precision": self.precision,
            "class_mask": class_mask,
            "axis": self.axis,
        }

    def state_and_codes(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        loc, log_scale = params
        # The noise-free point does not read the scale, but a NaN there is a NaN parameter.
        loc = tf.where(tf.math.is_nan(log_scale), tf.cast(log_scale, loc.dtype), loc)
        scores = igr_scores(loc, temperature, **self.options(class_mask))
        return argmax_and_codes(scores, self.axis, class_mask)

    def draw(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        loc, log_scale = params
        sample = igr(loc, log_scale, temperature, seed=seed, **self.options(class_mask))
        return argmax_and_codes(sample, self.axis, class_mask)[0]

    def probs(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        loc, log_scale = params
        if self.has_exact_probs:
            return igr_probs(loc, log_scale, temperature, self.delta, class_mask, self.axis)
        options = self.options(class_mask)
        if self.axis >= 0:
            options["axis"] = self.axis + 1
        shape = tf.concat([[_PROBS_SAMPLES], tf.shape(loc)], 0)
        seed = as_seed(0 if seed is None else seed)
        samples = igr(tf.broadcast_to(loc, shape), log_scale, temperature, seed=seed, **options)
        rounded, _ = argmax_and_codes(samples, options["axis"], class_mask)
        return tf.reduce_mean(rounded, 0)

    def log_prob(
        self,
        sample: tf.Tensor,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
    ) -> tf.Tensor:
        logits = self._rounding_logits(params, class_mask, temperature)
        return categorical_log_mass(sample, logits, class_mask, self.axis)

    def entropy(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
    ) -> tf.Tensor:
        logits = self._rounding_logits(params, class_mask, temperature)
        return categorical_entropy(logits, class_mask, self.axis)

    def _rounding_logits(self, params, class_mask=None, temperature=None):
        probs = self.probs(working(params), class_mask, temperature)
        return tf.math.log(tf.maximum(probs, FLOOR))

    def node(self, sample: tf.Tensor, params: Any, seed: Seed) -> Any:
        """The pair of a sample and its y of Eq. 16, from the noise that this seed draws."""
        loc, log_scale = params
        last = tf.experimental.numpy.moveaxis(loc, self.axis, -1)
        noise = tf.experimental.numpy.moveaxis(normal(tf.shape(last), seed), -1, self.axis)
        return sample, loc + tf.exp(log_scale) * tf.cast(noise, loc.dtype)

    def value(self, node: Any) -> tf.Tensor:
        return node[0]

    def exact_params(self, params: Any, temperature: TensorLike | None = None) -> Any:
        if not self.has_exact_probs:
            return params
        return self._rounding_logits(params, temperature=temperature)

    def exact_draw(
        self, params: Any, temperature: TensorLike | None = None, seed: Seed = None
    ) -> Any:
        if self.has_exact_probs:
            value = categorical(params, axis=self.axis, seed=seed)
            return value, value
        value = self.draw(params, temperature=temperature, seed=seed)
        return self.node(value, params, seed), value

    def log_mass_ratio(self, node: Any, q: Any, p: Any) -> tf.Tensor:
        if self.has_exact_probs:
            return categorical_mass_kl(node, q, p, self.axis)
        return self._gaussian_sample(node, q, p, None, None)

    def discrete_kl(self, q: Any, p: Any) -> tf.Tensor:
        if self.has_exact_probs:
            return categorical_kl(q, p, self.axis)
        return self._gaussian(None, q, p, None, None)

    def _gaussian(self, node, q, p, temperature, prior_temperature):
        """IGR's Eq. 19: the KL of the Gaussians."""
        return tf.reduce_sum(gaussian_kl(*q, *p), self.axis)

    def _gaussian_sample(self, node, q, p, temperature, prior_temperature):
        """log q - log p of the Gaussians behind the sample."""
        ratio = gaussian_density_kl(node[1], *q, *p)
        return tf.reduce_sum(ratio, self.axis)

    def on_axis(self, value: tf.Tensor) -> Any:
        """A prior's parameter `[..., K-1]` with its last axis where the classes are."""
        return value if np.ndim(value) == 0 else np.moveaxis(value, -1, self.axis)

    def prior_params(
        self, prior_logits: Any, params_shape: Any, temperature: TensorLike, fit: Callable
    ) -> Any:
        """Gaussians: the layer's own prior, standard ones, or fitted to class probabilities.

        Without logits: the layer's own; else for softmax++ the Gaussians whose rounding is
        uniform, and for the other transforms, which need not reach every class, standard
        ones. With logits: Gaussians of scale 1 that match their class probabilities, by
        rounding for softmax++, in the mean for the others (IGR, Eq. 20).
        """
        gaussians = self._prior_gaussians(prior_logits, params_shape[0], temperature, fit)
        shapes = zip(gaussians, params_shape, strict=True)
        return [broadcast_prior(value, shape) for value, shape in shapes]

    def _prior_gaussians(self, prior_logits, loc_shape, temperature, fit):
        if prior_logits is None and self.prior is not None:
            loc, scale = (self.on_axis(value) for value in self.prior)
            return loc, np.log(scale)
        if prior_logits is None and not self.has_exact_probs:
            return 0.0, 0.0
        axis = self.axis % len(loc_shape)
        shape = [*loc_shape]
        shape[axis] = self.states_along([loc_shape])
        logits = broadcast_prior(0.0 if prior_logits is None else prior_logits, shape)[0]
        logits = np.moveaxis(logits, axis - 1, -1)
        rows, where = np.unique(logits.reshape(-1, logits.shape[-1]), axis=0, return_inverse=True)
        match = "discrete" if self.has_exact_probs else "mean"
        locs = [
            fit(probs, temperature, self.transform, match=match, delta=self.delta).loc.numpy()
            for probs in tf.nn.softmax(tf.constant(rows, tf.float64)).numpy()
        ]
        loc = np.stack(locs)[where.reshape(-1)].reshape(*logits.shape[:-1], -1)
        return np.moveaxis(loc, -1, axis - 1), 0.0
