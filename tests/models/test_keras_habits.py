"""What a Keras user expects of a model: compile, callbacks, precision, files, summary."""

import importlib.util

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.models.enumeration import PIXELS, dense, make_data, make_networks
from tfconcrete.models.data import check_data, without_autotune

layers = tfc.layers
X = make_data(64)


def make_model(layer=None, **kwargs):
    layer = layer or layers.ConcreteSample(seed=0)
    encoder, decoder, _ = make_networks(layer)
    return tfc.models.DiscreteVAE(encoder, decoder, layer, **kwargs)


def tensorboard(folder):
    """The callback, where the package is installed."""
    if importlib.util.find_spec("tensorboard") is None:
        return []
    return [keras.callbacks.TensorBoard(folder)]


def test_fit_with_validation_callbacks_and_a_dataset(tmp_path):
    model = make_model(num_samples=2)
    model.compile(keras.optimizers.Adam(0.01), jit_compile=True, steps_per_execution=2)
    data = tf.data.Dataset.from_tensor_slices(X).shuffle(64, seed=0).batch(16)
    history = model.fit(
        data,
        epochs=3,
        validation_data=(X, None),
        verbose=0,
        callbacks=[
            keras.callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True),
            keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", "val_loss"),
            keras.callbacks.TerminateOnNaN(),
            keras.callbacks.CSVLogger(tmp_path / "log.csv"),
            *tensorboard(tmp_path / "logs"),
        ],
    ).history
    terms = {"loss", "reconstruction", "kl", "bits_per_dim"}
    assert set(history) == terms | {f"val_{name}" for name in terms | {"discretization_gap"}}
    assert (tmp_path / "best.keras").exists() and (tmp_path / "log.csv").exists()


def test_labels_beside_the_data_are_ignored_and_weights_count():
    model = make_model()
    model.compile("sgd")
    weights = np.zeros(64, np.float32)
    weights[:32] = 2.0
    model.fit(X, np.zeros(64), sample_weight=weights, verbose=0)
    terms = model.training_terms(X, None)
    model._means["loss"].reset_state()
    model._count(X, None, terms, weights)
    logs = model._results()
    np.testing.assert_allclose(logs["loss"], terms["loss"][:32].numpy().mean(), rtol=1e-5)


@pytest.mark.parametrize(
    "policy",
    [
        "mixed_float16",
        pytest.param("mixed_bfloat16", marks=pytest.mark.slow),
        pytest.param("float64", marks=pytest.mark.slow),
    ],
)
def test_other_precisions(policy):
    previous = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model = make_model(prior_logits="trainable")
        model.compile(keras.optimizers.Adam(0.01))
        history = model.fit(X, epochs=2, verbose=0).history
        assert np.isfinite(history["loss"]).all()
        found = model.evaluate(X, verbose=0, return_dict=True)
        assert np.isfinite(list(found.values())).all()
        assert np.isfinite(model.log_likelihood(X[:4], 50, verbose=0)).all()
        assert model.encode(X).dtype == np.int32
        assert np.isfinite(model.generate(2, seed=0)).all()
    finally:
        keras.config.set_dtype_policy(previous)


@pytest.mark.parametrize(
    "kwargs",
    [
        {"prior_logits": "trainable"},
        pytest.param({"prior_logits": np.ones([2, 3]), "beta": 0.5}, marks=pytest.mark.slow),
    ],
)
def test_a_loaded_model_goes_on_as_if_nothing_had_happened(tmp_path, kwargs):
    """Weights, optimizer, temperature and noise: the next steps are the same, bit for bit."""
    model = make_model(layers.ConcreteSample(seed=3), num_samples=2, kl="mass", **kwargs)
    model.compile(keras.optimizers.Adam(0.01), steps_per_execution=2)
    model.fit(X, batch_size=16, shuffle=False, verbose=0)
    model.latent.temperature = 0.4
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    for name in ("kl", "num_samples", "beta", "prior_logits", "prior_temperature"):
        assert again.get_config()[name] == model.get_config()[name]
    assert int(again.optimizer.iterations) == 4
    for each in (model, again):
        each.fit(X, batch_size=16, shuffle=False, verbose=0)
    for old, new in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(old, new, err_msg=old.path)


def test_stacks_and_unbuilt_networks_survive_the_file(tmp_path):
    encoders = [
        keras.Sequential([keras.layers.Dense(4)]),
        keras.Sequential([layers.Centering(0.9), keras.layers.Dense(3)]),
    ]
    decoders = [
        keras.Sequential([keras.layers.Dense(PIXELS)]),
        keras.Sequential([keras.layers.Dense(4)]),
    ]
    latents = [layers.BinConcreteSample(levels=(-1, 1), seed=i) for i in range(2)]
    model = tfc.models.DiscreteVAE(encoders, decoders, latents)
    model.compile("adam")
    model.fit(X, verbose=0)
    assert np.abs(encoders[1].layers[0].mean.numpy()).max() > 0
    model.save(tmp_path / "stack.keras")
    again = keras.models.load_model(tmp_path / "stack.keras")
    np.testing.assert_allclose(again.predict(X, verbose=0), model.predict(X, verbose=0), rtol=1e-6)
    for old, new in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(old, new)


def test_summary_and_weights_file(tmp_path, capsys):
    model = make_model()
    model.summary()
    assert "concrete_sample" in capsys.readouterr().out
    model.save_weights(tmp_path / "model.weights.h5")
    other = make_model()
    other.encoder.layers[1].kernel.assign(0.0 * other.encoder.layers[1].kernel)
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(other.predict(X, verbose=0), model.predict(X, verbose=0))


def test_a_schedule_advances_once_a_step_and_stands_still_in_evaluation():
    schedule = tfc.schedules.ExponentialAnnealing(1.0, 0.1, 0.05)
    model = make_model(layers.ConcreteSample(schedule, seed=0))
    model.compile("adam")
    model.fit(X, batch_size=16, epochs=2, verbose=0)
    before = model.latent.temperature.numpy()
    np.testing.assert_allclose(before, np.exp(-0.05 * 7), rtol=1e-5)
    model.evaluate(X, verbose=0)
    assert model.latent.temperature.numpy() == before


def test_regularization_losses_count():
    encoder = keras.Sequential(
        [
            keras.Input((PIXELS,)),
            keras.layers.Dense(6, kernel_regularizer=keras.regularizers.L2(1e3)),
            keras.layers.Reshape((2, 3)),
        ]
    )
    model = tfc.models.DiscreteVAE(
        encoder, dense((2, 3), (PIXELS,), 1), layers.ConcreteSample(seed=0)
    )
    model.compile(keras.optimizers.SGD(1e-4))
    before = np.abs(encoder.layers[0].kernel.numpy()).sum()
    model.fit(X, epochs=3, verbose=0)
    assert np.abs(encoder.layers[0].kernel.numpy()).sum() < 0.9 * before


def test_hypercube_units_between_latent_and_decoder():
    encoder = dense((PIXELS,), (2, 4), 0)
    decoder = keras.Sequential(
        [keras.Input((2, 4)), layers.HypercubeCode(4), keras.layers.Dense(PIXELS)]
    )
    model = tfc.models.DiscreteVAE(encoder, decoder, layers.ConcreteSample(1.0, seed=0))
    model.compile(keras.optimizers.Adam(0.05))
    history = model.fit(X, batch_size=16, epochs=10, verbose=0).history["loss"]
    assert history[-1] < history[0]
    assert decoder.layers[0].output.shape == (None, 4)


def test_images_keep_their_shape_and_axis_may_be_any():
    """A convolutional pair with the classes along axis 1."""
    encoder = keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            keras.layers.Conv2D(5, 3, strides=2, padding="same"),
            keras.layers.Permute((3, 1, 2)),
        ]
    )
    decoder = keras.Sequential(
        [
            keras.Input((5, 2, 2)),
            keras.layers.Permute((2, 3, 1)),
            keras.layers.Conv2DTranspose(1, 3, strides=2, padding="same"),
        ]
    )
    x = (np.random.default_rng(0).random([8, 4, 4, 1]) < 0.5).astype(np.float32)
    model = tfc.models.DiscreteVAE(
        encoder, decoder, layers.ConcreteSample(axis=1, seed=0), num_samples=2
    )
    model.compile("adam")
    assert np.isfinite(model.fit(x, verbose=0).history["loss"]).all()
    assert model.encode(x).shape == (8, 2, 2)
    assert model.decode(model.encode(x)).shape == x.shape
    assert model.log_likelihood(x, 20, verbose=0).shape == (8,)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_datasets_are_not_tuned_unless_asked(jit_compile):
    """An iterator's end would wait for the tuning thread; explicit options are kept."""
    plain = tf.data.Dataset.from_tensor_slices(np.ones([4, 2], "float32")).batch(2)
    checked = without_autotune(check_data(plain, "x", None, jit_compile))
    assert checked.options().autotune.enabled is False
    np.testing.assert_array_equal(list(checked), np.ones([2, 2, 2]))
    options = tf.data.Options()
    options.autotune.enabled = True
    options.threading.private_threadpool_size = 3
    checked = without_autotune(check_data(plain.with_options(options), "x", None, jit_compile))
    assert checked.options().autotune.enabled is True
    assert checked.options().threading.private_threadpool_size == 3


def test_arguments_by_position():
    weights = np.arange(64.0) / 64
    histories, losses = [], []
    for by_name in (True, False):
        keras.utils.set_random_seed(0)
        model = make_model()
        model.compile("adam")
        if by_name:
            named = {"validation_data": (X,), "shuffle": False, "sample_weight": weights}
            run = model.fit(X, batch_size=16, epochs=2, verbose=0, initial_epoch=1, **named)
            losses.append(model.evaluate(X, batch_size=16, verbose=0, sample_weight=weights))
        else:
            run = model.fit(X, None, 16, 2, 0, None, 0.0, (X,), False, None, weights, 1)
            losses.append(model.evaluate(X, None, 16, 0, weights))
        histories.append(run.history)
    assert histories[0] == histories[1] and losses[0] == losses[1]
    with pytest.raises(TypeError, match="twice"):
        model.fit(X, None, 16, 2, epochs=2)
