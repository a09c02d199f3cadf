"""SoftmaxPlusPlus against NumPy, its determinants against autodiff."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc

tfb = tfp.bijectors


def transcription(y, temperature, delta):
    """IGR, Eq. 21."""
    powers = np.exp(y / temperature)
    rest = powers.sum(-1, keepdims=True) + delta
    return np.concatenate([powers / rest, delta / rest], -1)


@pytest.fixture
def y():
    return tf.constant(np.random.default_rng(0).normal(size=[5, 3]))


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("delta", [0.1, 1.0, 3.0])
def test_forward_is_equation_21(y, temperature, delta):
    bijector = tfc.bijectors.SoftmaxPlusPlus(temperature, delta)
    np.testing.assert_allclose(
        bijector.forward(y), transcription(y.numpy(), temperature, delta), rtol=1e-9
    )


@pytest.mark.parametrize("temperature, delta", [(0.3, 0.1), (1.0, 1.0), (4.0, 2.0)])
def test_inverse_and_determinants(y, temperature, delta):
    bijector = tfc.bijectors.SoftmaxPlusPlus(np.float64(temperature), np.float64(delta))
    z = tf.identity(bijector.forward(y))
    np.testing.assert_allclose(bijector.inverse(z), y, rtol=1e-9, atol=1e-9)
    with tf.GradientTape() as tape:
        tape.watch(y)
        first = bijector.forward(tf.identity(y))[:, :-1]
    jacobian = tape.batch_jacobian(first, y).numpy()
    expected = np.linalg.slogdet(jacobian)[1]
    np.testing.assert_allclose(bijector.forward_log_det_jacobian(y), expected, rtol=1e-9)
    np.testing.assert_allclose(
        bijector.inverse_log_det_jacobian(tf.identity(z)), -expected, rtol=1e-9
    )


def test_a_batch_of_temperatures_and_deltas(y):
    temperature, delta = np.array([0.5, 2.0]), np.array([[1.0], [0.3], [2.0]])
    bijector = tfc.bijectors.SoftmaxPlusPlus(temperature, delta)
    point = y[0]
    z = bijector.forward(point)
    assert z.shape == [3, 2, 4]
    expected = transcription(point.numpy(), temperature[:, None], 1.0)
    np.testing.assert_allclose(z[0], expected, rtol=1e-9)
    expected = transcription(point.numpy(), 2.0, 0.3)
    np.testing.assert_allclose(z[1, 1], expected, rtol=1e-9)
    np.testing.assert_allclose(
        bijector.inverse(tf.identity(z)), np.broadcast_to(point, [3, 2, 3]), rtol=1e-9
    )
    assert bijector.forward_log_det_jacobian(point).shape == [3, 2]
    assert bijector.experimental_batch_shape() == [3, 2]


def test_shapes_change_by_one_class():
    bijector = tfc.bijectors.SoftmaxPlusPlus(0.5)
    assert bijector.forward_event_shape([7, 3]) == [7, 4]
    assert bijector.inverse_event_shape([7, 4]) == [7, 3]
    assert bijector.forward_event_shape_tensor([3]).numpy() == [4]
    assert bijector.inverse_event_shape_tensor([4]).numpy() == [3]
    assert bijector.forward_event_shape([None]).as_list() == [None]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_follows_the_dtype_of_its_argument(y, dtype):
    bijector = tfc.bijectors.SoftmaxPlusPlus(0.5, validate_args=dtype == "float64")
    z = bijector.forward(tf.cast(y, dtype))
    assert z.dtype == dtype
    assert bijector.inverse(tf.identity(z)).dtype == dtype
    assert bijector.forward_log_det_jacobian(tf.cast(y, dtype)).dtype == dtype


def test_far_out_and_at_a_vertex_all_is_finite():
    bijector = tfc.bijectors.SoftmaxPlusPlus(0.01)
    far = tf.constant([[300.0, -300.0], [-300.0, -300.0]])
    with tf.GradientTape() as tape:
        tape.watch(far)
        value = bijector.forward(far), bijector.forward_log_det_jacobian(far)
    assert all(np.all(np.isfinite(v)) for v in (*value, tape.gradient(value, far)))
    vertex = tf.constant([[0.0, 1.0, 0.0]])
    for value in bijector.inverse(vertex), bijector.inverse_log_det_jacobian(vertex):
        assert np.all(np.isfinite(value))


def test_graph_xla_and_composite_tensor(y):
    bijector = tfc.bijectors.SoftmaxPlusPlus(tf.constant(0.5, tf.float64))

    @tf.function(jit_compile=True)
    def round_trip(bijector, y):
        z = bijector.forward(y)
        return bijector.inverse(tf.identity(z)), bijector.forward_log_det_jacobian(y)

    inverse, log_det = round_trip(bijector, y)
    np.testing.assert_allclose(inverse, y, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(log_det, bijector.forward_log_det_jacobian(y), rtol=1e-9)
    assert isinstance(tf.function(lambda b: b)(bijector), tfc.bijectors.SoftmaxPlusPlus)


def test_as_part_of_tfp(y):
    bijector = tfc.bijectors.SoftmaxPlusPlus(0.5)
    chain = tfb.Chain([tfb.Log(), bijector, tfb.Scale(np.float64(2.0))])
    z = chain.forward(y)
    np.testing.assert_allclose(tf.reduce_logsumexp(z, -1), np.zeros(5), atol=1e-12)
    temperature = tf.Variable(0.5)
    variable = tfc.bijectors.SoftmaxPlusPlus(temperature)
    before = variable.forward(y)
    temperature.assign(1.0)
    # Another tensor, since TFP's cache answers for the same one.
    assert np.max(np.abs(before - variable.forward(tf.identity(y)))) > 1e-3
    assert variable.trainable_variables == (temperature,)


@pytest.mark.parametrize(
    "arguments, name",
    [
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": [1.0, -1.0]}, "temperature"),
        ({"temperature": 1.0, "delta": 0.0}, "delta"),
        ({"temperature": 1.0, "delta": float("inf")}, "delta"),
    ],
)
def test_bad_arguments(arguments, name):
    with pytest.raises(
        ValueError, match=f"Invalid value received for argument `{name}`. Expected a positive"
    ):
        tfc.bijectors.SoftmaxPlusPlus(**arguments)


def test_run_time_checks(y):
    temperature = tf.Variable(-1.0)
    bijector = tfc.bijectors.SoftmaxPlusPlus(temperature, validate_args=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`temperature` must be positive"):
        bijector.forward(y)
    bijector = tfc.bijectors.SoftmaxPlusPlus(1.0, validate_args=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must sum to 1"):
        bijector.inverse(tf.constant([0.5, 0.6]))
