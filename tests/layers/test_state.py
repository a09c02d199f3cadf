"""Temperatures, schedules and seeds: assigned, advanced, saved, restored."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

LOGITS = tf.constant([[0.3, -1.0, 1.2, 0.0], [-2.0, 1.5, 0.25, 0.5]])


def model_of(case, **kwargs):
    inputs = case.symbolic(4)
    return keras.Model(inputs, case.make(name="z", **kwargs)(inputs))


def test_config_round_trip(any_layer):
    layer = any_layer.make(seed=3, name="z", dtype="mixed_float16")
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert again.name == "z" and again.compute_dtype == "float16"
    text = keras.saving.serialize_keras_object(layer)
    assert text["registered_name"] == f"tfconcrete>{type(layer).__name__}"
    inputs = any_layer.inputs(LOGITS)
    np.testing.assert_array_equal(layer(inputs, training=True), again(inputs, training=True))


def test_restored_models_continue(any_layer, tmp_path):
    """Weights, temperature and noise stream survive a file, even without a seed."""
    case = any_layer
    model = model_of(case, inference="sample")
    inputs = case.inputs(LOGITS)
    model(inputs, training=True)
    if hasattr(model.get_layer("z"), "temperature"):
        model.get_layer("z").temperature = 0.37
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    tf.train.Checkpoint(model=model).write(str(tmp_path / "checkpoint"))
    expected = [model(inputs, training=True), model(inputs), model(inputs, training=True)]

    by_weights, by_checkpoint = (
        model_of(case, inference="sample"),
        model_of(case, inference="sample"),
    )
    by_weights.load_weights(tmp_path / "model.weights.h5")
    checkpoint = tf.train.Checkpoint(model=by_checkpoint)
    checkpoint.read(str(tmp_path / "checkpoint")).assert_consumed()
    for again in (keras.models.load_model(tmp_path / "model.keras"), by_weights, by_checkpoint):
        got = [again(inputs, training=True), again(inputs), again(inputs, training=True)]
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_seeds(any_layer):
    case = any_layer
    inputs = case.inputs(tf.zeros([50, 4]))
    layer, same, other = case.make(seed=3), case.make(seed=3), case.make(seed=4)
    first = layer(inputs, training=True).numpy()
    np.testing.assert_array_equal(first, same(inputs, training=True))
    assert np.any(first != layer(inputs, training=True))
    assert np.any(first != other(inputs, training=True))
    assert isinstance(layer.seed_generator, keras.random.SeedGenerator)
    # Deterministic modes leave the stream alone.
    before = layer.seed_generator.state.numpy()
    layer(inputs)
    np.testing.assert_array_equal(layer.seed_generator.state.numpy(), before)


def test_unseeded_layers_follow_the_global_seed():
    samples = []
    for _ in range(2):
        keras.utils.set_random_seed(5)
        samples.append(tfc.ConcreteSample()(LOGITS, training=True).numpy())
    np.testing.assert_array_equal(*samples)


def test_a_shared_generator():
    generator = keras.random.SeedGenerator(5)
    one, other = tfc.ConcreteSample(seed=generator), tfc.ConcreteSample(seed=generator)
    first = one(LOGITS, training=True).numpy()
    assert np.any(first != other(LOGITS, training=True))


def test_a_shared_generator_is_shared_in_files_and_clones(tmp_path):
    generator = keras.random.SeedGenerator(5)
    inputs = keras.Input([LOGITS.shape[-1]])
    draws = [tfc.ConcreteSample(seed=generator, name=name)(inputs) for name in "ab"]
    model = keras.Model(inputs, draws)
    model(LOGITS, training=True)
    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    first, second = restored(LOGITS, training=True)
    assert np.any(first != second)
    for draw, expected in zip((first, second), model(LOGITS, training=True), strict=True):
        np.testing.assert_array_equal(draw, expected)
    first, second = keras.models.clone_model(model)(LOGITS, training=True)
    assert np.any(first != second)


def test_the_temperature_is_a_weight(any_layer):
    case = any_layer
    if case.name.startswith("distribution"):
        pytest.skip("a distribution has a temperature of its own")
    model = model_of(case, seed=0)
    layer = model.get_layer("z")
    assert [w.path.split("/")[-1] for w in layer.non_trainable_weights] == ["temperature"]
    assert not layer.trainable_weights
    assert layer.temperature.shape == () and layer.temperature.dtype == "float32"
    layer.temperature.assign(0.25)
    assert float(layer.temperature.numpy()) == 0.25
    layer.temperature = 0.125
    assert float(layer.temperature.numpy()) == 0.125
    assert layer.non_trainable_weights == [layer.temperature]
    other = tfc.ConcreteSample(temperature=0.125)
    for value in (other.temperature, tf.constant(0.125), np.float32(0.125)):
        layer.temperature = 0.5
        layer.temperature = value
        assert float(layer.temperature.numpy()) == 0.125
        assert layer.temperature is not other.temperature
    assert layer.non_trainable_weights == [layer.temperature]
    for bad in (0.0, -1, float("nan"), float("inf"), 1e-60, 1e60):
        with pytest.raises(ValueError, match="`temperature`. Expected a positive finite number"):
            layer.temperature = bad
    for bad in ([0.5], np.ones([2]), tf.ones([2]), "0.5", None, True, lambda step: 0.5):
        with pytest.raises(TypeError, match="`temperature`. Expected a positive finite number"):
            layer.temperature = bad
    assert float(layer.temperature.numpy()) == 0.125


def test_assigning_the_temperature_does_not_retrace():
    layer = tfc.ConcreteSample(temperature=5.0, seed=0)
    traces = []

    @tf.function(jit_compile=True)
    def step(logits):
        traces.append(1)
        return layer(logits, training=True)

    warm = np.max(step(LOGITS), -1)
    layer.temperature.assign(0.01)
    cold = np.max(step(LOGITS), -1)
    assert len(traces) == 1
    assert np.all(warm < 0.6) and np.all(cold > 0.99)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_schedule_advances_inside_the_compiled_step(jit_compile, tmp_path):
    schedule = tfc.schedules.ExponentialAnnealing(2.0, 0.5, rate=0.1)
    layer = tfc.ConcreteSample(temperature=schedule, seed=0, name="z")
    inputs = keras.Input([4])
    model = keras.Model(inputs, layer(keras.layers.Dense(4)(inputs)))
    assert float(layer.temperature.numpy()) == 2.0
    model.compile("sgd", "mse", jit_compile=jit_compile, steps_per_execution=3)
    x, y = np.ones([12, 4], "float32"), np.ones([12, 4], "float32")
    model.fit(x, y, batch_size=2, epochs=1, verbose=0)
    np.testing.assert_allclose(layer.temperature.numpy(), 2.0 * np.exp(-0.1 * 5), rtol=1e-6)
    model.evaluate(x, y, verbose=0)
    model.predict(x, verbose=0)
    np.testing.assert_allclose(layer.temperature.numpy(), 2.0 * np.exp(-0.1 * 5), rtol=1e-6)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    again.fit(x, y, batch_size=2, epochs=1, verbose=0)
    layer = again.get_layer("z")
    np.testing.assert_allclose(layer.temperature.numpy(), 2.0 * np.exp(-0.1 * 11), rtol=1e-6)
    assert repr(layer.schedule) == repr(schedule)


def test_a_scheduled_temperature_is_the_one_used():
    layer = tfc.ConcreteSample(tfc.schedules.MixedTemperature(0.05, 5.0, every=2), seed=0)
    logits = tf.zeros([200, 4])
    sharp = [
        float(tf.reduce_mean(tf.reduce_max(layer(logits, training=True), -1))) for _ in range(4)
    ]
    assert min(sharp[0], sharp[2]) > 0.9 and max(sharp[1], sharp[3]) < 0.5


@keras.saving.register_keras_serializable("tests")
def halved(step):
    return 0.5 ** (1.0 + tf.cast(step, tf.float32))


def test_any_serialisable_callable_is_a_schedule():
    layer = tfc.ConcreteSample(temperature=halved)
    again = tfc.ConcreteSample.from_config(layer.get_config())
    again(LOGITS, training=True)
    again(LOGITS, training=True)
    assert float(again.temperature.numpy()) == 0.25
    keras_schedule = keras.optimizers.schedules.CosineDecay(1.0, 10, alpha=0.1)
    layer = tfc.ConcreteSample.from_config(tfc.ConcreteSample(keras_schedule).get_config())
    assert float(layer.temperature.numpy()) == 1.0


def test_training_follows_the_call_context():
    inputs = keras.Input([4])
    model = keras.Model(inputs, tfc.ConcreteSample(temperature=1.0, seed=0)(inputs))
    assert set(np.unique(model(LOGITS))) == {0.0, 1.0}
    assert len(np.unique(model(LOGITS, training=True))) == 8
    assert set(np.unique(model.predict(LOGITS, verbose=0))) == {0.0, 1.0}


def test_copies_of_a_layer_on_two_replicas_draw_different_noise():
    """One device stands for both replicas here; two devices are in a slow test."""
    layer = tfc.ConcreteSample(seed=0)

    class Context:
        num_replicas_in_sync = 2

        def __init__(self, replica):
            self.replica_id_in_sync_group = replica

    samples = []
    for replica in range(2):
        layer.seed_generator.state.assign([0, 0])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tf.distribute, "get_replica_context", lambda r=replica: Context(r))
            samples.append(layer(LOGITS, training=True).numpy())
    assert not np.any(samples[0] == samples[1])


class Adapted(tfc.ConcreteSample):
    """A layer with a layer inside, and weights of either kind before and after."""

    def build(self, logits_shape, class_mask_shape=None):
        super().build(logits_shape)
        self.shift = self.add_weight(shape=(4,), name="shift")
        self.scale = self.add_weight(shape=(4,), name="scale", trainable=False)
        self.inner = keras.layers.Dense(4)
        self.inner.build(logits_shape)

    def relax(self, logits, temperature, class_mask=None, seed=None):
        return super().relax(self.inner(logits + self.shift) * self.scale, temperature, seed=seed)


@pytest.mark.parametrize("source", [0.3, tfc.schedules.ExponentialAnnealing(1.0, 0.1, 0.1)])
@pytest.mark.parametrize("target", [0.7, tfc.schedules.ExponentialAnnealing(2.0, 0.1, 0.1)])
def test_weights_of_a_subclass_move_with_and_without_a_schedule(source, target, tmp_path):
    """Keras numbers trainable weights first: the step follows the temperature, not the rest."""

    def make(temperature):
        inputs = keras.Input([4])
        return keras.Model(inputs, Adapted(temperature, name="z")(inputs))

    one, other = make(source), make(target)
    layer, loaded = one.get_layer("z"), other.get_layer("z")
    layer.shift.assign([1.0, 2.0, 3.0, 4.0])
    layer.scale.assign([5.0, 6.0, 7.0, 8.0])
    one.save_weights(tmp_path / "w.weights.h5")
    other.load_weights(tmp_path / "w.weights.h5")
    np.testing.assert_array_equal(loaded.shift, layer.shift)
    np.testing.assert_array_equal(loaded.scale, layer.scale)
    np.testing.assert_array_equal(loaded.inner.kernel, layer.inner.kernel)
    np.testing.assert_array_equal(loaded.temperature.numpy(), layer.temperature.numpy())
