"""Schedules against their formulas, as Python numbers, tensors and in compiled code."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

S = tfc.schedules
STEPS = np.array([0, 1, 2, 19, 20, 21, 40, 1000, 10**7], np.int64)
CASES = [
    (S.Constant(0.7), np.full(len(STEPS), 0.7)),
    (S.ExponentialAnnealing(10.0, 2 / 3, 0.3), np.maximum(2 / 3, 10 * np.exp(-0.3 * STEPS))),
    (S.ExponentialAnnealing(5, 0.3, 0), np.full(len(STEPS), 5.0)),
    (S.MixedTemperature(0.1, 0.5, 20), np.where(STEPS % 20 == 0, 0.1, 0.5)),
    (S.MixedTemperature(0.1, 0.5, 1), np.full(len(STEPS), 0.1)),
]


@pytest.mark.parametrize(("schedule", "expected"), CASES, ids=repr)
def test_values(schedule, expected):
    np.testing.assert_allclose([float(schedule(int(s))) for s in STEPS], expected, rtol=1e-5)
    np.testing.assert_allclose(schedule(tf.constant(STEPS)), expected, rtol=1e-5)
    compiled = tf.function(schedule, jit_compile=True)
    np.testing.assert_allclose(compiled(tf.constant(STEPS[3])), expected[3], rtol=1e-5)
    assert schedule(tf.constant(3)).dtype == tf.float32
    assert float(schedule(5)) == float(schedule(5))


def test_large_steps_are_exact():
    """Beyond 2**24 a float32 step could not tell one from the next."""
    schedule = S.MixedTemperature(0.1, 0.5, 10)
    step = 10 * 2**30
    assert float(schedule(tf.constant(step, tf.int64))) == np.float32(0.1)
    assert float(schedule(tf.constant(step + 1, tf.int64))) == np.float32(0.5)


@pytest.mark.parametrize("schedule", [c[0] for c in CASES], ids=repr)
def test_serialisation(schedule):
    data = keras.saving.serialize_keras_object(schedule)
    again = keras.saving.deserialize_keras_object(data)
    assert type(again) is type(schedule)
    assert again.get_config() == schedule.get_config()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: S.Constant(0.0), "value"),
        (lambda: S.Constant("1"), "value"),
        (lambda: S.ExponentialAnnealing(-1.0, 0.5, 0.1), "initial"),
        (lambda: S.ExponentialAnnealing(1.0, float("nan"), 0.1), "minimum"),
        (lambda: S.ExponentialAnnealing(1.0, 0.5, -0.1), "rate"),
        (lambda: S.MixedTemperature(0.0, 0.5, 20), "low"),
        (lambda: S.MixedTemperature(0.1, float("inf"), 20), "mid"),
        (lambda: S.MixedTemperature(0.1, 0.5, 0), "every"),
        (lambda: S.MixedTemperature(0.1, 0.5, 2.5), "every"),
    ],
)
def test_errors(make, name):
    with pytest.raises((ValueError, TypeError), match=f"received for argument `{name}`"):
        make()
