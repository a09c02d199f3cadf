"""What every random layer shares: a seed stream of its own that is saved with it."""

import numbers

import keras
import numpy as np
import tensorflow as tf

from tfconcrete._checks import invalid_type
from tfconcrete._seeds import as_seed, fold_in

_STATE = "seed_generator_state"


def _make_generator(seed):
    if isinstance(seed, dict):
        seed = keras.saving.deserialize_keras_object(seed)
    if isinstance(seed, keras.random.SeedGenerator):
        return seed
    if seed is not None:
        if not isinstance(seed, numbers.Integral) or isinstance(seed, (bool, np.bool_)):
            raise invalid_type("seed", "an int, None or a `keras.random.SeedGenerator`", seed)
        seed = int(seed)
    return keras.random.SeedGenerator(seed)


class SeededLayer(keras.layers.Layer):
    """A layer with a `keras.random.SeedGenerator` whose state is saved and restored.

    Args:
        seed: An int, None, or a `keras.random.SeedGenerator` to share. Two layers with
            the same int draw the same noise; two calls of one layer draw different noise.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.
    """

    # What `modes.inference_mode` wants instead of the layer's own `inference`.
    inference_override = None

    def __init__(self, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = _make_generator(seed)
        self.seed = self.seed_generator.get_config()["seed"]
        self._owns_generator = seed is None or isinstance(seed, numbers.Integral)
        # Keras leaves the state of a generator out of its files, and TensorFlow out of
        # its checkpoints: a resumed run would replay its noise.
        self._seed_checkpoint = tf.Module()
        self._seed_checkpoint.state = self.seed_generator.state

    def next_seed(self):
        """The next int32 `[2]` seed of the stream, another one on each replica."""
        seed = as_seed(self.seed_generator)
        context = tf.distribute.get_replica_context()
        if context is not None and context.num_replicas_in_sync > 1:
            seed = fold_in(seed, context.replica_id_in_sync_group)
        return seed

    def current_mode(self, training):
        """"relaxed" in training, else what `inference` or its override says."""
        if training:
            return "relaxed"
        if self.inference_override == "discrete":
            return "argmax" if self.inference == "probs" else self.inference
        return self.inference_override or self.inference

    def save_own_variables(self, store):
        super().save_own_variables(store)
        store[_STATE] = self.seed_generator.state

    def load_own_variables(self, store):
        variables = {key: store[key] for key in list(store.keys())}
        state = variables.pop(_STATE, None)
        super().load_own_variables(variables)
        if state is not None:
            self.seed_generator.state.assign(state)

    def get_config(self):
        # A generator stays itself, for Keras to describe: layers that share one then share
        # it in a `.keras` file too, where two of the same seed would draw the same noise.
        seed = self.seed if self._owns_generator else self.seed_generator
        return {**super().get_config(), "seed": seed}
