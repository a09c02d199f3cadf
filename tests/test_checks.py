"""Argument errors say what was expected and what was received."""

import numpy as np
import pytest
import tensorflow as tf

from tfconcrete import _checks, relaxations


@pytest.mark.parametrize(
    "value", [0, 0.0, -1, float("nan"), float("inf"), np.array([1.0, 0.0]), tf.constant(-1.0)]
)
def test_temperature_values(value):
    message = r"Invalid value received for argument `temperature`\. Expected a positive finite"
    with pytest.raises(ValueError, match=message):
        _checks.check_temperature(value)


@pytest.mark.parametrize("value", [None, "0.5", True, lambda step: 1.0])
def test_temperature_types(value):
    message = r"Invalid value received for argument `temperature`\. Expected a positive finite"
    with pytest.raises(TypeError, match=message):
        _checks.check_temperature(value)


def test_temperature_known_only_later_passes():
    _checks.check_temperature(tf.Variable(-1.0))
    seen = []

    @tf.function
    def traced(temperature):
        seen.append(_checks.check_temperature(temperature))

    traced(tf.constant(-1.0))
    assert len(seen) == 1


def test_temperature_accepts_what_numbers_come_as():
    for value in (1, 0.5, np.float32(0.5), np.ones([3]), tf.constant(2.0), tf.Variable(1.0)):
        assert _checks.check_temperature(value) is value
    assert _checks.check_temperature(tf.constant(1.0, tf.bfloat16)) is not None


def test_choice():
    message = r'argument `match`\. Expected one of "a", "b"\. Received: match=\'c\''
    with pytest.raises(ValueError, match=message):
        _checks.check_choice("c", "match", ("a", "b"))
    with pytest.raises(TypeError, match="argument `match`"):
        _checks.check_choice(3, "match", ("a", "b"))


def test_count():
    with pytest.raises(ValueError, match=r"at least 1\. Received: num_samples=0"):
        _checks.check_count(0, "num_samples")
    for value in (1.0, True, "3", None):
        with pytest.raises(TypeError, match="argument `num_samples`"):
            _checks.check_count(value, "num_samples")


def test_number():
    for value in (-0.1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"Expected a share\. Received: share="):
            _checks.check_number(value, "share", "a share", minimum=0.0, maximum=1.0)
    with pytest.raises(TypeError, match="argument `share`"):
        _checks.check_number("0.1", "share", "a share")


def test_axis():
    with pytest.raises(ValueError, match=r"axis of logits of rank 2, from -2 to 1.*axis=2"):
        _checks.check_axis(2, rank=2)
    with pytest.raises(TypeError, match="argument `axis`"):
        _checks.check_axis(1.0)


def test_one_of():
    start = "Invalid value received for argument `logits`. Expected exactly one of `logits` or"
    for value, received in ((None, "logits=None, probs=None"), (1, "logits=1, probs=1")):
        with pytest.raises(ValueError, match=f"{start} `probs`. Received: {received}"):
            _checks.check_one_of(logits=value, probs=value)


RELAXATIONS = [relaxations.concrete, relaxations.exp_concrete]


@pytest.mark.parametrize("function", RELAXATIONS)
class TestRelaxationArguments:
    def test_temperature(self, function):
        with pytest.raises(ValueError, match="argument `temperature`.*temperature=0"):
            function(tf.zeros([3]), 0)

    @pytest.mark.parametrize("logits", [tf.constant([1, 2]), np.array([1, 2]), [1, 2]])
    @pytest.mark.parametrize("error", [ValueError, TypeError])
    def test_integer_logits(self, function, logits, error):
        with pytest.raises(error, match="argument `logits`. Expected floating-point values"):
            function(logits, 0.5)

    def test_one_class(self, function):
        with pytest.raises(ValueError, match="argument `logits`.*at least two classes"):
            function(tf.zeros([3, 1]), 0.5)

    def test_scalar_logits(self, function):
        with pytest.raises(ValueError, match="axis"):
            function(tf.zeros([]), 0.5)

    def test_axis_out_of_range(self, function):
        with pytest.raises(ValueError, match="argument `axis`.*axis=2"):
            function(tf.zeros([3, 3]), 0.5, axis=2)

    def test_mask_that_is_not_boolean(self, function):
        for error in (ValueError, TypeError):
            with pytest.raises(error, match="argument `class_mask`. Expected a boolean mask"):
                function(tf.zeros([3]), 0.5, class_mask=tf.ones([3]))

    def test_mask_that_does_not_broadcast(self, function):
        with pytest.raises(ValueError, match=r"argument `class_mask`.*shape \(4,\)"):
            function(tf.zeros([2, 3]), 0.5, class_mask=tf.ones([4], tf.bool))

    def test_mask_larger_than_the_logits(self, function):
        with pytest.raises(ValueError, match=r"broadcasts to logits of shape \(3,\)"):
            function(tf.zeros([3]), 0.5, class_mask=tf.ones([2, 3], tf.bool))

    def test_temperature_that_does_not_broadcast(self, function):
        with pytest.raises(ValueError, match="argument `temperature`.*broadcasts"):
            function(tf.zeros([2, 3]), tf.ones([4]))
