"""Samplers inside loops: a schedule advances once a batch, codes come whole or not at all."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.grids import grid

TIME, CLASSES = 4, 3


@keras.saving.register_keras_serializable("tests")
class ChoosingCell(keras.layers.Layer):
    """A cell that samples a class in each step and adds it up."""

    def __init__(self, sampler=None, **kwargs):
        super().__init__(**kwargs)
        self.state_size = CLASSES
        self.sampler = sampler or tfc.ConcreteSample(SCHEDULE, hard=True, seed=0, name="z")

    def build(self, input_shape):
        self.sampler.build(input_shape)

    def call(self, inputs, states, training=None):
        choice = self.sampler(inputs, training=training)
        return choice, [states[0] + choice]


SCHEDULE = tfc.schedules.ExponentialAnnealing(1.0, 0.1, rate=0.01)
X = np.random.default_rng(0).normal(size=[6, TIME, CLASSES]).astype("float32")


def rnn(**kwargs):
    cell = ChoosingCell()
    return keras.layers.RNN(cell, return_sequences=True, **kwargs), cell.sampler


def time_distributed():
    sampler = tfc.ConcreteSample(SCHEDULE, hard=True, seed=0, name="z")
    return keras.layers.TimeDistributed(sampler), sampler


@keras.saving.register_keras_serializable("tests")
class WhileLoop(keras.layers.Layer):
    """A sampler inside `tf.while_loop`."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.sampler = tfc.ConcreteSample(SCHEDULE, hard=True, seed=0, name="z")

    def build(self, input_shape):
        self.sampler.build((input_shape[0], input_shape[2]))

    def call(self, x, training=None):
        def body(step, total):
            return [step + 1, total + self.sampler(x[:, step], training=training)]

        return tf.while_loop(
            lambda step, _: step < TIME,
            body,
            [0, tf.zeros_like(x[:, 0])],
            maximum_iterations=None if tf.executing_eagerly() else TIME,
        )[1]


def while_loop():
    layer = WhileLoop()
    return layer, layer.sampler


MAKERS = {
    "rnn": rnn,
    "unrolled": lambda: rnn(unroll=True),
    "time_distributed": time_distributed,
    "while_loop": while_loop,
}


@pytest.mark.parametrize(
    ("maker", "jit_compile"),
    grid(MAKERS, [False, True], quick=lambda maker, jit: not jit or maker == "rnn"),
)
def test_a_schedule_advances_once_a_batch(maker, jit_compile):
    layer, sampler = MAKERS[maker]()
    inputs = keras.Input([TIME, CLASSES])
    model = keras.Model(inputs, layer(keras.layers.Dense(CLASSES)(inputs)))
    model.compile("sgd", "mse", jit_compile=jit_compile)
    y = np.zeros(model.output_shape[1:], "float32")
    model.fit(X, np.repeat(y[np.newaxis], 6, 0), batch_size=2, epochs=2, verbose=0)
    assert int(sampler._schedule_step) == 6
    np.testing.assert_allclose(sampler.temperature.numpy(), float(SCHEDULE(5)), rtol=1e-6)


@pytest.mark.parametrize("maker", ["rnn", "unrolled"])
def test_eager_loops_advance_once_too(maker):
    layer, sampler = MAKERS[maker]()
    layer(X, training=True)
    layer(X, training=True)
    assert int(sampler._schedule_step) == 2


@pytest.mark.parametrize("maker", MAKERS)
def test_every_step_draws_its_own_noise(maker):
    layer, _ = MAKERS[maker]()
    if maker == "while_loop":
        total = layer(tf.zeros([200, TIME, CLASSES]), training=True).numpy()
        assert (total.max(-1) < TIME).mean() > 0.8, "steps that agree count to TIME"
    else:
        sample = layer(tf.zeros([200, TIME, CLASSES]), training=True).numpy()
        agree = (sample.argmax(-1) == sample.argmax(-1)[:, :1]).all(-1).mean()
        assert agree < 0.2


@pytest.mark.parametrize("maker", MAKERS)
def test_exports_have_the_codes_of_every_step_or_none(maker, tmp_path):
    layer, _ = MAKERS[maker]()
    inputs = keras.Input([TIME, CLASSES], name="x")
    model = keras.Model(inputs, layer(inputs))
    if maker in ("rnn", "while_loop"):
        with pytest.warns(UserWarning, match="inside a loop"):
            path = tfc.export.save_discrete(model, str(tmp_path / "model"))
    else:
        path = tfc.export.save_discrete(model, str(tmp_path / "model"))
    served = tf.saved_model.load(path).signatures["serving_default"](x=tf.constant(X))
    codes = [value for name, value in served.items() if "codes" in name]
    if maker in ("rnn", "while_loop"):
        assert not codes
    else:
        assert len(codes) == 1
        np.testing.assert_array_equal(codes[0], X.argmax(-1))


def test_bidirectional():
    layer = keras.layers.Bidirectional(rnn()[0], merge_mode="concat")
    inputs = keras.Input([TIME, CLASSES])
    model = keras.Model(inputs, layer(keras.layers.Dense(CLASSES)(inputs)))
    model.compile("sgd", "mse")
    model.fit(X, np.zeros([6, TIME, 2 * CLASSES]), batch_size=3, verbose=0)
    steps = [int(s._schedule_step) for s in tfc.layers.sampling_layers(model)]
    assert steps == [2, 2]
