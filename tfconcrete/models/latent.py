"""A sampling layer inside a model: its variables for one example, and their place."""

import keras
import tensorflow as tf

from tfconcrete._checks import invalid_type, invalid_value
from tfconcrete._seeds import fold_in
from tfconcrete._streams import Stream
from tfconcrete.layers import SamplingLayer


class Latent:
    """A sampling layer as one level of a model.

    Args:
        layer: A `SamplingLayer`.
        level: Its number from the data upwards. Levels draw different noise, whatever
            seeds their layers were given.

    Attributes:
        params_shape: The shape of its parameters, `(batch, ...)`; a list for several.
    """

    def __init__(self, layer, level=0):
        if not isinstance(layer, SamplingLayer):
            raise invalid_type("latent", "a sampling layer of `tfc.layers`", layer)
        if getattr(layer, "kl_weight", 0.0):
            raise ValueError(
                "Invalid value received for argument `latent`. Expected a layer with "
                "kl_weight=0: a model has the KL terms of its bound, and counts no layer's. "
                f"Received: a layer with kl_weight={layer.kl_weight}"
            )
        self.layer, self.level = layer, level
        self.params_shape = None

    @property
    def variable(self):
        """The layer's `tfc.variables.Variable`, once built with axes counted from the end."""
        variable = self.layer.variable
        return variable if self.params_shape is None else variable.from_end(self.params_shape)

    def build(self, params):
        """Builds the layer on symbolic parameters `[batch, ...]`; its symbolic output."""
        count = len(params) if isinstance(params, (list, tuple)) else 1
        if count != self.variable.num_params:
            names = {1: "one output, the logits", 2: "two outputs, [loc, log_scale]"}
            expected = names[self.variable.num_params]
            raise invalid_value("encoder", f"{expected} of a {type(self.layer).__name__}", params)
        params = list(params) if count > 1 else params
        output = self.layer.compute_output_spec(params)
        if not self.layer.built:
            self.layer.build(keras.tree.map_structure(lambda x: x.shape, params))
        self.params_shape = keras.tree.map_structure(lambda x: tuple(x.shape), params)
        return output

    @property
    def code_shape(self):
        """The shape of the codes, `(batch, ...)`."""
        return self.variable.code_shape(self.params_shape)

    @property
    def num_states(self):
        """How many states each variable has."""
        return self.variable.states_along(self.params_shape)

    def next_seed(self):
        """The next seed of the layer, another one than that of a layer on another level."""
        seed = self.layer.next_seed()
        return fold_in(seed, self.level, Stream.LATENT) if self.level else seed

    def temperature(self):
        """The layer's present temperature."""
        return self.layer.current_temperature()

    def sum_variables(self, values):
        """Sums a value for each variable over those of one example."""
        ndims = len(self.variable.variable_shape(self.params_shape)) - 1
        return tf.reduce_sum(values, axis=list(range(-ndims, 0)))

    def output(self, params, training=None):
        """The layer's own output as a decoder sees it; the argmax outside training."""
        if training or self.layer.overridden_mode is not None:
            output = self.layer(params, training=training)
        else:
            self.layer.note_compiled(training)
            self.layer.warn_without_gradient(training, params)
            output = self.layer.argmax(params)
        return self.layer.from_output(output)

    def state_and_codes(self, params):
        """The most probable state as a decoder sees it, and its int32 codes."""
        return self.variable.state_and_codes(params, temperature=self.temperature())

    def from_codes(self, codes):
        """The states of int32 codes as a decoder sees them; zeros for -1 and what is none."""
        return self.variable.from_codes(codes, self.num_states)

    def nan_without_codes(self, answer, codes):
        """An answer `[batch, ...]` to int32 codes, NaN in rows with a number that is none.

        So that it cannot be mistaken for one. Put on the answer: a NaN in front of a
        decoder would be lost in its first rectifier.
        """
        valid = tf.logical_and(codes >= -1, codes < self.num_states)
        valid = tf.reduce_all(valid, axis=list(range(1, codes.shape.rank)))
        valid = tf.reshape(valid, [-1] + [1] * (answer.shape.rank - 1))
        return tf.where(valid, answer, tf.constant(float("nan"), answer.dtype))

    def check_codes(self, codes):
        """Raises unless `codes` are whole numbers of the shape and range of the states."""
        shape, states = self.code_shape, self.num_states
        expected = (
            f"whole numbers from 0 to {states - 1} (or -1 for no state) of shape "
            f"{('examples', *shape[1:])}"
        )
        fits = tf.TensorShape(shape).is_compatible_with(codes.shape)
        if codes.dtype.kind not in "iu" or not fits:
            raise ValueError(
                f"Invalid value received for argument `codes`. Expected {expected}. "
                f"Received: {codes.dtype.name} values of shape {codes.shape}"
            )
        if codes.size and not (codes.min() >= -1 and codes.max() < states):
            raise ValueError(
                f"Invalid value received for argument `codes`. Expected {expected}. "
                f"Received: values from {codes.min()} to {codes.max()}"
            )

    def kl_option(self, kl, num_samples):
        """The `KLOption` for the argument `kl`, `"auto"` resolved.

        The KL of the discrete variables has no place inside a bound of several samples,
        where each needs its own weight.
        """
        options = {
            option.name: option
            for option in self.variable.kl_options
            if num_samples == 1 or not option.is_discrete
        }
        if isinstance(kl, str) and kl == "auto":
            return next(iter(options.values()))
        if kl not in options:
            samples = "" if num_samples == 1 else f" with num_samples={num_samples}"
            names = ", ".join(f'"{option}"' for option in ("auto", *options))
            layer = type(self.layer).__name__
            raise invalid_value("kl", f"one of {names} for a {layer} latent{samples}", kl)
        return options[kl]
