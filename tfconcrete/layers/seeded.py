"""What every random layer shares: a seed stream of its own that is saved with it."""

import contextlib
import itertools
import numbers
import threading
import weakref
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfconcrete._checks import invalid_type
from tfconcrete._seeds import as_seed, fold_in
from tfconcrete._streams import Stream
from tfconcrete._typing import Seed
from tfconcrete.layers.calls import current_call

_STATE = "seed_generator_state"
# For each model call or step under way: its layers, by the seed that they were given.
_CALLED = weakref.WeakKeyDictionary()
# Replicas have a thread each.
_threads = threading.local()


class _Step:
    """A step of a model under way."""


@contextlib.contextmanager
def within_one_model():
    """Inside, layers that were given the same int draw different noise, as in a model's call."""
    outer = getattr(_threads, "step", None)
    _threads.step = outer or _Step()
    try:
        yield
    finally:
        _threads.step = outer


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
            the same int draw the same noise when called on their own, and different noise
            inside one model; two calls of one layer draw different noise.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.
    """

    def __init__(self, seed: Seed = None, **kwargs) -> None:
        super().__init__(**kwargs)
        self.seed_generator = _make_generator(seed)
        self.seed = self.seed_generator.get_config()["seed"]
        self._given_seeds: Any = None
        self._owns_generator = seed is None or isinstance(seed, numbers.Integral)
        # Keras leaves the state of a generator out of its files, and TensorFlow out of
        # its checkpoints: a resumed run would replay its noise.
        self._seed_checkpoint = tf.Module()
        self._seed_checkpoint.state = self.seed_generator.state

    @contextlib.contextmanager
    def given_seed(self, seed: Seed):
        """Inside, the first seed is this one, further ones derive from it; no variable changes."""
        further = (fold_in(seed, n, Stream.CALL) for n in itertools.count(1))
        self._given_seeds = itertools.chain([seed], further)
        try:
            yield
        finally:
            self._given_seeds = None

    def next_seed(self):
        """The next int32 `[2]` seed of the stream, another one on each replica."""
        if self._given_seeds is not None:
            return next(self._given_seeds)
        seed = as_seed(self.seed_generator)
        twin = self._number_among_twins()
        if twin:
            seed = fold_in(seed, twin, Stream.TWIN)
        context = tf.distribute.get_replica_context()
        if context is not None and context.num_replicas_in_sync > 1:
            replica = context.replica_id_in_sync_group
            seed = fold_in(seed, replica, Stream.REPLICA)
        return seed

    def _number_among_twins(self):
        """How many other layers with this seed the running step or call has met before."""
        if not self._owns_generator:
            return 0
        call = current_call()
        scope = getattr(_threads, "step", None)
        if scope is None and call is not None and call.entry_layer is not self:
            scope = call
        if scope is None:
            return 0
        twins = _CALLED.setdefault(scope, {}).setdefault(self.seed, [])
        if not any(twin is self for twin in twins):
            twins.append(self)
        return next(number for number, twin in enumerate(twins) if twin is self)

    def save_own_variables(self, store):
        super().save_own_variables(store)
        store[_STATE] = self.seed_generator.state

    def load_own_variables(self, store):
        variables = {key: store[key] for key in list(store.keys())}
        state = variables.pop(_STATE, None)
        self.load_weights_of(variables)
        if state is not None:
            self.seed_generator.state.assign(state)

    def load_weights_of(self, variables):
        """Assigns the layer's weights from arrays by number, as Keras stores them."""
        super().load_own_variables(variables)

    def get_config(self) -> dict[str, Any]:
        # A generator stays itself, for Keras to describe: layers that share one then share
        # it in a `.keras` file too, where two of the same seed would draw the same noise.
        seed = self.seed if self._owns_generator else self.seed_generator
        return {**super().get_config(), "seed": seed}
