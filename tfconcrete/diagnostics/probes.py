"""A layer or a distribution as a batch of draws that can be measured."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfconcrete._checks import check_positive, invalid_type, invalid_value
from tfconcrete._dtypes import cast, working
from tfconcrete._seeds import fold_in
from tfconcrete.layers.base import SamplingLayer
from tfconcrete.layers.distribution import DistributionSample
from tfconcrete.layers.feature_selector import FeatureSelector
from tfconcrete.relaxations.distinct import distinct_concrete

_EXPECTED = "a sampling layer or a distribution with `logits` or `loc` and `scale_diag`"
# Relaxed and discrete laws of TFP, by where their events lie.
_TFP_SPACES = {
    tfd.RelaxedOneHotCategorical: "simplex",
    tfd.ExpRelaxedOneHotCategorical: "log",
    tfd.OneHotCategorical: "simplex",
    tfd.RelaxedBernoulli: "simplex",
    tfd.Bernoulli: "simplex",
}
# What stands for "this class" and "not this class" where events lie.
_STATES = {
    "simplex": (0.0, 1.0),
    "log": (-np.inf, 0.0),
    "logit": (-np.inf, np.inf),
}


@dataclasses.dataclass(frozen=True)
class Probe:
    """Draws of many copies of one variable, with what their values can be read by.

    Attributes:
        name: Of the layer or the distribution.
        temperature: A number, or None where there is none.
        params: Tensors with a dimension of `num_samples`.
        axis: The class axis; None where every element is a variable.
        draw: From `params` and a seed to `(sample, log_prob)`, the second one or None.
        states: What stands for "not this class" and "this class"; None where unknown.
        num_taken: How many classes a variable takes.
    """

    name: str
    temperature: float | None
    params: tuple[tf.Tensor, ...]
    axis: int | None
    draw: Callable
    states: tuple[float, float] | None
    num_taken: int = 1


def probe(subject: Any, num_classes: int, temperature, dtype: str, params, num_samples: int):
    """The `Probe` of a layer, a distribution, or the class of one."""
    if temperature is not None:
        check_positive(temperature, "temperature")
        temperature = float(temperature)
    is_class = inspect.isclass(subject)
    arguments = (num_classes, temperature, dtype, params, num_samples)
    if issubclass(subject if is_class else type(subject), tfd.Distribution):
        return _of_distribution(subject, *arguments)
    if is_class and issubclass(subject, keras.layers.Layer):
        subject = subject()
    if isinstance(subject, SamplingLayer):
        return _of_layer(subject, *arguments)
    if isinstance(subject, FeatureSelector):
        return _of_selector(subject, *arguments)
    if isinstance(subject, DistributionSample):
        return _of_distribution_sample(subject, *arguments)
    raise invalid_type("layer_or_distribution", _EXPECTED, subject)


def _of_layer(layer, num_classes, temperature, dtype, params, num_samples):
    if temperature is None:
        temperature = float(layer.temperature.numpy())
    layer.check_temperature(temperature)
    num_params, variable = layer.variable.num_params, layer.variable
    tensors = _tiled(params, num_params, num_classes, dtype, num_samples, layer.axis)
    given = tensors[0] if num_params == 1 else list(tensors)
    shape = keras.tree.map_structure(lambda x: x.shape, given)
    code_shape = variable.code_shape(shape)
    is_binary = code_shape == tuple(tensors[0].shape)
    codes = tf.range(2) if is_binary else tf.zeros(code_shape, tf.int32)
    states = layer.to_output(variable.from_codes(codes, num_classes, dtype))
    states = tf.cast(states, tf.float64).numpy()

    def draw(params, seed):
        given = params[0] if num_params == 1 else list(params)
        return tf.cast(layer.relax(given, tf.constant(temperature), seed=seed), dtype), None

    return Probe(
        type(layer).__name__,
        temperature,
        tensors,
        None if is_binary else layer.axis,
        draw,
        (states.min(), states.max()),
        max(1, int(np.prod(code_shape)) // num_samples),
    )


def _of_selector(layer, num_classes, temperature, dtype, params, num_samples):
    """The rows of a selector's choice: k samples at a time, no feature twice."""
    if temperature is None:
        temperature = float(layer.temperature.numpy())
    layer.check_temperature(temperature)
    num_calls = -(-num_samples // layer.k)
    tensors = _tiled(params, 1, num_classes, dtype, num_calls * layer.k, -1)

    @tf.function(autograph=False)
    def rows_of(logits, seed):
        return distinct_concrete(logits, temperature, layer.hard, seed)

    def draw(params, seed):
        # As in the layer, whose logits are float32 in every dtype.
        calls = tf.split(tf.cast(params[0], tf.float32), num_calls)
        rows = [rows_of(logits, fold_in(seed, call)) for call, logits in enumerate(calls)]
        return tf.cast(tf.concat(rows, 0), dtype), None

    return Probe(type(layer).__name__, temperature, tensors, -1, draw, _STATES["simplex"])


def _of_distribution_sample(layer, num_classes, temperature, dtype, params, num_samples):
    if temperature is not None:
        raise invalid_value(
            "temperature", f"None: the layer '{layer.name}' has none of its own", temperature
        )
    num_params = 1 if params is None else len(keras.tree.flatten(params))
    tensors = _tiled(params, num_params, num_classes, dtype, num_samples, -1)

    def make(params):
        given = params[0] if num_params == 1 else list(params)
        return layer.distribution(working(given))

    return _drawn_from(make, type(layer).__name__, None, tensors, dtype)


def _of_distribution(subject, num_classes, temperature, dtype, params, num_samples):
    is_class = inspect.isclass(subject)
    cls = subject if is_class else type(subject)
    accepted = inspect.signature(cls.__init__).parameters
    if not ("logits" in accepted or {"loc", "scale_diag"} <= set(accepted)):
        raise invalid_type("layer_or_distribution", _EXPECTED, subject)
    if temperature is not None and "temperature" not in accepted:
        raise invalid_value("temperature", f"None: a `{cls.__name__}` has none", temperature)
    is_gaussian = "logits" not in accepted
    tensors = _tiled(params, 1 + is_gaussian, num_classes, dtype, num_samples, -1)
    fixed = {} if is_class else _in_dtype(subject.parameters, dtype)
    if temperature is not None:
        fixed["temperature"] = cast(temperature, dtype)

    def make(params):
        if is_gaussian:
            own = {"loc": params[0], "scale_diag": tf.exp(params[1])}
        else:
            own = {"logits": params[0], **({"probs": None} if "probs" in accepted else {})}
        return cls(**{**fixed, **own})

    if not is_class and temperature is None and "temperature" in accepted:
        temperature = float(np.max(subject.temperature))
    return _drawn_from(make, cls.__name__, temperature, tensors, dtype)


def _drawn_from(make, name, temperature, tensors, dtype):
    """The probe of a distribution made from parameters with the samples as their batch."""
    d = make(tensors)

    def draw(params, seed):
        d = make(params)
        sample = d.sample(seed=seed)
        return tf.cast(sample, dtype), d.log_prob(tf.identity(sample))

    return Probe(
        name,
        temperature,
        tensors,
        -1 if d.event_shape.rank else None,
        draw,
        _STATES.get(_space(d)),
        int(getattr(d, "k", 1)),
    )


def _space(d):
    """Where events lie: on the "simplex", its "log", as a "logit"; None if elsewhere."""
    if hasattr(d, "discrete") or hasattr(d, "marginals"):
        return getattr(d, "event_space", "simplex")
    return next((space for kind, space in _TFP_SPACES.items() if isinstance(d, kind)), None)


def _in_dtype(parameters, dtype):
    """A distribution's arguments, its float tensors and numbers in `dtype`."""

    def convert(value):
        if hasattr(value, "dtype") and tf.as_dtype(value.dtype).is_floating:
            return tf.cast(value, dtype)
        return value

    return {name: convert(value) for name, value in parameters.items()}


def _tiled(params, num_params, num_classes, dtype, num_samples, axis):
    """One variable's parameters, zeros where None, `num_samples` times beside each other."""
    size = num_classes - (num_params == 2)
    if params is None:
        params = [np.zeros(size)] * num_params
    elif num_params == 1:
        params = [params]
    rank = max(2, axis + 1, -axis)
    tensors = []
    for value in params:
        value = np.asarray(value, np.float64)
        if value.shape != (size,):
            raise invalid_value("params", f"arrays of shape [{size}]", params)
        shape = [1] * rank
        shape[axis] = size
        other = next(i for i in range(rank) if i != axis % rank)
        repeats = [num_samples if i == other else 1 for i in range(rank)]
        tensors.append(tf.cast(tf.constant(np.tile(value.reshape(shape), repeats)), dtype))
    return tuple(tensors)
