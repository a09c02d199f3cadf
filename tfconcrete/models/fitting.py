"""`fit` and `evaluate` around a model's steps: its data, and the programs that they run as."""

import inspect
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfconcrete._workers import is_multi_worker
from tfconcrete.models.compiled_steps import CompiledSteps, is_of_tensors
from tfconcrete.models.data import (
    array_batches,
    check_data,
    check_shape,
    stack_check,
    without_autotune,
)
from tfconcrete.models.replicas import Replicated, check_settings
from tfconcrete.models.stacks import as_list, input_spec


def _by_name(method, args, kwargs):
    """All arguments after `batch_size` by the names that Keras' method gives them."""
    parameters = inspect.signature(method).parameters.values()
    names = [x.name for x in parameters if x.kind is x.POSITIONAL_OR_KEYWORD][4:]
    if len(args) > len(names) or not kwargs.keys().isdisjoint(names[: len(args)]):
        raise TypeError(f"`{method.__name__}` got too many arguments, or one of them twice")
    return {**dict(zip(names, args, strict=False)), **kwargs}


class Fitting(Replicated, keras.Model):
    """A model whose data are checked before they are used, and whose steps XLA runs as one.

    Subclasses have `_train(data)` and `_test(data)`, which do a step, and `_results()`, what to
    log after it; an `encoder`, a `likelihood`, `target_name` and `params_shape()` say what
    their data are.
    """

    def fit(
        self, x: Any = None, y: Any = None, batch_size: int | None = None, *args, **kwargs
    ) -> Any:
        """`keras.Model.fit`, after checking the data and the distribution strategy."""
        self._check_distribution()
        kwargs = _by_name(keras.Model.fit, args, kwargs)
        validation_data = kwargs.pop("validation_data", None)
        x, y = self.check_examples(x, self._beside_weights(y, kwargs.get("sample_weight")))
        if isinstance(validation_data, (tuple, list)):
            val_x, val_y, val_weight = keras.utils.unpack_x_y_sample_weight(validation_data)
            val_x, val_y = self.check_examples(val_x, self._beside_weights(val_y, val_weight))
            size = kwargs.get("validation_batch_size") or batch_size
            validation_data = self._batches(val_x, val_y, val_weight, size)
            if validation_data is None:
                validation_data = (val_x, val_y, val_weight)
        elif validation_data is not None:
            validation_data, _ = self.check_examples(validation_data)
        # Only Keras can do these, with arrays.
        special = ("validation_split", "class_weight", "steps_per_epoch")
        if not any(kwargs.get(name) for name in special):
            weight, shuffle = kwargs.get("sample_weight"), kwargs.get("shuffle", True)
            batches = self._batches(x, y, weight, batch_size, shuffle)
            if batches is not None:
                x, y, batch_size = batches, None, None
                kwargs |= {"sample_weight": None, "shuffle": False}
        return super().fit(x, y, batch_size, validation_data=validation_data, **kwargs)

    def evaluate(
        self, x: Any = None, y: Any = None, batch_size: int | None = None, *args, **kwargs
    ) -> Any:
        """`keras.Model.evaluate`: the discrete bound, with exact one-hot samples."""
        self._check_distribution()
        kwargs = _by_name(keras.Model.evaluate, args, kwargs)
        if not kwargs.get("_use_cached_eval_dataset", False):
            x, y = self.check_examples(x, self._beside_weights(y, kwargs.get("sample_weight")))
            batches = None
            if kwargs.get("steps") is None:
                batches = self._batches(x, y, kwargs.get("sample_weight"), batch_size)
            if batches is not None:
                x, y, batch_size = batches, None, None
                kwargs["sample_weight"] = None
        return super().evaluate(x, y, batch_size, **kwargs)

    def _batches(self, x, y, sample_weight, batch_size, shuffle=False):
        """Arrays as a dataset, or None where Keras must do it."""
        strategy = self.distribute_strategy
        if strategy.num_replicas_in_sync > 1 or is_multi_worker(strategy):
            return None
        return array_batches(x, y, sample_weight, batch_size, shuffle)

    def _beside_weights(self, y, sample_weight):
        """Some y where weights are given and no model reads it: Keras drops weights without."""
        return sample_weight if y is None and self.target_name == "x" else y

    def train_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, *args, **kwargs
    ) -> Any:
        """`keras.Model.train_on_batch`, after checking the batch."""
        x, y = self.check_examples(x, self._beside_weights(y, sample_weight))
        return super().train_on_batch(x, y, sample_weight, *args, **kwargs)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, *args, **kwargs
    ) -> Any:
        """`keras.Model.test_on_batch`, after checking the batch."""
        x, y = self.check_examples(x, self._beside_weights(y, sample_weight))
        return super().test_on_batch(x, y, sample_weight, *args, **kwargs)

    def check_examples(self, x: Any, y: Any = None) -> tuple[Any, Any]:
        """The data of `fit` or `evaluate`, or an error that names what is wrong with them."""
        check_shape(x, "x", input_spec(as_list(self.encoder)[0]))
        limits, target = self._limits(), self._target_index()
        has_both = not isinstance(x, (np.ndarray, tf.Tensor, tuple, list, dict))
        x_limits, y_limits = (limits, None) if target == 0 or has_both else (None, limits)
        is_unchecked = self.jit_compile and not (self._runs_as_one_program() and is_of_tensors(x))
        x = check_data(x, "x", x_limits, is_unchecked, target)
        return without_autotune(x), check_data(y, "y", y_limits)

    def _target_index(self):
        return 0 if self.target_name == "x" else 1

    def _limits(self):
        shape = self.params_shape()
        return None if shape is None else self.likelihood.data_range(shape)

    def make_train_function(self, force: bool = False) -> Any:
        """Keras' train function; with XLA all steps of an execution are one program."""
        return self._make_steps("train", self._train, force)

    def make_test_function(self, force: bool = False) -> Any:
        """Keras' test function; with XLA all steps of an execution are one program."""
        return self._make_steps("test", self._test, force)

    def _make_steps(self, name, update, force):
        if getattr(self, f"{name}_function") is not None and not force:
            return getattr(self, f"{name}_function")
        getattr(super(), f"make_{name}_function")(force)
        one_step = getattr(self, f"{name}_function")
        if self._runs_as_one_program():
            check = stack_check(self._limits(), self._target_index())
            steps = CompiledSteps(update, self._results, self.steps_per_execution, check, one_step)
            setattr(self, f"{name}_function", steps)
        return getattr(self, f"{name}_function")

    def _runs_as_one_program(self):
        strategy, own = self.distribute_strategy, type(self)
        return (
            self.jit_compile
            and own.train_step is Fitting.train_step
            and own.test_step is Fitting.test_step
            and not self.run_eagerly
            and self.steps_per_execution > 1
            and strategy.num_replicas_in_sync == 1
            and not is_multi_worker(strategy)
        )

    def train_step(self, data: Any) -> Any:
        self._train(data)
        return self._results()

    def test_step(self, data: Any) -> Any:
        self._test(data)
        return self._results()

    def _num_replicas(self):
        return self.distribute_strategy.num_replicas_in_sync

    def _check_distribution(self):
        """What must be so on several replicas."""
        check_settings(self)
        if self._compiles_replicas and self._num_replicas() > 1:
            self.check_compilable()
