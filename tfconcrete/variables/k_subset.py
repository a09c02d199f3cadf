"""Subsets: exactly k classes of several along an axis, k-hot."""

import dataclasses
from typing import Any

import tensorflow as tf

from tfconcrete._floors import clip
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.relaxations.k_subset import (
    k_subset,
    k_subset_entropy,
    k_subset_kl,
    k_subset_log_prob,
    k_subset_marginals,
)
from tfconcrete.relaxations.top_k import k_hot, top_k_and_codes, top_k_codes
from tfconcrete.variables.axis import AxisVariable
from tfconcrete.variables.logit import LogitVariable


@dataclasses.dataclass(frozen=True)
class KSubset(LogitVariable, AxisVariable):
    """k classes of several along `axis`, p(z) proportional to exp(z . logits).

    States are k-hot. Each has k codes, the classes taken, in the place of the class axis:
    those of the most probable state with the largest logit first. Where a mask keeps fewer
    than k classes all of them are taken, and the codes end in -1; a row with a NaN has only
    such codes. `probs` are the marginals: they sum to k.

    Attributes:
        num_states: The number of classes, where it is known: codes are below it.
        axis: The class axis.
        k: How many classes are taken.

    Example:

    >>> variable = tfc.variables.KSubset(num_states=4, k=2)
    >>> logits = tf.constant([0.0, 3.0, 1.0, 2.0])
    >>> codes = variable.codes(logits)
    >>> codes.numpy(), variable.from_codes(codes).numpy()
    (array([1, 3], dtype=int32), array([0., 1., 0., 1.], dtype=float32))
    >>> round(float(tf.exp(variable.entropy(tf.zeros([4])))), 4)
    6.0
    """

    k: int = 1

    def code_shape(self, params_shape: Any) -> tuple:
        shape = list(params_shape)
        shape[self.axis] = self.k
        return tuple(shape)

    def variable_shape(self, params_shape: Any) -> tuple:
        return self.without_axis(params_shape)

    def state_and_codes(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        return top_k_and_codes(params, self.k, self.axis, class_mask)

    def codes_of(self, sample: tf.Tensor) -> tf.Tensor:
        # A class at exactly 0 is not taken: rows may have fewer than k.
        return top_k_codes(sample, self.k, self.axis, class_mask=tf.not_equal(sample, 0.0))

    def from_codes(
        self, codes: tf.Tensor, num_states: int | None = None, dtype: tf.DType | str = tf.float32
    ) -> tf.Tensor:
        return k_hot(codes, self.known_states(num_states), axis=self.axis, dtype=dtype)

    def draw(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        return k_subset(params, self.k, class_mask, self.axis, seed)

    def probs(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        return k_subset_marginals(params, self.k, class_mask, self.axis)

    def log_prob(
        self,
        sample: tf.Tensor,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
    ) -> tf.Tensor:
        return k_subset_log_prob(sample, self.k, params, class_mask, self.axis)

    def entropy(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
    ) -> tf.Tensor:
        return k_subset_entropy(params, self.k, class_mask, self.axis)

    def on_simplex(self, sample: tf.Tensor) -> tf.Tensor:
        """Each class taken or left, `[..., num_classes, 2]`."""
        taken = clip(sample, 0.0, 1.0)
        return tf.stack([taken, 1.0 - taken], -1)

    def log_mass_ratio(self, node: Any, q: Any, p: Any) -> tf.Tensor:
        return self.log_prob(node, q) - self.log_prob(node, p)

    def discrete_kl(self, q: Any, p: Any) -> tf.Tensor:
        return k_subset_kl(q, p, self.k, axis=self.axis)
