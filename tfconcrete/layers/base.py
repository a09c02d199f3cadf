"""The base class of all sampling layers: modes, temperature, mask, axis, seeds."""

import keras
import numpy as np
import tensorflow as tf

from tfconcrete._checks import (
    check_axis,
    check_choice,
    check_floating,
    check_mask,
    check_num_classes,
    check_temperature,
    invalid_type,
    invalid_value,
    static_value,
)
from tfconcrete.layers.recorder import is_recording_codes, note_call, note_codes
from tfconcrete.layers.seeded import SeededLayer
from tfconcrete.relaxations.discretize import (
    categorical,
    codes,
    discretize,
    one_hot_argmax,
)
from tfconcrete.relaxations.masking import prepare_logits, zero_masked

INFERENCE_MODES = ("argmax", "sample", "probs")

# The weight is float32: a smaller temperature would be 0 there, a larger one infinite.
_SMALLEST, _LARGEST = np.finfo(np.float32).tiny, np.finfo(np.float32).max


class SamplingLayer(SeededLayer):
    """A relaxed or straight-through sample in training, a discrete one at inference.

    Subclasses implement `_relax`, and the other hooks where their variable is not one
    of `num_classes` along `axis`. Hooks take tensors and return tensors, without state.

    Args:
        temperature: A positive number, or a schedule from `tfc.schedules` (or any
            serialisable callable from a step to a temperature), which then advances
            once for each training call.
        axis: The class axis of the logits.
        inference: `"argmax"` (the most probable class, deterministic), `"sample"` (an
            exact one-hot draw) or `"probs"` (the class probabilities).
        seed: An int, None, or a `keras.random.SeedGenerator`.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        logits: float tensor `[..., num_classes]` (classes along `axis`), unnormalised
            log probabilities. (Probabilities given by mistake are no error: they are a
            flatter distribution.)
        class_mask: boolean, broadcast against `logits`; True keeps the class. A masked
            class has probability, sample and gradient exactly zero in every mode, and
            a row with nothing kept is zero. Keras' own sequence mask is another thing:
            it passes through unchanged.
        training: Whether to give the training output, or what `inference` says. Keras
            fills it in `fit`; a subclassed model passes it on only if its own `call`
            has a `training` argument.

    Returns:
        Tensor of the shape of `logits`, in the layer's compute dtype.

    Example:

    >>> class Flattened(tfc.layers.SamplingLayer):
    ...     "The probabilities at a higher temperature, without noise."
    ...
    ...     def _relax(self, logits, temperature, class_mask, seed):
    ...         return tf.nn.softmax(logits / temperature, axis=self.axis)
    >>> layer = Flattened(temperature=10.0)
    >>> layer(tf.constant([[0.0, 2.0]])).numpy()
    array([[0., 1.]], dtype=float32)
    """

    kl_options = ("analytic", "mass")

    def __init__(self, temperature, axis=-1, inference="argmax", seed=None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        self.axis = check_axis(axis)
        self.inference = inference
        self.schedule = None
        self._schedule_step = None
        if isinstance(temperature, dict):
            temperature = keras.saving.deserialize_keras_object(temperature)
        if callable(temperature) and not hasattr(temperature, "assign"):
            self.schedule = temperature
            with tf.init_scope():
                temperature = np.asarray(temperature(0))
        self._initial_temperature = self._checked_temperature(temperature)
        # float32 whatever the policy: autocast would round it in half precision.
        self._temperature = self.add_weight(
            name="temperature",
            shape=(),
            dtype="float32",
            initializer=keras.initializers.Constant(self._initial_temperature),
            trainable=False,
            autocast=False,
        )
        if self.schedule is not None:
            self._schedule_step = self.add_weight(
                name="schedule_step",
                shape=(),
                dtype="int64",
                initializer="zeros",
                trainable=False,
                autocast=False,
            )
        self.supports_masking = True

    @property
    def temperature(self):
        """The temperature: a scalar, non-trainable float32 weight.

        Assigning it (either way: `layer.temperature = 0.1` or
        `layer.temperature.assign(0.1)`) changes the next step without retracing. With a
        schedule it holds the last value used.
        """
        return self._temperature

    @temperature.setter
    def temperature(self, value):
        self._check_temperature(value)
        self._temperature.assign(value)

    def __setattr__(self, name, value):
        # Keras would adopt another layer's weight as one of this layer's.
        if name == "temperature" and hasattr(value, "assign"):
            value = tf.convert_to_tensor(value)
        super().__setattr__(name, value)

    @property
    def inference(self):
        """What the layer does outside training: "argmax", "sample" or "probs"."""
        return self._inference

    @inference.setter
    def inference(self, value):
        self._inference = check_choice(value, "inference", INFERENCE_MODES)

    def _check_temperature(self, value):
        """Raises unless `value` (where it is known) is a temperature for this layer."""
        if np.ndim(value) != 0:
            raise invalid_type("temperature", "a positive finite number", value)
        check_temperature(value)
        known = static_value(value)
        if known is not None and not _SMALLEST <= known <= _LARGEST:
            raise invalid_value("temperature", "a positive finite number in float32", value)

    def _checked_temperature(self, value):
        if value is None or isinstance(value, str) or np.ndim(value) != 0:
            raise invalid_type("temperature", "a positive finite number or a schedule", value)
        self._check_temperature(value)
        return float(value)

    def _next_temperature(self):
        """The temperature of this training call; a schedule advances."""
        if self.schedule is None:
            return self._temperature
        temperature = self.schedule(tf.convert_to_tensor(self._schedule_step))
        temperature = tf.cast(temperature, tf.float32)
        self._schedule_step.assign_add(1)
        self._temperature.assign(temperature)
        return temperature

    def build(self, logits_shape, class_mask_shape=None):
        self._check_shape(logits_shape)

    def call(self, logits, class_mask=None, training=None):
        self._check_inputs(logits, class_mask)
        mode = self.current_mode(training)
        if mode == "relaxed":
            temperature = self._next_temperature() if training else self._temperature
            temperature = tf.convert_to_tensor(temperature)
            sample = self._relax(logits, temperature, class_mask, self.next_seed())
        elif mode == "argmax":
            sample = self._argmax(logits, class_mask)
            note_codes(self.name, lambda: self._codes(sample))
        elif mode == "sample":
            sample = self._draw(logits, class_mask, self.next_seed())
        else:
            sample = self._probs(logits, class_mask)
        sample = tf.cast(sample, self.compute_dtype)
        note_call(self, logits, sample)
        return sample

    def _relax(self, logits, temperature, class_mask, seed):
        """The training output."""
        raise NotImplementedError

    def _argmax(self, logits, class_mask):
        """`inference="argmax"`: the one-hot of the most probable class."""
        if class_mask is None:
            # While codes are recorded, a graph for a server is traced: XLA will not compile
            # it, and there two ops are as fast as a softmax.
            rounded = one_hot_argmax if is_recording_codes() else discretize
            return rounded(logits, self.axis)
        working, mask = prepare_logits(logits, class_mask, self.axis)
        return tf.cast(zero_masked(discretize(working, self.axis), mask), logits.dtype)

    def _draw(self, logits, class_mask, seed):
        """`inference="sample"`: an exact one-hot draw."""
        return categorical(logits, class_mask, self.axis, seed)

    def _probs(self, logits, class_mask):
        """`inference="probs"`: the class probabilities."""
        working, mask = prepare_logits(logits, class_mask, self.axis)
        probs = tf.nn.softmax(working, axis=self.axis)
        return tf.cast(zero_masked(probs, mask), logits.dtype)

    def _codes(self, sample):
        """int32 class indices of an argmax output, without the class axis."""
        return codes(sample, self.axis)

    def _num_classes(self, sample):
        """How many values `_codes` can take; None where that is not known."""
        return sample.shape[self.axis]

    def _check_shape(self, logits_shape):
        """Raises unless the layer can take logits of this shape."""
        check_num_classes(logits_shape, self.axis)

    def _check_inputs(self, logits, class_mask):
        """Raises unless dtypes and shapes of the call arguments fit."""
        check_floating(logits, "logits")
        self._check_shape(logits.shape)
        if class_mask is not None:
            check_mask(class_mask, logits.shape, self.axis)

    def compute_output_shape(self, logits_shape, class_mask_shape=None):
        self._check_shape(logits_shape)
        return tuple(logits_shape)

    def compute_output_spec(self, logits, class_mask=None, training=None):
        self._check_inputs(logits, class_mask)
        shape = self.compute_output_shape(keras.tree.map_structure(lambda x: x.shape, logits))
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self):
        temperature = self._initial_temperature
        if self.schedule is not None:
            temperature = keras.saving.serialize_keras_object(self.schedule)
        return {
            **super().get_config(),
            "temperature": temperature,
            "axis": self.axis,
            "inference": self.inference,
        }
