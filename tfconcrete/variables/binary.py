"""Binary variables, element by element, between two levels."""

import dataclasses
from typing import Any

import tensorflow as tf

from tfconcrete._typing import Seed, TensorLike
from tfconcrete.noise import logistic
from tfconcrete.objectives.kl import bernoulli_kl, bernoulli_mass_kl, bin_concrete_density_kl
from tfconcrete.objectives.mass import bernoulli_entropy, bernoulli_log_mass
from tfconcrete.relaxations.bin_concrete import prepare_binary_logits
from tfconcrete.relaxations.masking import zero_masked
from tfconcrete.variables.base import KLOption
from tfconcrete.variables.logit import LogitVariable


@dataclasses.dataclass(frozen=True)
class Binary(LogitVariable):
    """The state 1 with probability sigmoid(logits), each element a variable of its own.

    A mask keeps or drops whole variables: a dropped one is exactly 0, whatever the levels,
    and has the code -1.

    Attributes:
        num_states: 2.
        levels: The values of the states 0 and 1.

    Example:

    >>> variable = tfc.variables.Binary(levels=(-1.0, 1.0))
    >>> variable.codes(tf.constant([2.0, -3.0, float("nan")])).numpy()
    array([ 1,  0, -1], dtype=int32)
    >>> variable.from_codes(tf.constant([1, 0, -1])).numpy()
    array([ 1., -1.,  0.], dtype=float32)
    """

    num_states: int | None = 2
    levels: tuple = (0.0, 1.0)

    def states_along(self, params_shape: Any) -> int | None:
        return 2

    def code_shape(self, params_shape: Any) -> tuple:
        return tuple(params_shape)

    def state_and_codes(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        scores, mask = prepare_binary_logits(params, class_mask)
        return self._rounded(scores, mask, params.dtype)

    def _rounded(self, scores, mask, dtype):
        """The states by the sign of the scores, and their codes."""
        scores = tf.stop_gradient(scores)
        upper, is_nan = scores > 0.0, tf.math.is_nan(scores)
        state = tf.where(is_nan, scores, tf.cast(upper, scores.dtype))
        codes = tf.where(is_nan, -1, tf.cast(upper, tf.int32))
        if mask is not None:
            codes = tf.where(mask, codes, -1)
        return self.to_levels(state, mask, dtype), codes

    def codes_of(self, sample: tf.Tensor) -> tf.Tensor:
        low, high = self.levels
        upper = tf.cast(tf.abs(sample - high) < tf.abs(sample - low), tf.int32)
        dropped = tf.math.is_nan(sample)
        if 0.0 not in self.levels:
            dropped |= sample == 0.0
        return tf.where(dropped, -1, upper)

    def from_codes(
        self, codes: tf.Tensor, num_states: int | None = None, dtype: tf.DType | str = tf.float32
    ) -> tf.Tensor:
        codes = tf.convert_to_tensor(codes)
        mask = (codes == 0) | (codes == 1)
        return self.to_levels(tf.cast(codes, tf.float32), mask, dtype)

    def to_levels(
        self, state: tf.Tensor, mask: tf.Tensor | None = None, dtype: tf.DType | str | None = None
    ) -> tf.Tensor:
        """States 0 and 1, relaxed or not, to the two levels exactly; dropped ones to 0."""
        low, high = self.levels
        value = state if (low, high) == (0.0, 1.0) else state * high + (1.0 - state) * low
        return tf.cast(zero_masked(value, mask), dtype or value.dtype)

    def from_levels(self, sample: tf.Tensor) -> tf.Tensor:
        """Samples between the levels as numbers from 0 to 1."""
        low, high = self.levels
        return sample if (low, high) == (0.0, 1.0) else (sample - low) / (high - low)

    def draw(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        working, mask = prepare_binary_logits(params, class_mask)
        noise = tf.cast(logistic(tf.shape(working), seed), working.dtype)
        return self._rounded(working + noise, mask, params.dtype)[0]

    def probs(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        working, mask = prepare_binary_logits(params, class_mask)
        return tf.cast(zero_masked(tf.sigmoid(working), mask), params.dtype)

    def log_prob(
        self,
        sample: tf.Tensor,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
    ) -> tf.Tensor:
        return bernoulli_log_mass(self.from_levels(sample), params, class_mask)

    def entropy(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
    ) -> tf.Tensor:
        return bernoulli_entropy(params, class_mask)

    def on_simplex(self, sample: tf.Tensor) -> tf.Tensor:
        state = self.from_levels(sample)
        return tf.stack([state, 1.0 - state], -1)

    def log_mass_ratio(self, node: Any, q: Any, p: Any) -> tf.Tensor:
        return bernoulli_mass_kl(self.from_levels(node), q, p)

    def discrete_kl(self, q: Any, p: Any) -> tf.Tensor:
        return bernoulli_kl(q, p)


@dataclasses.dataclass(frozen=True)
class RelaxedBinary(Binary):
    """The same states, trained by Binary Concrete samples; the node is the sample's logit.

    Example:

    >>> variable = tfc.layers.BinConcreteSample(levels=(-1, 1)).variable
    >>> variable.value(tf.constant([0.0, 100.0])).numpy()
    array([0., 1.], dtype=float32)
    """

    @property
    def kl_options(self) -> tuple[KLOption, ...]:
        analytic, mass = super().kl_options
        return KLOption("density", self._density), mass, analytic

    def value(self, node: Any) -> tf.Tensor:
        return self.to_levels(tf.sigmoid(node))

    def _density(self, node, q, p, temperature, prior_temperature):
        """Eq. 27: log q - log p by their densities."""
        return bin_concrete_density_kl(node, q, p, temperature, prior_temperature)
