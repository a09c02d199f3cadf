"""`FeatureSelector`: k of the input's features, the same ones for all examples."""

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfconcrete._checks import check_flag, invalid_type, invalid_value, static_value
from tfconcrete._softmax import softmax
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.layers.base import check_tensor
from tfconcrete.layers.recorder import note_codes
from tfconcrete.layers.tempered import TemperedLayer
from tfconcrete.relaxations.discretize import codes
from tfconcrete.relaxations.distinct import distinct_argmax, distinct_concrete
from tfconcrete.relaxations.subset_rows import check_subset_size
from tfconcrete.schedules.schedule import Schedule


@keras.saving.register_keras_serializable(package="tfconcrete")
class FeatureSelector(TemperedLayer):
    """Chooses k features of its input, no feature twice, and learns which.

    The layer has k selectors, each with trainable logits over the features. In training
    each draws a feature, once for the whole batch, from those that the earlier selectors
    have not drawn, and its output is differentiated as a Concrete mixture of them; with
    `hard=False` it is that mixture, near a single feature at low temperatures. Anneal the
    temperature, from about 10 to 0.1, and let the logits move by several units meanwhile:
    Adam moves a weight by about its rate in a step, so a rate for networks is too low for
    them in a short training (`keras_examples/feature_selection.py` has two). Outside
    training the outputs are `inputs[..., selected]`. Each selector keeps its place, so that
    what follows can learn what it reads there.

    Args:
        k: A whole number from 1 to one less than the number of features.
        temperature: A positive number or a schedule.
        hard: Whether outputs in training are single features, or mixtures.
        logits_initializer: Of the logits `[k, features]`.
        inference: `"argmax"` (the features of `selected`), `"sample"` (a draw of k
            distinct ones) or `"probs"` (means by each selector's probabilities).
        seed: An int, None, or a `keras.random.SeedGenerator`.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `[..., features]`.
        training: Whether to draw or mix features, or as `inference` says.

    Returns:
        Tensor `[..., k]`.

    Reference:
        Balin, Abid & Zou (2019), "Concrete Autoencoders", whose selectors are independent
        and may choose a feature several times.

    Example:

    >>> selector = tfc.layers.FeatureSelector(k=2, seed=0)
    >>> x = tf.constant([[10.0, 20.0, 30.0, 40.0]])
    >>> outputs = selector(x)
    >>> bool(tf.reduce_all(outputs == tf.gather(x, selector.selected, axis=-1)))
    True
    >>> len(set(selector.selected.tolist()))
    2
    """

    def __init__(
        self,
        k: int,
        temperature: TensorLike | Schedule = 0.5,
        hard: bool = True,
        logits_initializer: Any = "glorot_normal",
        inference: str = "argmax",
        seed: Seed = None,
        **kwargs,
    ) -> None:
        super().__init__(temperature, inference=inference, seed=seed, **kwargs)
        self.k = check_subset_size(k)
        self.hard = check_flag(hard, "hard")
        self.logits_initializer = keras.initializers.get(logits_initializer)
        self.supports_masking = True

    def build(self, inputs_shape: Any) -> None:
        self._check_shape(inputs_shape)
        self.logits = self.add_weight(
            name="logits",
            shape=(self.k, inputs_shape[-1]),
            dtype="float32",
            initializer=self.logits_initializer,
            autocast=False,
        )

    @property
    def selected(self) -> np.ndarray:
        """The k chosen features, distinct int32 indices in the order of the outputs.

        -1 for a selector with a NaN among its logits; its output is NaN.
        """
        if not self.built:
            raise ValueError(
                f"Layer '{self.name}' has not seen features to select yet: call it first."
            )
        # Also while a graph is traced: the weights' values at this moment.
        with tf.init_scope():
            return self._selected().numpy()

    def _selected(self):
        return codes(distinct_argmax(tf.convert_to_tensor(self.logits)))

    def call(self, inputs: Any, training: bool | None = None) -> tf.Tensor:
        check_tensor(inputs, "inputs")
        self.note_compiled(training)
        mode = self.current_mode(training)
        inputs = tf.cast(inputs, self.compute_dtype)
        logits = tf.convert_to_tensor(self.logits)
        if mode == "argmax":
            self.warn_without_gradient(training, logits)
            return self._chosen(inputs)
        temperature = self.current_temperature(advance=bool(training))
        if mode == "probs":
            rows = softmax(logits)
        else:
            hard = self.hard or mode == "sample"
            rows = distinct_concrete(logits, temperature, hard, seed=self.next_seed())
        if mode == "sample":
            # Gathered, not multiplied: features that were not drawn may hold NaN.
            return _gathered(inputs, codes(rows))
        return tf.tensordot(inputs, tf.cast(rows, inputs.dtype), [[-1], [1]])

    def _chosen(self, inputs):
        # A served graph holds the indices themselves: one op, on any runtime.
        chosen = tf.constant(self.selected) if self.is_serving else self._selected()
        shape = tf.concat([tf.shape(inputs)[:-1], [self.k]], 0)
        note_codes(self.name, tf.broadcast_to(chosen, shape))
        return _gathered(inputs, chosen)

    def _check_shape(self, inputs_shape):
        if isinstance(inputs_shape, dict) or any(isinstance(n, tuple) for n in inputs_shape):
            raise invalid_type("inputs", "one dense float tensor", inputs_shape)
        if len(inputs_shape) < 1 or inputs_shape[-1] is None:
            raise invalid_value("inputs", "a known number of features", tuple(inputs_shape))
        check_subset_size(self.k, inputs_shape[-1])

    def compute_output_shape(self, inputs_shape: Any) -> tuple:
        self._check_shape(inputs_shape)
        return (*inputs_shape[:-1], self.k)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "k": self.k,
            "hard": self.hard,
            "logits_initializer": keras.initializers.serialize(self.logits_initializer),
        }


def _gathered(inputs, chosen):
    """The features with these indices; NaN for -1."""
    known = static_value(chosen)
    if known is not None and known.min() >= 0:
        return tf.gather(inputs, chosen, axis=-1)
    # As floats: a GPU compares int32 on the host.
    index = tf.cast(chosen, tf.float32)
    gathered = tf.gather(inputs, tf.cast(tf.maximum(index, 0.0), tf.int32), axis=-1)
    return tf.where(index < 0.0, tf.constant(math.nan, inputs.dtype), gathered)
