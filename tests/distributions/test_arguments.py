"""Bad input raises where the object is built, and says what was expected."""

import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

D = tfc.distributions
ONE_HOT = [D.Concrete, D.ExpConcrete]
BINARY = [D.BinConcrete, D.LogitBinConcrete]
relaxed = pytest.mark.parametrize("kind", ONE_HOT + BINARY)
one_hot = pytest.mark.parametrize("kind", ONE_HOT)
LOGITS = tf.zeros([2, 3])


@pytest.mark.parametrize(
    "temperature",
    [0, 0.0, -0.5, float("nan"), float("inf"), [1.0, 0.0], np.array(-1.0), tf.constant(0.0)],
)
def test_temperature_not_positive_and_finite(make, temperature):
    with pytest.raises(
        ValueError,
        match="Invalid value received for argument `temperature`. Expected a positive finite "
        r"number. Received: temperature=",
    ):
        make(temperature)


@pytest.mark.parametrize("temperature", ["1", None, True])
def test_temperature_of_the_wrong_type(make, temperature):
    with pytest.raises(
        TypeError, match="Invalid value received for argument `temperature`. Expected a positive"
    ):
        make(temperature)


@relaxed
def test_temperature_zero_is_found_in_a_graph(kind):
    with pytest.raises(ValueError, match="argument `temperature`"):
        tf.function(lambda: kind(0.0, logits=LOGITS).sample())()


@relaxed
def test_both_or_neither_of_logits_and_probs(kind):
    expected = (
        "Invalid value received for argument `logits`. Expected exactly one of `logits` or "
        "`probs`. Received: "
    )
    with pytest.raises(ValueError, match=f"{expected}logits=<tf.Tensor"):
        kind(1.0, logits=LOGITS, probs=tf.fill([2, 3], 1 / 3))
    with pytest.raises(ValueError, match=f"{expected}logits=None, probs=None"):
        kind(1.0)


@relaxed
@pytest.mark.parametrize("logits", [[1, 2], np.array([1, 2]), tf.constant([1, 2])])
@pytest.mark.parametrize("name", ["logits", "probs"])
def test_integer_logits(kind, logits, name):
    message = f"Invalid value received for argument `{name}`. Expected floating-point values"
    for error in (TypeError, ValueError):
        with pytest.raises(error, match=message):
            kind(1.0, **{name: logits})


@one_hot
@pytest.mark.parametrize("shape", [[1], [5, 1], [5, 0]])
@pytest.mark.parametrize("name", ["logits", "probs"])
def test_fewer_than_two_classes(kind, shape, name):
    with pytest.raises(
        ValueError,
        match=f"Invalid value received for argument `{name}`. Expected at least two classes",
    ):
        kind(1.0, **{name: tf.ones(shape)})


@one_hot
def test_scalar_logits(kind):
    with pytest.raises(ValueError, match="`logits`. Expected at least one dimension"):
        kind(1.0, logits=0.5)


@one_hot
@pytest.mark.parametrize("batch", [[4], [1], [2, 5]])
def test_a_class_dimension_in_the_temperature(kind, batch):
    with pytest.raises(
        ValueError,
        match=r"argument `temperature`. Expected one for each member of the batch, of shape "
        rf"\({', '.join(map(str, batch))},?\) and with no class dimension \(use "
        r"`temperature\[..., 0\]`\). Received: temperature of shape",
    ):
        kind(tf.ones([*batch, 1]), logits=tf.zeros([*batch, 3]))


@one_hot
def test_a_true_outer_batch_is_allowed(kind):
    distribution = kind(tf.ones([5, 1]), logits=tf.zeros([4, 3]))
    assert distribution.batch_shape == [5, 4]
    # Slices of it stay what they are, also where they have the shapes ruled out above.
    assert distribution[:4].batch_shape == [4, 4]
    assert distribution[:1, :1].batch_shape == [1, 1]
    assert kind(tf.ones([1]), logits=tf.zeros([3])).batch_shape == [1]


@one_hot
def test_one_hot_shapes_that_do_not_broadcast(kind):
    with pytest.raises(
        ValueError,
        match=r"`temperature`. Expected a shape that broadcasts against `logits\[..., 0\]` of "
        r"shape \(2,\). Received: temperature of shape \(5,\)",
    ):
        kind(tf.ones([5]), logits=LOGITS)


@pytest.mark.parametrize("kind", BINARY)
def test_binary_shapes_that_do_not_broadcast(kind):
    with pytest.raises(
        ValueError,
        match=r"`temperature`. Expected a shape that broadcasts against `probs` of shape "
        r"\(2, 3\). Received: temperature of shape \(2,\)",
    ):
        kind(tf.ones([2]), probs=tf.fill([2, 3], 0.5))


class TestLogisticNormal:
    def test_shapes(self):
        with pytest.raises(ValueError, match=r"`scale_diag`. Expected a shape that broadcasts"):
            D.LogisticNormal(tf.zeros([3]), tf.ones([2]), 1.0)
        with pytest.raises(ValueError, match=r"`loc`. Expected a shape \[..., K-1\]"):
            D.LogisticNormal(0.0, tf.ones([2]), 1.0)
        with pytest.raises(ValueError, match=r"`scale_diag`. Expected a shape \[..., K-1\]"):
            D.LogisticNormal(tf.zeros([2]), 1.0, 1.0)
        with pytest.raises(ValueError, match=r"`loc`. Expected a shape \[..., K-1\]"):
            D.LogisticNormal(tf.zeros([4, 0]), tf.ones([4, 0]), 1.0)
        with pytest.raises(ValueError, match="with no class dimension"):
            D.LogisticNormal(tf.zeros([4, 2]), tf.ones([4, 2]), tf.ones([4, 1]))
        with pytest.raises(ValueError, match=r"broadcasts against `loc\[..., 0\]`"):
            D.LogisticNormal(tf.zeros([4, 2]), tf.ones([2]), tf.ones([3]))

    def test_integers(self):
        for arguments in (([1, 2], [1.0, 1.0]), ([1.0, 2.0], [1, 1])):
            with pytest.raises(TypeError, match="Expected floating-point values"):
                D.LogisticNormal(*arguments, 1.0)

    def test_scale(self):
        with pytest.raises(tf.errors.InvalidArgumentError, match="`scale_diag` must be positive"):
            D.LogisticNormal(tf.zeros([2]), -tf.ones([2]), 1.0, validate_args=True)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_known_only_at_run_time(make, value):
    variable = tf.Variable(1.0)
    checked = make(variable, validate_args=True)
    checked.sample(seed=0)
    variable.assign(value)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`temperature` must be"):
        checked.sample(seed=0)

    @tf.function
    def run(temperature):
        return make(temperature, validate_args=True).sample(seed=0)

    with pytest.raises(tf.errors.InvalidArgumentError, match="`temperature` must be"):
        run(tf.constant(value))


@relaxed
def test_probs_are_checked_at_run_time(kind):
    for probs, message in (([-0.5, 1.5], "must not be negative"), ([0.5, 1.5], "at most 1")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            kind(1.0, probs=probs, validate_args=True)


@one_hot
def test_probs_must_sum_to_one(kind):
    with pytest.raises(tf.errors.InvalidArgumentError, match="must sum to 1"):
        kind(1.0, probs=[0.5, 0.2], validate_args=True)


@one_hot
def test_unknown_classes_are_counted_at_run_time(kind):
    @tf.function(input_signature=[tf.TensorSpec(None)])
    def run(logits):
        return kind(1.0, logits=logits, validate_args=True).sample(seed=0)

    assert run(tf.zeros([2, 3])).shape == [2, 3]
    with pytest.raises(tf.errors.InvalidArgumentError, match="at least two classes"):
        run(tf.zeros([2, 1]))


def test_samples_outside_the_support():
    def check(distribution, value, message):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            distribution.log_prob(tf.constant(value))

    simplex = (
        D.Concrete(1.0, logits=tf.zeros([2]), validate_args=True),
        D.LogisticNormal(tf.zeros([1]), tf.ones([1]), 1.0, validate_args=True),
    )
    for distribution in simplex:
        check(distribution, [0.5, 0.6], "A sample must sum to 1")
        check(distribution, [-0.5, 1.5], "A sample must not be negative")
    log_space = D.ExpConcrete(1.0, logits=tf.zeros([2]), validate_args=True)
    check(log_space, [0.1, -1.0], "A sample must not be positive")
    check(log_space, [-0.1, -1.0], "must sum to 1")
    binary = D.BinConcrete(1.0, logits=0.0, validate_args=True)
    check(binary, -0.1, "A sample must not be negative")
    check(binary, 1.1, "A sample must be at most 1")


@pytest.mark.parametrize("temperature", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_own_samples_pass_the_checks(make, temperature, dtype):
    logits = 10.0 * np.random.default_rng(0).normal(size=[2, 1000])
    distribution = make(temperature, dtype=dtype, logits=logits, validate_args=True)
    distribution.log_prob(distribution.sample(5, seed=0))
