"""A temperature as a weight, with a schedule that advances in the compiled step."""

import contextlib
import weakref
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfconcrete._checks import check_temperature, invalid_type, invalid_value, static_value
from tfconcrete._typing import TensorLike
from tfconcrete.layers.calls import (
    current_call,
    function_graph,
    is_in_graph_loop,
    is_in_keras_loop,
)
from tfconcrete.layers.inference import InferenceLayer
from tfconcrete.schedules.schedule import Schedule

# The weight is float32: a smaller temperature would be 0 there, a larger one infinite.
_SMALLEST, _LARGEST = np.finfo(np.float32).tiny, np.finfo(np.float32).max


class TemperedLayer(InferenceLayer):
    """A random layer with a temperature: a number, or a schedule.

    Args:
        temperature: A positive number, or a callable from a step to one.
        **kwargs: The arguments of `InferenceLayer`.
    """

    def __init__(self, temperature: TensorLike | Schedule, **kwargs) -> None:
        super().__init__(**kwargs)
        self.schedule = None
        self._schedule_step: Any = None
        self._advanced: tuple | None = None
        self._given_temperature: Any = None
        if isinstance(temperature, dict):
            temperature = keras.saving.deserialize_keras_object(temperature)
        if hasattr(temperature, "assign"):
            raise invalid_type(
                "temperature",
                "a positive finite number or a schedule (a variable would be read once; "
                "assign `layer.temperature` instead)",
                temperature,
            )
        if callable(temperature):
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
            aggregation="only_first_replica",
        )
        if self.schedule is not None:
            self._schedule_step = self.add_weight(
                name="schedule_step",
                shape=(),
                dtype="int64",
                initializer="zeros",
                trainable=False,
                autocast=False,
                aggregation="only_first_replica",
            )

    @property
    def temperature(self):
        """The temperature: a scalar, non-trainable float32 weight.

        Assigning it (either way: `layer.temperature = 0.1` or
        `layer.temperature.assign(0.1)`) changes the next step without retracing. With a
        schedule it holds the last value used, and cannot be set.
        """
        return self._temperature

    @temperature.setter
    def temperature(self, value: TensorLike):
        if self.schedule is not None:
            raise ValueError(
                f"Cannot set the temperature of layer '{self.name}': it follows a schedule, "
                "which would overwrite the value in the next training call. Build the layer "
                f"with a number to set it by hand. Received: temperature={value}"
            )
        self.check_temperature(value)
        self._temperature.assign(value)

    def __setattr__(self, name, value):
        # Keras would adopt another layer's weight as one of this layer's.
        if name == "temperature" and hasattr(value, "assign"):
            value = tf.convert_to_tensor(value)
        super().__setattr__(name, value)

    def check_temperature(self, value: TensorLike) -> None:
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
        self.check_temperature(value)
        return float(value)

    def current_temperature(self, advance: bool = False):
        """The temperature as a float32 tensor; with `advance` the schedule moves on.

        In a loop (a Keras RNN or `TimeDistributed`, `tf.while_loop`) it moves on once, with
        the loop's first step.
        """
        if self._given_temperature is not None:
            return self._given_temperature
        if self.schedule is None or not advance:
            return tf.convert_to_tensor(self._temperature)
        loop = _loop()
        if loop is not None and self._advanced is not None and self._advanced[0]() is loop:
            return self._advanced[1]
        with contextlib.ExitStack() as stack:
            if is_in_graph_loop():
                stack.enter_context(function_graph().as_default())
                stack.enter_context(tf.control_dependencies(None))
            temperature = self.schedule(tf.convert_to_tensor(self._schedule_step))
            temperature = tf.cast(temperature, tf.float32)
            self._schedule_step.assign_add(1)
            self._temperature.assign(temperature)
        self._advanced = None if loop is None else (weakref.ref(loop), temperature)
        return temperature

    @contextlib.contextmanager
    def given_temperature(self, temperature: TensorLike):
        """Inside, this is the temperature, and no variable is touched."""
        self._given_temperature = temperature
        try:
            yield
        finally:
            self._given_temperature = None

    def load_weights_of(self, variables):
        """With or without a schedule's step, and none at all from a layer without weights."""
        if not variables:
            return
        # Without those of layers inside, which a file keeps elsewhere.
        own = [*self._trainable_variables, *self._non_trainable_variables]
        stored = [variables[str(i)] for i in range(len(variables))]
        step = 1 + next(i for i, weight in enumerate(own) if weight is self._temperature)
        if self.schedule is not None and len(stored) == len(own) - 1:
            stored.insert(step, self._schedule_step.numpy())
        elif self.schedule is None and len(stored) == len(own) + 1:
            stored.pop(step)
        super().load_weights_of({str(i): value for i, value in enumerate(stored)})

    def get_config(self) -> dict[str, Any]:
        temperature = self._initial_temperature
        if self.schedule is not None:
            temperature = keras.saving.serialize_keras_object(self.schedule)
        return {
            **super().get_config(),
            "temperature": temperature,
            "inference": self.inference,
        }


def _loop():
    """What stands for the run of the loop that is calling, or None outside loops."""
    if is_in_keras_loop():
        return current_call() or function_graph()
    return function_graph() if is_in_graph_loop() else None
