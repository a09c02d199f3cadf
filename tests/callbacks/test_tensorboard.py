"""What the callbacks leave for TensorBoard, read back from the event files."""

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

pytest.importorskip("tensorboard", reason="event files are written with TensorBoard's help")

IMAGES = (np.random.default_rng(0).random([48, 4, 4]) < 0.5).astype("float32")


def make_vae():
    encoder = keras.Sequential(
        [
            keras.Input([4, 4]),
            keras.layers.Flatten(),
            keras.layers.Dense(6),
            keras.layers.Reshape([2, 3]),
        ]
    )
    decoder = keras.Sequential(
        [
            keras.Input([2, 3]),
            keras.layers.Flatten(),
            keras.layers.Dense(16),
            keras.layers.Reshape([4, 4]),
        ]
    )
    vae = tfc.models.DiscreteVAE(encoder, decoder, tfc.ConcreteSample(seed=0, name="z"))
    vae.compile("adam")
    return vae


def events(folder):
    """`{tag: [(step, value)]}` of every event file below a folder."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob("events.out.tfevents.*")):
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                array = tf.make_ndarray(value.tensor)
                found.setdefault(value.tag, []).append((event.step, array))
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A VAE after two epochs with all callbacks, its history, and the folder they wrote to."""
    folder = tmp_path_factory.mktemp("runs")
    vae = make_vae()
    callbacks = [
        tfc.callbacks.TemperatureScheduler(tfc.schedules.ExponentialAnnealing(1.0, 0.5, 0.1)),
        tfc.callbacks.GradientDiagnostics(IMAGES, num_samples=2),
        tfc.callbacks.CodeSummaries(folder / "codes", IMAGES, images=3),
        keras.callbacks.TensorBoard(folder),
    ]
    history = vae.fit(IMAGES, validation_data=(IMAGES,), epochs=2, callbacks=callbacks, verbose=0)
    return vae, history.history, folder


def test_every_logged_number_is_a_scalar_there(run):
    _, history, folder = run
    assert {"temperature", "gradient_variance", "perplexity", "dead_classes"} <= set(history)
    written = {"": events(folder / "train"), "val_": events(folder / "validation")}
    for name, values in history.items():
        prefix = "val_" if name.startswith("val_") else ""
        scalars = written[prefix][f"epoch_{name.removeprefix(prefix)}"]
        assert [step for step, _ in scalars] == [0, 1]
        np.testing.assert_allclose([value for _, value in scalars], values, rtol=1e-5)


def test_codes_are_histograms_with_a_bar_for_each_class(run):
    vae, _, folder = run
    written = events(folder / "codes")
    assert [step for step, _ in written["codes/z"]] == [0, 1]
    bars = written["codes/z"][-1][1]  # [classes, (left, right, count)]
    np.testing.assert_array_equal(bars[:, :2], [[-0.5, 0.5], [0.5, 1.5], [1.5, 2.5]])
    counts = np.bincount(vae.encode(IMAGES).ravel(), minlength=3)
    np.testing.assert_array_equal(bars[:, 2], counts)
    frequencies = written["usage/z"][-1][1]
    assert frequencies[:, 2].sum() == 3  # one for each class


def test_an_unused_class_has_an_empty_bar(tmp_path):
    bias = keras.initializers.Constant([9.0, 0.0, 9.0, -99.0])
    dense = keras.layers.Dense(4, kernel_initializer="glorot_normal", bias_initializer=bias)
    model = keras.Sequential([keras.Input([3]), dense, tfc.ConcreteSample(name="z")])
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=[32, 3])
    summaries = tfc.callbacks.CodeSummaries(tmp_path, x)
    model.fit(x, np.zeros([32, 4]), callbacks=[summaries], verbose=0)
    [(_, bars)] = events(tmp_path)["codes/z"]
    assert bars.shape == (4, 3) and bars[3, 2] == 0 and bars[:, 2].sum() == 32


def test_decoded_codes_are_images(run):
    vae, _, folder = run
    written = events(folder / "codes")
    assert len(written["data"]) == 1 and len(written["decoded"]) == 2
    width, height, *pngs = written["decoded"][-1][1]
    assert (int(width), int(height), len(pngs)) == (4, 4, 3)
    pixels = np.stack([tf.io.decode_png(png).numpy()[..., 0] for png in pngs])
    expected = vae.decode(vae.encode(IMAGES[:3]))
    np.testing.assert_allclose(pixels / 255.0, expected, atol=1.01 / 255.0)


def test_training_goes_as_without(tmp_path):
    losses = []
    for callbacks in ([], [tfc.callbacks.CodeSummaries(tmp_path, IMAGES, images=2)]):
        keras.utils.set_random_seed(0)
        vae = make_vae()
        losses.append(vae.fit(IMAGES, epochs=2, callbacks=callbacks, verbose=0).history["loss"])
    assert losses[0] == losses[1]


@pytest.mark.parametrize(
    "arguments, name",
    [({"images": -1}, "images"), ({"image_shape": (4,)}, "image_shape"), ({"every": 0}, "every")],
)
def test_bad_arguments(arguments, name, tmp_path):
    with pytest.raises(ValueError, match=name):
        tfc.callbacks.CodeSummaries(tmp_path, IMAGES, **arguments)
