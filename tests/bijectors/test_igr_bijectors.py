"""Every bijector behind IGR: inverse, determinants, shapes, TFP's machinery."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc

B = tfc.bijectors
tfb, tfd = tfp.bijectors, tfp.distributions


@pytest.fixture
def y():
    return tf.constant(np.random.default_rng(0).normal(size=(40, 4)))


def test_inverse_of_forward(bijector, y):
    z = bijector.forward(y)
    np.testing.assert_allclose(bijector.inverse(tf.identity(z)), y, atol=1e-6)


def test_determinants_against_autodiff(bijector, y):
    with tf.GradientTape() as tape:
        tape.watch(y)
        z = bijector.forward(tf.identity(y))[..., :4]
    expected = np.linalg.slogdet(tape.batch_jacobian(z, y).numpy())[1]
    forward = bijector.forward_log_det_jacobian(y, event_ndims=1)
    np.testing.assert_allclose(forward, expected, atol=1e-8)
    image = tf.identity(bijector.forward(y))
    inverse = bijector.inverse_log_det_jacobian(image, event_ndims=1)
    np.testing.assert_allclose(inverse, -expected, atol=1e-5)


def test_shapes(bijector):
    size = bijector.forward_event_shape([4])[0]
    assert bijector.forward(tf.zeros([2, 3, 4], tf.float64)).shape == (2, 3, size)
    assert bijector.inverse_event_shape([size])[0] == 4
    assert bijector.forward_event_shape_tensor([4]).numpy().tolist() == [size]
    assert bijector.inverse_event_shape_tensor([size]).numpy().tolist() == [4]


def test_composite_and_xla(bijector, y):
    """As an argument of a compiled function, with its inverse."""

    @tf.function(jit_compile=True)
    def there_and_back(bijector, y):
        z = tf.identity(bijector.forward(y))
        return bijector.inverse(z), bijector.forward_log_det_jacobian(y, event_ndims=1)

    back, log_det = there_and_back(bijector, y)
    np.testing.assert_allclose(back, y, atol=1e-6)
    np.testing.assert_allclose(log_det, bijector.forward_log_det_jacobian(y, 1), atol=1e-8)


def test_transformed_distribution(bijector, y):
    """TFP's own change of variables accepts them, on tensors that no cache knows."""
    base = tfd.MultivariateNormalDiag(tf.zeros([4], tf.float64))
    law = tfd.TransformedDistribution(base, bijector)
    z = tf.identity(bijector.forward(y))
    expected = base.log_prob(y) - bijector.forward_log_det_jacobian(y, event_ndims=1)
    np.testing.assert_allclose(law.log_prob(z), expected, atol=1e-5)


def test_chain(y):
    flow = B.PlanarFlow.create(2, 4, scale=1.0, seed=1, dtype=tf.float64)
    chain = tfb.Chain([B.SoftmaxPlusPlus(0.5), flow])
    z = chain.forward(y)
    assert z.shape == (40, 5)
    np.testing.assert_allclose(chain.inverse(tf.identity(z)), y, atol=1e-6)


def test_float32_and_half(y):
    for dtype, atol in ((tf.float32, 2e-5), (tf.float16, 0.1)):
        point = tf.cast(y, dtype)
        z = B.StickBreaking().forward(point)
        assert z.dtype == dtype
        np.testing.assert_allclose(B.StickBreaking().inverse(tf.identity(z)), point, atol=atol)


@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_no_density_outside_the_image(temperature):
    """Stick-breaking with softmax++, and the interpolation, reach a part of the simplex."""
    grid = tf.constant([[0.34, 0.33, 0.33], [0.05, 0.05, 0.9]], tf.float64)
    inverse = B.StickBreakingSoftmax(temperature).inverse_log_det_jacobian(grid, event_ndims=1)
    assert inverse[1] == -np.inf  # delta = 1: the remainder is never the largest
    inverse = B.Interpolation(temperature).inverse_log_det_jacobian(grid, event_ndims=1)
    assert (inverse[0] == -np.inf) == (temperature < 1)
    assert np.isfinite(inverse[1])


def test_batches_of_temperatures(y):
    temperatures = tf.constant([0.2, 0.6], tf.float64)
    for make in (B.StickBreakingSoftmax, B.Interpolation):
        z = make(temperatures).forward(y[:, tf.newaxis])
        for i in range(2):
            np.testing.assert_allclose(z[:, i], make(temperatures[i]).forward(y), rtol=1e-12)


def test_planar_flow_arguments():
    with pytest.raises(ValueError, match="argument `u`"):
        B.PlanarFlow(tf.zeros([3]), tf.zeros([3]), tf.zeros([3]))
    with pytest.raises(ValueError, match="argument `w`"):
        B.PlanarFlow(tf.zeros([2, 3]), tf.zeros([2, 4]), tf.zeros([2]))
    with pytest.raises(ValueError, match="argument `b`"):
        B.PlanarFlow(tf.zeros([2, 3]), tf.zeros([2, 3]), tf.zeros([3]))
    with pytest.raises(ValueError, match="argument `num_flows`"):
        B.PlanarFlow.create(0, 3)
    flow = B.PlanarFlow.create(5, 3, seed=0)
    assert [v.shape.as_list() for v in flow.trainable_variables] == [[5], [5, 3], [5, 3]]


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("make", [B.StickBreakingSoftmax, B.Interpolation])
def test_temperature_is_checked(make, temperature):
    with pytest.raises(ValueError, match="argument `temperature`"):
        make(temperature)


def test_run_time_checks():
    temperature = tf.Variable(0.5)
    bijector = B.Interpolation(temperature, validate_args=True)
    temperature.assign(2.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 1"):
        bijector.forward(tf.zeros([3]))
