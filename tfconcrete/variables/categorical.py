"""Categorical variables: one of `num_states` classes along an axis, one-hot."""

import dataclasses
from typing import Any

import tensorflow as tf

from tfconcrete._softmax import softmax
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.objectives.kl import categorical_kl, categorical_mass_kl, concrete_density_kl
from tfconcrete.objectives.mass import categorical_entropy, categorical_log_mass
from tfconcrete.relaxations.discretize import argmax_and_codes, categorical
from tfconcrete.relaxations.masking import prepare_logits, zero_masked
from tfconcrete.variables.base import KLOption
from tfconcrete.variables.logit import LogitVariable
from tfconcrete.variables.one_hot import OneHotVariable


@dataclasses.dataclass(frozen=True)
class Categorical(LogitVariable, OneHotVariable):
    """One class of several along `axis`, with probabilities softmax(logits).

    The training node is the sample itself, one-hot: the variable of the straight-through
    layers.

    Attributes:
        num_states: The number of classes, where it is known.
        axis: The class axis.

    Example:

    >>> variable = tfc.layers.StraightThrough().variable
    >>> variable.probs(tf.math.log([[0.25, 0.75]])).numpy()
    array([[0.25, 0.75]], dtype=float32)
    >>> round(float(variable.entropy(tf.zeros([2]))), 4)
    0.6931
    """

    def code_shape(self, params_shape: Any) -> tuple:
        return self.without_axis(params_shape)

    def state_and_codes(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        return argmax_and_codes(params, self.axis, class_mask)

    def draw(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        return categorical(params, class_mask, self.axis, seed)

    def probs(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        working, mask = prepare_logits(params, class_mask, self.axis)
        probs = softmax(working, axis=self.axis)
        return tf.cast(zero_masked(probs, mask), params.dtype)

    def log_prob(
        self,
        sample: tf.Tensor,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
    ) -> tf.Tensor:
        return categorical_log_mass(sample, params, class_mask, self.axis)

    def entropy(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
    ) -> tf.Tensor:
        return categorical_entropy(params, class_mask, self.axis)

    def log_mass_ratio(self, node: Any, q: Any, p: Any) -> tf.Tensor:
        return categorical_mass_kl(node, q, p, self.axis)

    def discrete_kl(self, q: Any, p: Any) -> tf.Tensor:
        return categorical_kl(q, p, self.axis)


@dataclasses.dataclass(frozen=True)
class RelaxedCategorical(Categorical):
    """The same classes, trained by Concrete samples; the node is the sample's logarithm.

    Example:

    >>> [option.name for option in tfc.ConcreteSample().variable.kl_options]
    ['density', 'mass', 'analytic']
    """

    @property
    def kl_options(self) -> tuple[KLOption, ...]:
        analytic, mass = super().kl_options
        return KLOption("density", self._density), mass, analytic

    def value(self, node: Any) -> tf.Tensor:
        return tf.exp(node)

    def _density(self, node, q, p, temperature, prior_temperature):
        """Eq. 20: log q - log p by their densities."""
        return concrete_density_kl(node, q, p, temperature, prior_temperature, self.axis)
