"""The callbacks in `fit`: what they set, what they log, what they leave alone."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

C = tfc.callbacks
S = tfc.schedules
RNG = np.random.default_rng(0)
X = RNG.normal(size=[24, 3]).astype("float32")
Y = RNG.normal(size=[24, 3]).astype("float32")


def make_model(*layers, **compile_arguments):
    inputs = keras.Input([3])
    layers = layers or (tfc.ConcreteSample(temperature=1.0, seed=0, name="z"),)
    outputs = [layer(keras.layers.Dense(3)(inputs)) for layer in layers]
    total = keras.layers.Add()(outputs) if len(outputs) > 1 else outputs[0]
    nested = keras.Model(inputs, total)
    outer = keras.Input([3])
    model = keras.Model(outer, keras.layers.Dense(3)(nested(outer)))
    model.compile("sgd", "mse", **compile_arguments)
    return model


def fit(model, *callbacks, **arguments):
    arguments = {"epochs": 3, "batch_size": 8, "verbose": 0, "shuffle": False, **arguments}
    return model.fit(X, Y, callbacks=list(callbacks), **arguments).history


SCHEDULE = S.ExponentialAnnealing(2.0, 0.5, rate=0.1)


class Watch(keras.callbacks.Callback):
    """The temperatures at the end of every batch."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(float(self.layer.temperature.numpy()))


def test_temperature_by_epoch():
    z = tfc.ConcreteSample(seed=0, name="z")
    watch = Watch(z)
    model = make_model(z)
    history = fit(model, C.TemperatureScheduler(SCHEDULE), watch)
    expected = 2.0 * np.exp(-0.1 * np.arange(3))
    np.testing.assert_allclose(history["temperature"], expected, rtol=1e-6)
    np.testing.assert_allclose(watch.seen, np.repeat(expected, 3), rtol=1e-6)
    history = fit(model, C.TemperatureScheduler(SCHEDULE), initial_epoch=5, epochs=6)
    np.testing.assert_allclose(history["temperature"], [2.0 * np.exp(-0.5)], rtol=1e-6)


def test_temperature_by_step():
    """And a resumed run goes on where it stopped."""
    z = tfc.ConcreteSample(seed=0, name="z")
    watch = Watch(z)
    model = make_model(z)
    fit(model, C.TemperatureScheduler(SCHEDULE, unit="step"), watch, epochs=2)
    fit(model, C.TemperatureScheduler(SCHEDULE, unit="step"), watch, epochs=1)
    np.testing.assert_allclose(watch.seen, 2.0 * np.exp(-0.1 * np.arange(9)), rtol=1e-6)


def test_temperature_by_step_between_executions():
    z = tfc.ConcreteSample(seed=0, name="z")
    watch = Watch(z)
    model = make_model(z, steps_per_execution=3)
    fit(model, C.TemperatureScheduler(SCHEDULE, unit="step"), watch, batch_size=5, epochs=2)
    # Five steps an epoch, in executions of three and two.
    expected = 2.0 * np.exp(-0.1 * np.array([0, 3, 5, 8]))
    np.testing.assert_allclose(watch.seen, expected, rtol=1e-6)


def test_several_layers():
    layers = [tfc.ConcreteSample(name="a"), tfc.GapStraightThrough(name="b")]
    model = make_model(*layers)
    history = fit(model, C.TemperatureScheduler(S.Constant(0.3)))
    assert history["a_temperature"] == history["b_temperature"] == [pytest.approx(0.3)] * 3
    history = fit(model, C.TemperatureScheduler(S.Constant(0.7), layers=["b"]))
    assert history["temperature"] == [pytest.approx(0.7)] * 3
    assert float(layers[0].temperature.numpy()) == pytest.approx(0.3)
    fit(model, C.TemperatureScheduler(lambda epoch: 0.9, layers=layers[0]))
    assert float(layers[0].temperature.numpy()) == pytest.approx(0.9)


def test_two_schedulers_log_both_temperatures():
    model = make_model(tfc.ConcreteSample(name="a"), tfc.GapStraightThrough(name="b"))
    first = C.TemperatureScheduler(S.Constant(0.3), layers="a")
    second = C.TemperatureScheduler(S.Constant(0.7), layers="b")
    history = fit(model, first, second, epochs=1)
    assert history["temperature"] == [pytest.approx(0.3)]
    assert history["b_temperature"] == [pytest.approx(0.7)]


def test_temperature_in_tensorboard(tmp_path, monkeypatch):
    """Keras' own callback writes it, through the one function that needs TensorBoard."""
    written = []
    board = keras.callbacks.TensorBoard(tmp_path, write_graph=False)
    monkeypatch.setattr(
        board.summary, "scalar", lambda name, value, step=None: written.append((name, value))
    )
    fit(make_model(), C.TemperatureScheduler(SCHEDULE), board)
    values = [float(value) for name, value in written if name == "epoch_temperature"]
    np.testing.assert_allclose(values, 2.0 * np.exp(-0.1 * np.arange(3)), rtol=1e-6)


def test_setting_the_temperature_never_retraces():
    traces = []

    class Traced(tfc.ConcreteSample):
        def relax(self, *arguments, **keywords):
            traces.append(1)
            return super().relax(*arguments, **keywords)

    fit(make_model(Traced()), C.TemperatureScheduler(SCHEDULE, unit="step"), epochs=4)
    assert len(traces) <= 2


def test_scheduler_errors():
    with pytest.raises(TypeError, match="`schedule`"):
        C.TemperatureScheduler(0.5)
    with pytest.raises(ValueError, match='`unit`. Expected one of "epoch", "step"'):
        C.TemperatureScheduler(SCHEDULE, unit="batch")
    with pytest.raises(ValueError, match="`layers`"):
        fit(make_model(), C.TemperatureScheduler(SCHEDULE, layers=["y"]))
    scheduled = tfc.ConcreteSample(temperature=SCHEDULE, name="own")
    with pytest.raises(ValueError, match="schedule of their own"):
        fit(make_model(scheduled), C.TemperatureScheduler(SCHEDULE, layers=["own"]))
    with pytest.raises(ValueError, match="no sampling layer"):
        fit(make_model(scheduled), C.TemperatureScheduler(SCHEDULE))
    with pytest.raises(ValueError, match="`temperature`"):
        fit(make_model(), C.TemperatureScheduler(lambda epoch: 0.0))
    with pytest.raises(TypeError, match="`schedule`.*present temperature"):
        C.TemperatureScheduler(lambda epoch, temperature, other: 0.5)
    for wrong in (None, "0.5", np.array([0.5])):
        with pytest.raises(TypeError, match="`schedule`.*a positive number"):
            fit(make_model(), C.TemperatureScheduler(lambda epoch, wrong=wrong: wrong))


def test_a_resumed_run_writes_all_columns_in_its_first_epoch():
    callback = C.DiscretizationGap((np.ones([4, 3]), np.ones([4, 3])), every=2)
    model = make_model()
    for first, expected in ((1, [True, True, False]), (2, [True, False, True])):
        seen = []
        log = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs, seen=seen: seen.append("argmax_gap" in logs)
        )
        x = np.ones([4, 3], "float32")
        model.fit(x, x, initial_epoch=first, epochs=first + 3, callbacks=[callback, log], verbose=0)
        assert seen == expected


def test_diagnostics_leave_training_alone():
    """Losses with and without the callbacks are equal bit for bit."""
    histories = []
    for diagnose in (False, True):
        keras.utils.set_random_seed(1)
        z = tfc.ConcreteSample(temperature=SCHEDULE, seed=0, name="z")
        model = make_model(z)
        callbacks = [C.DiscretizationGap((X, Y)), C.GradientDiagnostics((X, Y))]
        histories.append(fit(model, *(callbacks if diagnose else [])))
    assert histories[0]["loss"] == histories[1]["loss"]


def test_discretization_gap():
    z = tfc.ConcreteSample(temperature=0.5, seed=0)
    model = make_model(z, metrics=["mae"])
    history = fit(
        model,
        C.DiscretizationGap((X, Y)),
        C.DiscretizationGap((X, Y), every=2),
        validation_data=(X, Y),
    )
    # Keras' own validation is discrete already.
    np.testing.assert_allclose(history["val_discrete_loss"], history["val_loss"], rtol=1e-6)
    np.testing.assert_allclose(history["val_discrete_mae"], history["val_mae"], rtol=1e-6)
    assert len(history["val_relaxed_mae"]) == 3
    gap = np.subtract(history["val_discrete_loss"], history["val_relaxed_loss"])
    np.testing.assert_allclose(history["discretization_gap"], gap)
    assert np.all(np.abs(gap) > 0)


def test_discretization_gap_vanishes_with_the_temperature():
    z = tfc.layers.StraightThrough(seed=0)
    inputs = keras.Input([3])
    model = keras.Model(inputs, z(inputs))
    model.compile("sgd", "mse")
    certain = 1000.0 * np.eye(3, dtype="float32")
    history = model.fit(
        certain, certain, callbacks=[C.DiscretizationGap((certain, certain))], verbose=0
    ).history
    assert history["discretization_gap"] == [0.0]


def test_gradient_diagnostics_numbers():
    """A linear loss, whose straight-through gradients are known."""
    z = tfc.layers.StraightThrough(temperature=0.7, seed=0, name="z")
    inputs = keras.Input([3])
    model = keras.Model(inputs, z(inputs))
    weights = np.array([1.0, -2.0, 0.5], np.float32)
    model.compile(loss=lambda y, p: keras.ops.sum(p * weights, -1))
    x = np.tile(np.array([[0.3, 0.0, -0.4]], np.float32), [200, 1])
    callback = C.GradientDiagnostics((x, x), num_samples=4)
    callback.set_model(model)
    callback.on_train_begin()
    logs = {}
    callback.on_epoch_end(0, logs)
    # The straight-through gradient of a linear loss does not depend on the draw.
    assert logs["gradient_variance"] == pytest.approx(0.0, abs=1e-12)
    assert logs["vanishing_gradients"] == 0.0
    p = np.exp(x[0]) / np.exp(x[0]).sum()
    assert logs["perplexity"] == pytest.approx(np.exp(-np.sum(p * np.log(p))), rel=0.05)
    assert logs["dead_classes"] == 0


def test_vanishing_and_dead_classes_warn():
    z = tfc.ConcreteSample(temperature=0.01, seed=0, name="z")
    binary = tfc.layers.BinConcreteSample(temperature=0.01, seed=0, name="b")
    inputs = keras.Input([3])
    shift = keras.layers.Rescaling([1.0, 1.0, 1.0], offset=[0.0, 0.0, -500.0])
    model = keras.Model(inputs, keras.layers.Add()([z(shift(inputs)), binary(inputs)]))
    model.compile("sgd", "mse")
    callback = C.GradientDiagnostics((X, Y), num_samples=5)
    with pytest.warns(UserWarning, match="1 classes of layer 'z' are never drawn"):
        history = fit(model, callback, epochs=1)
    assert history["z_dead_classes"] == [1] and history["b_dead_classes"] == [0]
    assert history["z_vanishing_gradients"][0] > 1 / 3
    assert 1.0 < history["z_perplexity"][0] < 2.01
    assert history["b_gradient_variance"][0] > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        callback.on_epoch_end(1, {})  # the same class is not news


def test_gradient_diagnostics_with_datasets_and_losses():
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)

    def loss(model, x, y, sample_weight):
        return tf.reduce_mean((model(x, training=True) - y) ** 2)

    model = make_model(tfc.layers.GumbelRao(num_samples=3), tfc.ExpConcreteSample())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        history = fit(model, C.GradientDiagnostics(data, num_samples=2, loss=loss, every=2))
    assert len([name for name in history if name.endswith("gradient_variance")]) == 2
    measured = -(-len(history["loss"]) // 2)  # the first epoch, and every other after it
    assert all(len(v) == measured for name, v in history.items() if name != "loss")
    with pytest.raises(ValueError, match="`num_samples`"):
        C.GradientDiagnostics(data, num_samples=1)
    with pytest.raises(TypeError, match="`loss`"):
        C.GradientDiagnostics(data, loss="mse")


def test_callbacks_on_a_model_of_the_package():
    """The bound of training is differentiated, and both bounds of the test are logged."""
    encoder = keras.Sequential(
        [keras.Input([3]), keras.layers.Dense(8), keras.layers.Reshape([2, 4])]
    )
    decoder = keras.Sequential([keras.Input([2, 4]), keras.layers.Flatten(), keras.layers.Dense(3)])
    model = tfc.models.DiscreteVAE(encoder, decoder, tfc.ConcreteSample(0.5, seed=0))
    model.compile("adam")
    x = (X > 0).astype("float32")
    callbacks = [C.TemperatureScheduler(SCHEDULE), C.GradientDiagnostics(x), C.DiscretizationGap(x)]
    history = model.fit(x, callbacks=callbacks, verbose=0).history
    assert history["temperature"] == [2.0]
    assert history["gradient_variance"][0] > 0
    assert history["discretization_gap"][0] == pytest.approx(
        history["val_discrete_loss"][0] - history["val_relaxed_loss"][0]
    )
    assert history["discretization_gap"][0] != 0


@pytest.mark.parametrize("estimator", ["rloo", pytest.param("disarm_tree", marks=pytest.mark.slow)])
def test_score_function_gradients_are_seen(estimator):
    """At the posterior's logits, with the variance that the training loss itself has."""
    encoder = keras.Sequential(
        [keras.Input([3]), keras.layers.Dense(8), keras.layers.Reshape([2, 4])]
    )
    decoder = keras.Sequential([keras.Input([2, 4]), keras.layers.Flatten(), keras.layers.Dense(3)])
    model = tfc.models.ScoreFunctionVAE(
        encoder, decoder, tfc.ConcreteSample(0.5, seed=0), estimator=estimator
    )
    model.compile(keras.optimizers.SGD(0.0))
    x = (X[:4] > 0).astype("float32")
    callback = C.GradientDiagnostics(x, num_samples=200)
    found = model.fit(x, callbacks=[callback], verbose=0).history["gradient_variance"][0]

    # The bias's gradient is the sum of those at the logits of four examples, whose noises
    # are independent: the variances add. 200 draws leave each estimate some 15% of error.
    bias = encoder.layers[0].bias

    @tf.function
    def gradient():
        with tf.GradientTape() as tape:
            loss = model.training_loss(tf.constant(x))
        return tape.gradient(loss, bias.value)

    of_sum = np.var([gradient().numpy() for _ in range(200)], axis=0, ddof=1).mean()
    assert 0.5 < of_sum / (4 * found) < 2.0
