"""Run by `test_distribution.py`, once for each of two workers on loopback."""

import os
import pathlib
import sys

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()

import keras  # noqa: E402  after the collectives are up

import tfconcrete as tfc  # noqa: E402
from tfconcrete._workers import is_chief, place_among_workers  # noqa: E402

# Workers that shuffle alike share the examples of an epoch, none twice.
keras.utils.set_random_seed(0)
FOLDER = pathlib.Path(sys.argv[1])
INDEX, _ = place_among_workers(strategy)
X = np.random.default_rng(0).integers(0, 2, [21, 6]).astype(np.float32)
# A decoder that tells examples apart.
BIAS = np.array([3.0, -3.0, 2.0, -2.0, 1.0, -1.0], np.float32)


def dense(inputs, outputs):
    return keras.Sequential([keras.Input((inputs,)), keras.layers.Dense(outputs)])


class Functional(tfc.models.Replicated, keras.Model):
    """A functional model that starts under several workers."""


def joint(latent):
    x = keras.Input((6,))
    encoder = keras.Model(x, [keras.layers.Dense(n)(x) for n in (4, 2, 2)])
    z = [keras.Input((4,)), keras.Input((2,))]
    decoder = keras.Model(z, keras.layers.Dense(6)(keras.layers.Concatenate()(z)))
    return tfc.models.JointVAE(encoder, decoder, latent, seed=1)


def functional(latent):
    inputs = keras.Input((6,), name="x")
    return Functional(inputs, keras.layers.Dense(6)(latent(keras.layers.Dense(4)(inputs))))


def latent():
    schedule = tfc.schedules.ExponentialAnnealing(1.0, 0.1, rate=0.1)
    return tfc.layers.BinConcreteSample(schedule, seed=0, name="z")


M = tfc.models
MODELS = {
    "vae": (lambda: M.DiscreteVAE(dense(6, 4), dense(4, 6), latent()), {}, (X,)),
    "vae_xla": (
        lambda: M.DiscreteVAE(dense(6, 4), dense(4, 6), latent()),
        {"jit_compile": True},
        (X,),
    ),
    "joint": (lambda: joint(latent()), {}, (X,)),
    "score": (lambda: M.ScoreFunctionVAE(dense(6, 4), dense(4, 6), latent()), {}, (X,)),
    "predictor": (lambda: M.StructuredPredictor(dense(6, 4), dense(4, 6), latent()), {}, (X, X)),
    "functional": (lambda: functional(latent()), {"loss": "mse", "metrics": ["mae"]}, (X, X)),
}


def run(name, make, arguments, data):
    with strategy.scope():
        model = make()
        model.compile(keras.optimizers.SGD(0.1), **arguments)
    history = model.fit(*data, batch_size=8, epochs=2, verbose=0, validation_data=data).history
    assert np.isfinite(history["loss"]).all() and np.isfinite(history["val_loss"]).all()
    assert model.predict(X, batch_size=8, verbose=0).shape == (21, 6)
    layer = tfc.layers.sampling_layers(model)[0]
    if name != "score":
        np.testing.assert_allclose(layer.temperature.numpy(), np.exp(-0.1 * 5), rtol=1e-6)
    if name == "vae":
        # A posterior that is the prior, and a decoder that ignores the code: no noise is left.
        for variable in model.trainable_variables:
            variable.assign(tf.zeros(variable.shape))
        model.decoder.layers[-1].bias.assign(BIAS)
        evaluated(model)
    model.save(FOLDER / f"{name}.keras")
    path = tfc.export.save_discrete(model, FOLDER / name)
    assert (path is not None) == is_chief(strategy)
    flat = np.concatenate([w.numpy().ravel() for w in model.trainable_weights])
    np.save(FOLDER / f"{name}_{INDEX}.npy", flat)


def evaluated(model):
    """What `evaluate` and `log_likelihood` find on this worker, each example counted once."""
    with tfc.layers.inference_mode(model, "argmax"):
        found = model.evaluate(X, batch_size=8, verbose=0, return_dict=True)["loss"]
    counts = [m.count.numpy() for m in model.metrics if m.name == "loss"]
    np.testing.assert_array_equal(counts, [len(X)])
    np.save(FOLDER / f"loss_{INDEX}.npy", found)
    bounds = model.log_likelihood(X, num_samples=500, seed=0, verbose=0)
    np.save(FOLDER / f"likelihood_{INDEX}.npy", bounds)


def uneven():
    """Steps whose examples do not divide by the workers, or leave one without any."""
    for rows in (5, 1):
        with strategy.scope():
            model = MODELS["vae"][0]()
            model.compile(keras.optimizers.SGD(0.1))
            model.decoder.layers[-1].kernel.assign(tf.zeros([4, 6]))
        model.fit(X[:rows], batch_size=8, verbose=0)
        # A decoder that ignores the code: its bias moves by the mean over all examples.
        expected = 0.1 * (X[:rows] - 0.5).mean(0)
        found = model.decoder.layers[-1].bias.numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)


def with_callbacks():
    """Every worker calls them, worker 0 writes."""
    with strategy.scope():
        model = MODELS["vae"][0]()
        model.compile("adam")
    logs = FOLDER / "logs"
    callbacks = [
        keras.callbacks.ModelCheckpoint(FOLDER / "checkpoint.keras"),
        keras.callbacks.BackupAndRestore(FOLDER / "backup", delete_checkpoint=False),
        tfc.callbacks.DiscretizationGap(X, batch_size=8),
        tfc.callbacks.GradientDiagnostics(X, num_samples=2),
        tfc.callbacks.CodeSummaries(logs, X, images=0),
    ]
    history = model.fit(X, batch_size=8, epochs=2, verbose=0, callbacks=callbacks).history
    assert {"val_discrete_loss", "gradient_variance"} <= set(history)
    # The next collective is reached by all, so that all files are there after it.
    model.evaluate(X, batch_size=8, verbose=0)
    assert len(list(logs.iterdir())) == 1
    with strategy.scope():
        again = MODELS["vae"][0]()
        again.compile("adam")
    backup = keras.callbacks.BackupAndRestore(FOLDER / "backup", delete_checkpoint=False)
    again.fit(X, batch_size=8, epochs=2, verbose=0, callbacks=[backup])
    for found, expected in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(found, expected)


for name, (make, arguments, data) in MODELS.items():
    run(name, make, arguments, data)
    print(name, flush=True)
uneven()
with_callbacks()
print("done", os.getpid(), flush=True)
