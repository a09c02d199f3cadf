"""The dense networks of the examples: an encoder, and its mirror image as a decoder."""

import keras


def dense_pair(hidden, variables, classes, activation="relu", logits_activation=None):
    """An encoder from 28 x 28 images to logits, and a decoder back to pixel logits.

    Args:
        hidden: sizes of the encoder's hidden layers; the decoder has them in reverse.
        variables, classes: shape of the latent.
        activation: of the hidden layers.
        logits_activation: of the encoder's outputs; the GST paper has a ReLU there.

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
    decoder.add(keras.layers.Dense(28 * 28))
    decoder.add(keras.layers.Reshape([28, 28], name="pixels"))
    return encoder, decoder


def gst_pair():
    """30 x 10 latents (GST, 5.1): 784-512-256-300, ReLU after every encoder layer."""
    return dense_pair((512, 256), 30, 10, logits_activation="relu")


def gst_large_pair():
    """32 x 64 latents (GST, Table 4): leaky ReLUs of slope 0.2, free logits."""
    return dense_pair((512, 256), 32, 64, activation=keras.layers.LeakyReLU(0.2))


def two_code_pair():
    """2 x 10 latents, so few that every code can be looked at.

    The decoder starts at zero on purpose. Started at the data's base rate, as larger models
    may be (Concrete, D.3), it decoded all codes alike after 25 epochs on the embedded images,
    at every temperature.
    """
    return dense_pair((256, 128), 2, 10)
