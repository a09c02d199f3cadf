"""`TemperatureScheduler`: temperatures by epoch or by step, and in the logs."""

from collections.abc import Callable, Sequence

import keras
import numpy as np

from tfconcrete._checks import (
    check_choice,
    invalid_type,
    invalid_value,
    num_required_arguments,
)
from tfconcrete.callbacks.chosen_layers import layers_with, prefixes
from tfconcrete.schedules.schedule import Schedule


class TemperatureScheduler(keras.callbacks.Callback):
    """Sets the temperature of sampling layers as a schedule says, and logs it.

    The value at the end of each epoch is logged as `temperature` (as
    `<layer>_temperature` where there are several layers), so that it is in the `History`;
    list this callback before `keras.callbacks.TensorBoard` to have it there too.

    With `unit="step"` and `steps_per_execution` above 1 the temperature changes between
    executions only; give the schedule to the layer itself
    (`tfc.ConcreteSample(temperature=schedule)`) to have it change in every step.

    Args:
        schedule: A schedule from `tfc.schedules`, or any callable from the epoch or step
            (from 0) to a temperature; one that requires two arguments is given the present
            temperature too, as in `keras.callbacks.LearningRateScheduler`.
        unit: `"epoch"` or `"step"`. Steps continue from `optimizer.iterations`, so a
            resumed run goes on where it stopped; epochs from `initial_epoch`.
        layers: The sampling layers, or their names, to set; None for all of the model
            (at any depth) that have no schedule of their own.

    Example:

    >>> z = tfc.ConcreteSample(name="z")
    >>> model = keras.Sequential([keras.Input([3]), keras.layers.Dense(3), z])
    >>> model.compile("sgd", "mse")
    >>> schedule = tfc.schedules.ExponentialAnnealing(1.0, 0.5, rate=0.1)
    >>> callback = tfc.callbacks.TemperatureScheduler(schedule)
    >>> x, y = np.ones([4, 3]), np.ones([4, 3])
    >>> history = model.fit(x, y, epochs=2, callbacks=[callback], verbose=0)
    >>> [round(t, 4) for t in history.history["temperature"]]
    [1.0, 0.9048]
    """

    def __init__(
        self,
        schedule: Schedule | Callable,
        unit: str = "epoch",
        layers: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        if not callable(schedule) or num_required_arguments(schedule) > 2:
            expected = "a schedule, or a callable of the epoch (and the present temperature)"
            raise invalid_type("schedule", expected, schedule)
        self.schedule = schedule
        self._takes_present = num_required_arguments(schedule) == 2
        self.unit = check_choice(unit, "unit", ("epoch", "step"))
        self.layers = layers

    def on_train_begin(self, logs: dict | None = None) -> None:
        found = layers_with(self.model, "temperature", self.layers)
        own = [layer for layer in found if layer.schedule is not None]
        if own and self.layers is not None:
            expected = "layers without a schedule of their own"
            raise invalid_value("layers", expected, [layer.name for layer in own])
        self._found = [layer for layer in found if layer.schedule is None]
        if not self._found:
            raise ValueError(
                "The model has no sampling layer whose temperature could be set. "
                f"Received: model with layers {[layer.name for layer in self.model.layers]}"
            )
        self._step = self._updates()
        self._first = 0

    def _updates(self):
        optimizer = getattr(self.model, "optimizer", None)
        return 0 if optimizer is None else int(optimizer.iterations.numpy())

    def _set(self, time):
        for layer in self._found:
            present = [float(layer.temperature.numpy())] if self._takes_present else []
            value = self.schedule(time, *present)
            if np.ndim(value) != 0 or np.asarray(value).dtype.kind not in "fiuV":  # V: bfloat16
                raise invalid_type("schedule", "a callable that gives a positive number", value)
            layer.temperature = float(np.asarray(value))

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        # The last execution of an epoch may have been a short one. (A model that updates
        # its weights in another way has no count to offer.)
        self._step = self._updates() or self._step
        if self.unit == "epoch":
            self._set(epoch)

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        self._first = batch
        if self.unit == "step":
            self._set(self._step)

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        # One call for all steps of an execution: `batch` is the last of them.
        self._step += batch - self._first + 1

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if logs is None:
            return
        for layer, prefix in prefixes(self._found):
            name = f"{prefix}temperature"
            if name in logs:  # from another scheduler
                name = f"{layer.name}_temperature"
            logs[name] = float(layer.temperature.numpy())
