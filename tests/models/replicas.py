"""Run by `test_distribution.py` in a process of its own: two logical CPUs, two replicas."""

import keras
import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from tfconcrete.models.evaluation import _over_workers

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
X = np.random.default_rng(0).integers(0, 2, [32, 6]).astype(np.float32)
SCHEDULE = tfc.schedules.ExponentialAnnealing(1.0, 0.1, rate=0.1)


def dense(inputs, outputs, *layers):
    return keras.Sequential([keras.Input((inputs,)), keras.layers.Dense(outputs), *layers])


def vae(*layers, **arguments):
    latent = tfc.layers.BinConcreteSample(SCHEDULE, seed=0, name="z")
    model = tfc.models.DiscreteVAE(dense(6, 4, *layers), dense(4, 6), latent)
    model.compile(**{"optimizer": keras.optimizers.SGD(0.1), **arguments})
    return model


def joint(**arguments):
    x = keras.Input((6,))
    encoder = keras.Model(x, [keras.layers.Dense(n)(x) for n in (3, 2, 2)])
    z = [keras.Input((3,)), keras.Input((2,))]
    decoder = keras.Model(z, keras.layers.Dense(6)(keras.layers.Concatenate()(z)))
    latent = tfc.ConcreteSample(seed=0)
    options = {"gamma": 1.0, "discrete_capacity": 0.3, "seed": 1}
    model = tfc.models.JointVAE(encoder, decoder, latent, **options)
    model.compile(keras.optimizers.SGD(0.1), **arguments)
    return model


def predictor(**arguments):
    latent = tfc.layers.BinConcreteSample(seed=0)
    model = tfc.models.StructuredPredictor(dense(6, 4), dense(4, 6), latent)
    model.compile(keras.optimizers.SGD(0.1), **arguments)
    return model


def score_function(**arguments):
    latent = tfc.layers.BinConcreteSample(seed=0)
    model = tfc.models.ScoreFunctionVAE(dense(6, 4), dense(4, 6), latent, estimator="nvil")
    model.compile(keras.optimizers.SGD(0.1), **arguments)
    return model


def score_function_predictor(**arguments):
    latent = tfc.layers.BinConcreteSample(seed=0)
    networks = dense(6, 4), dense(4, 6)
    model = tfc.models.ScoreFunctionPredictor(*networks, latent, estimator="nvil")
    model.compile(keras.optimizers.SGD(0.01), **arguments)
    return model


class Functional(tfc.models.Replicated, keras.Model):
    """A functional model whose steps are weighed right."""


def functional(**arguments):
    inputs = keras.Input((6,))
    hidden = tfc.ConcreteSample(SCHEDULE, seed=0, name="z")(keras.layers.Dense(4)(inputs))
    model = Functional(inputs, keras.layers.Dense(6)(hidden))
    optimizer = arguments.pop("optimizer", None) or keras.optimizers.SGD(0.1)
    loss = arguments.pop("loss", "mse")
    model.compile(optimizer, loss, metrics=["mae"], **arguments)
    return model


def refused(model, *words):
    try:
        model.fit(X, X, verbose=0)
    except ValueError as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(f"nothing was refused: {words}")


def test_refusals():
    SGD = keras.optimizers.SGD
    for make in (vae, functional):
        for name, optimizer in (
            ("gradient_accumulation_steps", SGD(0.1, gradient_accumulation_steps=2)),
            ("ema_overwrite_frequency", SGD(0.1, use_ema=True, ema_overwrite_frequency=2)),
        ):
            refused(make(optimizer=optimizer), name, "2 replicas")
        assert make(optimizer=SGD(0.1, use_ema=True)).fit(X, X, verbose=0)
    refused(functional(steps_per_execution=2), "steps_per_execution", "2 replicas")
    refused(functional(jit_compile=True), "jit_compile", "2 replicas")
    for reduction in ("sum", "mean_with_sample_weight"):
        loss = keras.losses.MeanSquaredError(reduction=reduction)
        refused(functional(loss=loss), "reduction", "sum_over_batch_size")
    refused(vae(steps_per_execution=2), "steps_per_execution", "2 replicas")
    refused(vae(keras.layers.Dropout(0.5), jit_compile=True), "jit_compile", "dropout")
    refused(joint(jit_compile=True), "jit_compile", "JointVAE")


def test_every_model_trains():
    for make, data in (
        (vae, (X,)),
        (joint, (X,)),
        (predictor, (X, X)),
        (score_function, (X,)),
        (score_function_predictor, (X, X)),
        (functional, (X, X)),
    ):
        # 31 rows in batches of 8: an uneven end; 5 rows: uneven from the start, and in
        # batches of 4 a replica without any at the end.
        for rows, batch_size in ((31, 8), (5, 8), (5, 4)):
            model = make()
            part = tuple(array[:rows] for array in data)
            history = model.fit(*part, batch_size=batch_size, epochs=2, verbose=0).history
            assert np.isfinite(history["loss"]).all(), make
            assert all(np.isfinite(w).all() for w in model.get_weights()), make
            assert np.isfinite(model.evaluate(*part, batch_size=8, verbose=0)).all()
            assert model.predict(part[0], batch_size=8, verbose=0).shape == (rows, 6)


def test_a_schedule_advances_once_a_step():
    for make, data in ((vae, (X,)), (functional, (X, X))):
        model = make()
        model.fit(*data, batch_size=8, epochs=2, verbose=0)
        layer = tfc.layers.sampling_layers(model)[0]
        np.testing.assert_allclose(layer.temperature.numpy(), np.exp(-0.1 * 7), rtol=1e-6)


def test_uneven_batches_weigh_examples_alike():
    """The output bias sees no noise to first order: its gradient is that of the mean."""
    for rows in (32, 5, 3, 1):
        for arguments in ({}, {"jit_compile": True}):
            model = vae(**arguments)
            model.decoder.layers[-1].kernel.assign(tf.zeros([4, 6]))
            bias = model.decoder.layers[-1].bias.numpy()
            model.fit(X[:rows], batch_size=32, epochs=1, shuffle=False, verbose=0)
            expected = bias + 0.1 * (X[:rows] - 0.5).mean(0)
            found = model.decoder.layers[-1].bias.numpy()
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)
        model = functional()
        kernel = model.layers[-1]
        kernel.kernel.assign(tf.zeros([4, 6]))
        model.fit(X[:rows], X[:rows], batch_size=32, epochs=1, shuffle=False, verbose=0)
        expected = 0.1 * 2 * X[:rows].mean(0) / 6
        np.testing.assert_allclose(kernel.bias.numpy(), expected, rtol=1e-4, atol=1e-7)


def clipped(gradient, clipnorm=None, global_clipnorm=None, clipvalue=None):
    """What Keras' optimizers make of the only gradient that is not zero."""
    norm = clipnorm or global_clipnorm
    if norm is None:
        return np.clip(gradient, -clipvalue, clipvalue)
    return gradient * min(1.0, norm / np.linalg.norm(gradient))


def test_the_whole_gradient_is_clipped():
    """Not the part of each replica: parts that cancel each other would count for more."""
    x = np.array([[1.0] * 6, [1.0] * 6, [0.0] * 3 + [1.0] * 3], np.float32)
    expected = 2 * x.mean(0) / 6
    for name in ("clipnorm", "global_clipnorm", "clipvalue"):
        for scaled in (False, True):
            for bound in (0.1, 10.0):
                optimizer = keras.optimizers.SGD(0.1, **{name: bound})
                if scaled:
                    optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=8.0)
                model = functional(optimizer=optimizer)
                output = model.layers[-1]
                output.kernel.assign(tf.zeros([4, 6]))
                output.kernel.trainable = False
                model.fit(x, x, batch_size=32, shuffle=False, verbose=0)
                step = 0.1 * clipped(expected, **{name: bound})
                np.testing.assert_allclose(output.bias.numpy(), step, rtol=1e-4, atol=1e-7)
    model = vae(optimizer=keras.optimizers.SGD(0.1, clipvalue=0.01), jit_compile=True)
    model.decoder.layers[-1].kernel.assign(tf.zeros([4, 6]))
    model.fit(x, batch_size=32, shuffle=False, verbose=0)
    step = 0.1 * np.clip((x - 0.5).mean(0), -0.01, 0.01)
    np.testing.assert_allclose(model.decoder.layers[-1].bias.numpy(), step, rtol=1e-4, atol=1e-7)


def test_penalties_on_the_mean_over_all_replicas():
    """Weights move as on one device where nothing is random: all noise has no effect."""
    weights = []
    for scope in (strategy.scope(), tf.distribute.get_strategy().scope()):
        with scope:
            keras.utils.set_random_seed(3)
            model = joint()
            model.decoder.layers[-1].kernel.assign(tf.zeros([5, 6]))
            model.fit(X[:7], batch_size=7, shuffle=False, verbose=0)
            weights.append([w.numpy() for w in model.encoder.trainable_weights[2:]])
    for found, expected in zip(*weights, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_xla_gives_the_same_steps():
    """The same seeds give the same noise: losses and weights agree after several steps."""
    for make, data in (
        (vae, (X,)),
        (predictor, (X, X)),
        (score_function, (X,)),
        (score_function_predictor, (X, X)),
    ):
        weights, losses = [], []
        for arguments in ({}, {"jit_compile": True}):
            keras.utils.set_random_seed(5)
            model = make(**arguments)
            part = tuple(array[:29] for array in data)
            history = model.fit(*part, batch_size=8, epochs=2, shuffle=False, verbose=0).history
            losses.append(history["loss"])
            weights.append(np.concatenate([w.ravel() for w in model.get_weights()]))
        np.testing.assert_allclose(*losses, rtol=1e-5)
        np.testing.assert_allclose(*weights, atol=1e-5)


def test_likelihoods_of_several_devices_in_one_worker():
    """Rows come back in their order, each once, whatever the number of replicas."""
    bias = np.array([3.0, -3.0, 2.0, -2.0, 1.0, -1.0], np.float32)
    with strategy.scope():
        model = vae()
    for variable in model.trainable_variables:
        variable.assign(tf.zeros(variable.shape))
    model.decoder.layers[-1].bias.assign(bias)
    tensors = (model._likelihood_function, (X[:21],), tf.constant([1, 2]))
    found = _over_workers(*tensors, strategy, (0, 1), 20, 10, None, 0)
    # A posterior that is the prior, and a decoder that ignores the code: no noise is left.
    expected = X[:21] @ bias - np.sum(np.log1p(np.exp(bias)))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


if __name__ == "__main__":
    tests = [test for name, test in list(globals().items()) if name.startswith("test_")]
    for test in tests:
        if test in (
            test_penalties_on_the_mean_over_all_replicas,
            test_likelihoods_of_several_devices_in_one_worker,
        ):
            test()
        else:
            with strategy.scope():
                test()
        print(test.__name__, flush=True)
    print("replicas agree")
