"""Run by `test_determinism.py` in a process of its own, since the setting is for good."""

import itertools

import keras
import numpy as np
import tensorflow as tf

from tests.devices.functions import SHAPE, with_gradient
from tests.devices.models import PIXELS, ROWS
from tests.devices.sampling_layers import LAYERS, MANY, MODES, layer_input

tf.config.experimental.enable_op_determinism()


def outputs(name, mode, shape):
    """Everything a layer computes, from a fresh layer and fixed seeds."""
    keras.utils.set_random_seed(1)
    layer = LAYERS[name](inference=mode)
    logits = tf.constant(np.random.default_rng(0).normal(size=shape), tf.float32)
    training = with_gradient(lambda x, seed: layer(layer_input(name, x), training=True))
    discrete = layer(layer_input(name, logits), training=False)
    return tf.nest.flatten([tf.function(training)(logits, 0), discrete])


for name, mode, shape in itertools.product(LAYERS, MODES, (SHAPE, MANY)):
    first, second = outputs(name, mode, shape), outputs(name, mode, shape)
    for x, y in zip(first, second, strict=True):
        np.testing.assert_array_equal(x.numpy(), y.numpy(), err_msg=f"{name} {mode}")


def trained():
    """Weights after two epochs of a functional model with one layer of each kind."""
    keras.utils.set_random_seed(1)
    x = keras.Input((PIXELS,))
    logits = keras.layers.Reshape((3, 4))(keras.layers.Dense(12)(x))
    samples = [LAYERS[name]()(layer_input(name, logits)) for name in LAYERS if name[:3] != "IGR"]
    y = keras.layers.Dense(1)(keras.layers.Flatten()(keras.layers.Average()(samples)))
    model = keras.Model(x, y)
    model.compile("adam", "mse")
    data = np.random.default_rng(0).normal(size=[2 * ROWS, PIXELS])
    model.fit(data, data[:, :1], batch_size=ROWS, epochs=2, verbose=0)
    return model.get_weights()


for x, y in zip(trained(), trained(), strict=True):
    np.testing.assert_array_equal(x, y)
print("deterministic")
