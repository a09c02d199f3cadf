"""Tokens sampled inside a Keras RNN: what is fed back, its noise, its gradient, its codes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tfconcrete.export.c_loader import run_separately

TIME, TOKENS, FEATURES = 5, 4, 3


def make_rnn(inner=None, sampler=None):
    keras.utils.set_random_seed(0)
    inner = inner or keras.layers.GRUCell(6)
    sampler = sampler or tfc.GapStraightThrough(0.5, seed=1, name="token")
    cell = tfc.layers.SamplingCell(inner, sampler, TOKENS)
    return keras.layers.RNN(cell, return_sequences=True)


def make_inputs(batch=7):
    rng = np.random.default_rng(0)
    return tf.constant(rng.normal(size=[batch, TIME, FEATURES]).astype("float32"))


INNER = {
    "gru": lambda: keras.layers.GRUCell(6),
    "lstm": lambda: keras.layers.LSTMCell(6),
    "stack": lambda: keras.layers.StackedRNNCells(
        [keras.layers.GRUCell(6), keras.layers.SimpleRNNCell(5)]
    ),
}


@pytest.mark.parametrize("name", INNER)
def test_each_step_reads_the_token_before(name):
    rnn = make_rnn(INNER[name]())
    x = make_inputs()
    tokens = rnn(x)
    assert tokens.shape == (7, TIME, TOKENS)
    cell = rnn.cell
    cell.logits.kernel.assign(10 * cell.logits.kernel)
    tokens = rnn(x).numpy()
    states, token = cell.cell.get_initial_state(7), tf.zeros([7, TOKENS])
    states = states if isinstance(states, (list, tuple)) else [states]
    for step in range(TIME):
        output, states = cell.cell(tf.concat([x[:, step], token], -1), states)
        token = tf.one_hot(tf.argmax(cell.logits(output), -1), TOKENS)
        np.testing.assert_array_equal(tokens[:, step], token)
    assert len(np.unique(tokens.argmax(-1))) > 1


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_step_draws_noise_of_its_own(jit_compile):
    rnn = make_rnn()
    rnn.build((None, TIME, FEATURES))
    rnn.cell.logits.kernel.assign(tf.zeros_like(rnn.cell.logits.kernel))
    rows = 3000
    draw = tf.function(lambda x: rnn(x, training=True), jit_compile=jit_compile)
    x = tf.zeros([rows, TIME, FEATURES])
    codes = [np.argmax(draw(x), -1) for _ in range(2)]
    error = np.sqrt(0.25 * 0.75 / rows)
    for a, b in (
        (codes[0][:, 0], codes[0][:, 1]),
        (codes[0][:, 3], codes[0][:, 4]),
        (codes[0][:, 2], codes[1][:, 2]),
    ):
        assert abs(np.mean(a == b) - 0.25) < 5 * error
        for token in range(TOKENS):
            assert abs(np.mean(a == token) - 0.25) < 5 * error


def test_the_last_token_is_differentiated_through_the_first():
    """A cell that knows no inputs and no past but the token: its gradient goes through it."""
    rnn = make_rnn(keras.layers.SimpleRNNCell(6), tfc.ConcreteSample(1.0, seed=0))
    x = make_inputs()
    rnn.build(x.shape)
    inner = rnn.cell.cell
    inner.recurrent_kernel.assign(tf.zeros_like(inner.recurrent_kernel))
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(rnn(x, training=True)[:, -1] * tf.range(4.0))
    by_step = np.abs(tape.gradient(loss, x)).max((0, 2))
    assert np.all(by_step > 0), "what was told at first matters at last, by the tokens"


def test_a_schedule_advances_once_for_each_sequence():
    schedule = tfc.schedules.ExponentialAnnealing(2.0, 0.1, 0.5)
    rnn = make_rnn(sampler=tfc.GapStraightThrough(schedule, seed=0))
    x = make_inputs()
    rnn.build(x.shape)
    call = tf.function(lambda: rnn(x, training=True))
    for step in range(3):
        call()
        np.testing.assert_allclose(rnn.cell.sampler.temperature, schedule(step), rtol=1e-6)


@pytest.mark.slow
def test_fit_compiled_and_restored(tmp_path):
    x, tokens = keras.Input([TIME, FEATURES]), make_rnn()
    sample = tokens(x)
    model = keras.Model(x, keras.layers.Dense(2)(keras.layers.Flatten()(sample)))
    model.compile("adam", "mse", jit_compile=True)
    inputs = make_inputs(16)
    before = tokens.cell.logits.kernel.numpy()
    model.fit(inputs, np.ones([16, 2]), verbose=0, epochs=2)
    assert np.abs(tokens.cell.logits.kernel - before).max() > 0
    model.save(tmp_path / "writer.keras")
    restored = keras.models.load_model(tmp_path / "writer.keras")
    np.testing.assert_array_equal(model(inputs), restored(inputs))
    assert restored.layers[1].cell.sampler.gap == 1.0


def test_codes_of_all_steps_through_the_c_loader(tmp_path):
    x = keras.Input([TIME, FEATURES], name="plan")
    writer = keras.Model(x, {"codes": tfc.layers.Codes(name="codes")(make_rnn()(x))})
    path = tfc.export.save_discrete(writer, tmp_path / "writer")
    inputs = {str(batch): make_inputs(batch).numpy() for batch in (1, 9)}
    requests = {name: ("serving_default", {"plan": value}) for name, value in inputs.items()}
    for name, answer in run_separately(path, requests).items():
        assert list(answer) == ["codes"] and answer["codes"].dtype == np.int32
        assert answer["codes"].shape == (int(name), TIME)
        np.testing.assert_array_equal(answer["codes"], writer(inputs[name])["codes"])


def test_codes_of_masked_and_unknown_rows():
    samples = tf.constant([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [np.nan] * 3, [0.2, 0.3, 0.5]])
    assert tfc.layers.Codes()(samples).numpy().tolist() == [1, -1, -1, 2]
    assert tfc.layers.Codes(axis=0)(tf.transpose(samples)).numpy().tolist() == [1, -1, -1, 2]
    layer = tfc.layers.Codes.from_config(tfc.layers.Codes(axis=1).get_config())
    assert layer(keras.Input([4, 3])).shape == (None, 3)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("mode", ["argmax", "sample", "probs", "training"])
def test_codes_of_logarithms(mode, dtype):
    logits = tf.constant([[0.0, 30.0, 1.0], [30.0, 0.0, 0.0], [1.0, 1.0, 1.0], [np.nan] * 3])
    keep = tf.constant([[True] * 3, [True] * 3, [False] * 3, [True] * 3])
    inference = "argmax" if mode == "training" else mode
    layer = tfc.layers.ExpConcreteSample(0.5, inference=inference, seed=0, dtype=dtype)
    samples = layer(logits, class_mask=keep, training=mode == "training")
    assert tfc.layers.Codes(dtype=dtype)(samples).numpy().tolist() == [1, 0, -1, -1]


@pytest.mark.parametrize(
    "argument, value, error",
    [
        ("cell", keras.layers.Dense(3), TypeError),
        ("sampler", keras.layers.Softmax(), TypeError),
        ("sampler", tfc.IGRSample(), TypeError),
        ("num_classes", 1, ValueError),
    ],
)
def test_errors(argument, value, error):
    arguments = {"cell": keras.layers.GRUCell(3), "sampler": tfc.ConcreteSample(), "num_classes": 4}
    with pytest.raises(error, match=f"`{argument}`.*Expected.*Received"):
        tfc.layers.SamplingCell(**{**arguments, argument: value})
