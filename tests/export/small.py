"""Small models for the tests of the export."""

import keras
import numpy as np
import tensorflow as tf

import tfconcrete as tfc

FEATURES, VARIABLES, CLASSES = 12, 3, 4


def logits(x):
    x = keras.layers.Dense(VARIABLES * CLASSES)(x)
    return keras.layers.Reshape([VARIABLES, CLASSES])(x)


def functional(layer=None, name="image"):
    """`image` to `out` through the sampling layer `z`."""
    inputs = keras.Input([FEATURES], name=name)
    z = (layer or tfc.ConcreteSample(name="z", seed=0))(logits(inputs))
    return keras.Model(inputs, keras.layers.Dense(5, name="out")(keras.layers.Flatten()(z)))


def vae(latent=None, **kwargs):
    encoder = keras.Sequential(
        [
            keras.Input([FEATURES], name="image"),
            keras.layers.Dense(VARIABLES * CLASSES),
            keras.layers.Reshape([VARIABLES, CLASSES]),
        ]
    )
    decoder = keras.Sequential(
        [
            keras.Input([VARIABLES, CLASSES]),
            keras.layers.Flatten(),
            keras.layers.Dense(FEATURES),
        ]
    )
    latent = latent or tfc.ConcreteSample(name="z", seed=0)
    return tfc.models.DiscreteVAE(encoder, decoder, latent, **kwargs)


def images(batch, seed=0):
    return np.random.default_rng(seed).random([batch, FEATURES], np.float32)


def load(path, signature="serving_default"):
    """A signature as a function from arrays to arrays, which keeps its model alive."""
    model = tf.saved_model.load(str(path))
    function = model.signatures[signature]

    def run(**inputs):
        answer = function(**{name: tf.constant(value) for name, value in inputs.items()})
        return {name: value.numpy() for name, value in answer.items()}

    run.model, run.function = model, function
    return run


def codes_of(model, x):
    """The codes of each call, straight from the Keras model."""
    with tfc.layers.record_codes() as records:
        model(x, training=False)
    return [codes.numpy() for _, codes in records]


def assert_same_but_for_ties(codes, expected, logits, tolerance=0.0):
    """Equal codes, except where the two classes' logits tie within a share of the largest.

    Args:
        codes: int `[...]`.
        expected: int `[...]`.
        logits: `[..., classes]`, as the model itself computes them.
        tolerance: The difference that counts as a tie, relative to the largest logit.
    """
    differ = np.asarray(codes) != expected
    rows = np.asarray(logits, np.float64)[differ]
    pairs = np.stack([codes[differ], expected[differ]], axis=-1)
    first, second = np.take_along_axis(rows, pairs, axis=-1).T
    assert np.all(np.abs(first - second) < tolerance * np.abs(logits).max()), (
        f"{differ.sum()} of {differ.size} codes differ"
    )
    assert differ.mean() <= 0.002
