"""The dense networks of the examples: an encoder, and its mirror image as a decoder."""

import keras
import numpy as np

import tfconcrete as tfc


def dense_pair(
    hidden, variables, classes, activation="relu", logits_activation=None, pixel_bias=None
):
    """An encoder from 28 x 28 images to logits, and a decoder back to pixel logits.

    Args:
        hidden: sizes of the encoder's hidden layers; the decoder has them in reverse.
        variables, classes: shape of the latent.
        activation: of the hidden layers.
        logits_activation: of the encoder's outputs; the GST paper has a ReLU there.
        pixel_bias: array `[28, 28]`, what the decoder's outputs start at; zeros where None.

    Returns:
        `(encoder, decoder)`, two Keras models.
    """
    encoder = keras.Sequential(name="encoder")
    encoder.add(keras.Input([28, 28], name="image"))
    encoder.add(keras.layers.Flatten())
    for size in hidden:
        encoder.add(keras.layers.Dense(size, activation))
    encoder.add(keras.layers.Dense(variables * classes, logits_activation))
    encoder.add(keras.layers.Reshape([variables, classes], name="logits"))

    decoder = keras.Sequential(name="decoder")
    decoder.add(keras.Input([variables, classes], name="codes"))
    decoder.add(keras.layers.Flatten())
    for size in reversed(hidden):
        decoder.add(keras.layers.Dense(size, activation))
    bias = "zeros"
    if pixel_bias is not None:
        bias = keras.initializers.Constant(np.ravel(pixel_bias))
    decoder.add(keras.layers.Dense(28 * 28, bias_initializer=bias))
    decoder.add(keras.layers.Reshape([28, 28], name="pixels"))
    return encoder, decoder


def gst_pair():
    """30 x 10 latents (GST, 5.1): 784-512-256-300, ReLU after every encoder layer."""
    return dense_pair((512, 256), 30, 10, logits_activation="relu")


def gst_large_pair():
    """32 x 64 latents (GST, Table 4): leaky ReLUs of slope 0.2, free logits."""
    return dense_pair((512, 256), 32, 64, activation=keras.layers.LeakyReLU(0.2))


def two_code_pair(images):
    """2 x 10 latents, so few that every code can be looked at.

    Args:
        images: training images; the decoder starts at their base rate (Concrete, D.3).
    """
    return dense_pair((256, 128), 2, 10, pixel_bias=tfc.objectives.base_rate_bias(images))
