"""What every one-hot estimator owes: exact draws, masks, axes, dtypes, modes."""

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

import tfconcrete as tfc

NAN, INF = float("nan"), float("inf")


def assert_one_hot(sample, axis=-1):
    sample = np.asarray(sample).astype(np.float64)
    assert set(np.unique(sample)) <= {0.0, 1.0}
    np.testing.assert_array_equal(sample.sum(axis), 1.0)


def test_frequencies_are_the_softmax(estimator):
    logits = np.array([0.3, -1.0, 1.2, 0.0], np.float32)
    num = 20_000
    counts = np.sum(estimator(tf.tile(logits[None], [num, 1]), seed=3).numpy(), 0)
    expected = num * scipy.special.softmax(logits)
    assert scipy.stats.chisquare(counts, expected * num / expected.sum()).pvalue > 1e-4


@pytest.mark.parametrize("num_classes", [5, 63, 64, 65, 300])
def test_one_seed_draws_one_class(family, num_classes):
    """Whichever estimator; from 64 classes on those that perturb every class stand apart."""
    logits = tf.random.stateless_normal([200, num_classes], [4, 4])
    draw = tfc.relaxations.categorical(logits, seed=11)
    perturbed = tfc.relaxations.discretize(tfc.relaxations.concrete(logits, 0.5, seed=11))
    if num_classes < 64:
        np.testing.assert_array_equal(perturbed, draw)
    for name, function in family.items():
        own = perturbed if name == "straight_through_gumbel_softmax" else draw
        np.testing.assert_array_equal(function(logits, seed=11), own, err_msg=name)


def draws_along_every_axis(*logits):
    axes = (0, 1, -1)
    return [
        tfc.relaxations.categorical(x, axis=axis, seed=11)
        for x, axis in zip(logits, axes, strict=True)
    ]


@pytest.fixture(scope="module", params=["shape", "rank", "xla"])
def draws_of_unknown(request):
    """One function, whatever the number of classes."""
    spec = tf.TensorSpec(None if request.param == "rank" else [None] * 3)
    return tf.function(draws_along_every_axis, [spec] * 3, jit_compile=request.param == "xla")


@pytest.mark.parametrize("num_classes", [5, 63, 64, 65, 300])
def test_the_class_does_not_depend_on_what_is_known_of_the_shape(num_classes, draws_of_unknown):
    shapes = [num_classes, 3, 2], [4, num_classes, 2], [4, 3, num_classes]
    logits = [tf.random.stateless_normal(shape, [4, 4]) for shape in shapes]
    expected = draws_along_every_axis(*logits)
    for found, draw in zip(draws_of_unknown(*logits), expected, strict=True):
        np.testing.assert_array_equal(found, draw)


@pytest.mark.parametrize("jit_compile", [pytest.param(False, marks=pytest.mark.slow), True])
def test_compiled_equals_eager(family, vjp, jit_compile):
    logits = 2.0 * tf.random.stateless_normal([64, 11], [0, 2])
    upstream = tf.random.stateless_normal([64, 11], [0, 3])

    def run(logits, upstream):  # all in one function: one compilation
        return {
            name: vjp(lambda x, f=function: f(x, seed=5), logits, upstream)
            for name, function in family.items()
        }

    compiled = tf.function(
        run, [tf.TensorSpec([None, 11]), tf.TensorSpec([None, 11])], jit_compile=jit_compile
    )
    eager = run(logits, upstream)
    for name, (value, gradient) in compiled(logits, upstream).items():
        assert_one_hot(value)  # bit for bit: nothing of the soft sample is left
        np.testing.assert_array_equal(value, eager[name][0], name)
        np.testing.assert_allclose(gradient, eager[name][1], atol=3e-6, err_msg=name)


@pytest.mark.slow
def test_one_hot_is_exact_under_xla(family):
    logits = tf.random.stateless_normal([5000, 7], [4, 2])

    @tf.function(jit_compile=True)
    def run(logits):
        return {name: function(logits, seed=0) for name, function in family.items()}

    for sample in run(logits).values():
        assert_one_hot(sample)


@pytest.mark.parametrize("jit_compile", [pytest.param(False, marks=pytest.mark.slow), True])
def test_masked_classes_are_exactly_zero(family, vjp, jit_compile):
    logits = tf.constant(
        [[0.0, NAN, 1.0, INF], [-INF, 1e9, NAN, 0.5], [NAN, INF, -INF, 3.0], [0.0, 1.0, 2.0, 3.0]]
    )
    mask = tf.constant(
        [
            [True, False, True, False],
            [False, False, False, True],
            [False, False, False, False],
            [True, True, True, False],
        ]
    )
    # What comes back for a masked class may be anything, too.
    upstream = tf.where(mask, tf.constant([[1.0, -2.0, 3.0, 0.5]]), NAN)

    @tf.function(jit_compile=jit_compile)
    def run(logits):
        return {
            name: vjp(lambda x, f=function: f(x, class_mask=mask, seed=1), logits, upstream)
            for name, function in family.items()
        }

    for value, gradient in run(logits).values():
        value, gradient = value.numpy(), gradient.numpy()
        np.testing.assert_array_equal(value[~mask.numpy()], 0.0)
        np.testing.assert_array_equal(gradient[~mask.numpy()], 0.0)
        np.testing.assert_array_equal(value.sum(-1), [1.0, 1.0, 0.0, 1.0])
        assert np.all(np.isfinite(gradient))
        np.testing.assert_allclose(gradient[[1, 2]], 0.0, atol=1e-7)  # nothing to choose
        assert np.any(gradient[0] != 0.0) and np.any(gradient[3] != 0.0)


def test_masked_is_as_if_the_class_were_not_there(estimator):
    logits = np.array([0.5, 9.0, -0.4, 0.1], np.float32)
    num = 20_000
    sample = estimator(
        tf.tile(logits[None], [num, 1]), class_mask=[True, False, True, True], seed=8
    )
    counts = sample.numpy().sum(0)
    expected = num * scipy.special.softmax(logits[[0, 2, 3]].astype(np.float64))
    assert counts[1] == 0
    assert scipy.stats.chisquare(counts[[0, 2, 3]], expected).pvalue > 1e-4


def test_a_kept_class_of_minus_infinity_beats_a_masked_one(estimator):
    logits = tf.constant([[-INF, 0.0], [-INF, NAN]] * 20)
    mask = tf.constant([[True, False]])
    np.testing.assert_array_equal(estimator(logits, class_mask=mask, seed=2)[:, 0], 1.0)


def test_axis(estimator, vjp):
    row = tf.random.stateless_normal([1, 6], [1, 1])
    upstream = tf.random.stateless_normal([1, 6], [1, 2])
    # The same noise in the same order: the column must do what the row does.
    value, gradient = vjp(lambda x: estimator(x, seed=4), row, upstream)
    for axis in (0, -2):
        turned_value, turned_gradient = vjp(
            lambda x, axis=axis: estimator(x, axis=axis, seed=4),
            tf.transpose(row),
            tf.transpose(upstream),
        )
        np.testing.assert_array_equal(tf.transpose(turned_value), value)
        np.testing.assert_allclose(tf.transpose(turned_gradient), gradient, atol=1e-6)
    cube = tf.random.stateless_normal([3, 5, 2], [1, 3])
    mask = tf.constant([True, True, False, True, True])[:, None]
    value, gradient = vjp(
        lambda x: estimator(x, class_mask=mask, axis=1, seed=4),
        cube,
        tf.random.stateless_normal([3, 5, 2], [1, 4]),
    )
    assert_one_hot(value, axis=1)
    np.testing.assert_array_equal(value[:, 2], 0.0)
    np.testing.assert_array_equal(gradient[:, 2], 0.0)
    np.testing.assert_allclose(tf.reduce_sum(gradient, 1), 0.0, atol=1e-5)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64])
def test_dtypes(estimator, vjp, dtype):
    # Multiples of 1/8 are the same numbers in every dtype.
    logits = tf.round(8.0 * tf.random.stateless_normal([32, 5], [2, 1])) / 8.0
    upstream = tf.round(8.0 * tf.random.stateless_normal([32, 5], [2, 2])) / 8.0
    value, gradient = vjp(lambda x: estimator(x, seed=6), logits, upstream)
    cast_value, cast_gradient = vjp(
        lambda x: estimator(x, seed=6), tf.cast(logits, dtype), tf.cast(upstream, dtype)
    )
    assert cast_value.dtype == dtype and cast_gradient.dtype == dtype
    np.testing.assert_array_equal(tf.cast(cast_value, tf.float32), value)
    rtol, atol = {"float16": (2e-3, 1e-5), "bfloat16": (1e-2, 1e-5)}.get(dtype.name, (2e-5, 2e-6))
    np.testing.assert_allclose(tf.cast(cast_gradient, tf.float32), gradient, rtol=rtol, atol=atol)


def test_large_and_equal_logits(estimator, vjp):
    large = tf.constant([[1e4, 1e4, -1e4], [-1e4, 0.0, 1e4], [INF, 0.0, -INF], [1e9, 1e9, 1e9]])
    value, gradient = vjp(lambda x: estimator(x, seed=1), tf.tile(large, [50, 1]), None)
    assert_one_hot(value)
    assert np.all(np.isfinite(gradient))
    value = value.numpy().reshape(50, 4, 3)
    assert np.all(value[:, 0, 2] == 0) and np.all(value[:, 1, 2] == 1)
    assert np.all(value[:, 2, 0] == 1)
    # At 1e9 float32 has no room for noise: without a shift of the row one class would win.
    assert np.all(value[:, 3].sum(0) > 0) and np.all(value[:, 0, :2].sum(0) > 0)


@pytest.mark.parametrize("num_classes", [2, 10_000])
def test_few_and_many_classes(estimator, vjp, num_classes):
    logits = tf.random.stateless_normal([4, num_classes], [3, 3])
    upstream = tf.random.stateless_normal([4, num_classes], [3, 4])
    value, gradient = vjp(lambda x: estimator(x, seed=1), logits, upstream)
    assert_one_hot(value)
    assert np.all(np.isfinite(gradient)) and np.any(gradient != 0)
    # A softmax does not see a shift of its scores, but for the rounding of sums of so many terms.
    rounding = (num_classes + 16) * 2.0**-23 * np.abs(upstream).max()
    np.testing.assert_allclose(tf.reduce_sum(gradient, -1), 0.0, atol=rounding)


def test_seeds(estimator):
    logits = tf.zeros([40, 5])
    np.testing.assert_array_equal(estimator(logits, seed=1), estimator(logits, seed=1))
    assert np.any(estimator(logits, seed=1) != estimator(logits, seed=2))
    assert np.any(estimator(logits) != estimator(logits))
    generator = keras.random.SeedGenerator(1)
    assert np.any(estimator(logits, seed=generator) != estimator(logits, seed=generator))


@pytest.mark.parametrize("kind", [tf.Variable, tf.constant, keras.Variable, np.float32])
@pytest.mark.parametrize(
    "name",
    [
        "straight_through",
        "straight_through_gumbel_softmax",
        "gumbel_rao",
        "gapped_straight_through",
        "reinmax",
    ],
)
def test_temperature_may_be_a_tensor_or_variable(name, kind, vjp):
    function = getattr(tfc.estimators, name)
    logits = tf.random.stateless_normal([8, 4], [5, 5])
    upstream = tf.random.stateless_normal([8, 4], [5, 6])
    _, expected = vjp(lambda x: function(x, 0.6, seed=0), logits, upstream)
    temperature = kind(0.6)

    @tf.function
    def run(logits):
        return vjp(lambda x: function(x, temperature, seed=0), logits, upstream)

    np.testing.assert_allclose(run(logits)[1], expected, atol=1e-6)
    if kind is tf.Variable:
        temperature.assign(2.0)
        _, expected = vjp(lambda x: function(x, 2.0, seed=0), logits, upstream)
        np.testing.assert_allclose(run(logits)[1], expected, atol=1e-6)


def test_one_temperature_for_each_row(vjp):
    logits = tf.random.stateless_normal([3, 4], [6, 6])
    upstream = tf.random.stateless_normal([3, 4], [6, 7])
    each = tf.constant([[0.5], [1.0], [2.0]])
    for name in (
        "straight_through",
        "straight_through_gumbel_softmax",
        "gumbel_rao",
        "gapped_straight_through",
        "reinmax",
    ):
        function = getattr(tfc.estimators, name)
        _, together = vjp(lambda x, f=function: f(x, each, seed=0), logits, upstream)
        for row, temperature in enumerate([0.5, 1.0, 2.0]):
            _, alone = vjp(lambda x, f=function, t=temperature: f(x, t, seed=0), logits, upstream)
            np.testing.assert_allclose(together[row], alone[row], atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"logits": [[1, 2, 3]]}, TypeError, "`logits`. Expected floating-point"),
        ({"logits": [[1, 2, 3]]}, ValueError, "`logits`. Expected floating-point"),
        ({"axis": 2}, ValueError, "`axis`. Expected an axis of logits of rank 2"),
        ({"axis": -3}, ValueError, "Received: axis=-3"),
        ({"axis": 0.5}, TypeError, "`axis`"),
        ({"class_mask": [1.0, 0.0, 1.0]}, TypeError, "`class_mask`. Expected a boolean mask"),
        ({"class_mask": [True, False]}, ValueError, "`class_mask`"),
        ({"logits": [[1.0]]}, ValueError, "at least two classes"),
        ({"seed": 0.5}, TypeError, "`seed`"),
    ],
)
def test_bad_arguments(estimator, arguments, error, message):
    arguments = {"logits": [[1.0, 2.0, 3.0]]} | arguments
    logits = tf.constant(arguments.pop("logits"))
    with pytest.raises(error) as caught:
        estimator(logits, **arguments)
    assert message in str(caught.value)
    assert str(caught.value).startswith("Invalid ")


every_function = pytest.mark.parametrize(
    "name",
    [
        "straight_through",
        "straight_through_gumbel_softmax",
        "bin_concrete_straight_through",
        "gumbel_rao",
        "gapped_straight_through",
        "reinmax",
    ],
)


@pytest.mark.parametrize("temperature", [0, 0.0, -1.0, NAN, INF, tf.constant(0.0)])
@every_function
def test_bad_temperature(name, temperature):
    with pytest.raises(ValueError, match="`temperature`. Expected a positive finite number"):
        getattr(tfc.estimators, name)(tf.zeros([2, 3]), temperature)


@pytest.mark.parametrize("temperature", [tf.ones([4]), np.ones([4]), [1.0] * 4])
@every_function
def test_temperature_that_does_not_broadcast(name, temperature):
    message = r"`temperature`. Expected a shape that broadcasts .* shape \(4,\)"
    with pytest.raises(ValueError, match=message):
        getattr(tfc.estimators, name)(tf.zeros([2, 3]), temperature)
    with pytest.raises(ValueError, match="argument `tau`. Expected a shape that broadcasts"):
        tfc.gumbel_softmax(tf.zeros([2, 3]), temperature)


def test_logits_of_unknown_rank(family):
    logits = tf.random.stateless_normal([5, 4], [7, 7])
    for function in family.values():
        traced = tf.function(lambda x, f=function: f(x, seed=1), [tf.TensorSpec(None)])
        np.testing.assert_array_equal(traced(logits), function(logits, seed=1))


def test_a_temperature_with_more_rows_than_the_logits_raises(family, vjp):
    """The noise has the shape of the logits: rows would share it."""
    for function in (
        *(f.func for f in family.values()),
        tfc.relaxations.concrete,
        tfc.relaxations.exp_concrete,
    ):

        def call(logits, temperature, function=function):
            return function(logits, temperature, seed=0)

        with pytest.raises(ValueError, match="`temperature`. Expected a shape that broadcasts to"):
            call(tf.zeros([3]), tf.ones([4, 1]))
        with pytest.raises(ValueError, match="`temperature`. Expected a shape that broadcasts to"):
            call(tf.zeros([1, 3]), tf.ones([4, 1]))
        unknown = [tf.TensorSpec([None, None]), tf.TensorSpec([None, None])]
        traced = tf.function(
            lambda x, t, call=call: vjp(lambda x: call(x, t), x, None), input_signature=unknown
        )
        with pytest.raises(tf.errors.InvalidArgumentError):
            traced(tf.zeros([1, 3]), tf.ones([4, 1]))
        for seen, expected in zip(
            traced(tf.zeros([4, 3]), tf.ones([4, 1])),
            vjp(lambda x, call=call: call(x, 1.0), tf.zeros([4, 3]), None),
            strict=True,
        ):
            np.testing.assert_allclose(seen, expected, atol=1e-6)


def test_rows_with_nan_are_nan_and_alone_in_it(estimator, vjp):
    """Forward and backward, below and above 64 classes."""
    for num_classes in (5, 70):
        logits = np.random.default_rng(0).normal(size=[3, num_classes]).astype(np.float32)
        clean, _ = vjp(lambda x: estimator(x, seed=1), tf.constant(logits), None)
        logits[1, 2] = np.nan
        value, gradient = vjp(lambda x: estimator(x, seed=1), tf.constant(logits), None)
        assert np.all(np.isnan(value[1]))
        np.testing.assert_array_equal(value.numpy()[[0, 2]], clean.numpy()[[0, 2]])
        assert np.all(np.isfinite(gradient.numpy()[[0, 2]]))
        mask = np.ones([3, num_classes], bool)
        mask[1, 2] = False
        value, gradient = vjp(
            lambda x, mask=mask: estimator(x, class_mask=mask, seed=1), tf.constant(logits), None
        )
        np.testing.assert_array_equal(tf.reduce_sum(value, -1), 1.0)
        assert np.all(np.isfinite(gradient)) and gradient[1, 2] == 0
