"""The networks and latents of the IGR paper (Appendix D), for the examples that use them.

An encoder maps an image to one or several outputs ("heads"), a decoder maps one or several
latents to the parameters of an image. Their shapes say everything else: the dense and the
convolutional pairs serve discrete-only models and models with a Gaussian latent beside.
"""

import math

import keras
import numpy as np

import tfconcrete as tfc
from keras_examples.common import fail

# Units of the encoder's hidden layers. The paper's program has a layer more than its text.
DENSE = {"dense": (512, 256), "dense3": (784, 512, 256)}
# Filters of the convolutions from the image down, and of the transposed ones back up.
CONVOLUTIONS = {
    "conv1": ((32, 64, 64), (32, 32)),
    "conv2": ((32, 64, 64, 64), (64, 32, 32)),
}
ARCHITECTURES = (*DENSE, *CONVOLUTIONS)
LATENTS = ("igr", "igr_sb", "igr_planar", "concrete")


def fit_images(images, architecture):
    """Images `[n, size, size(, channels)]` with a border of zeros up to the network's size.

    A convolutional pair has one size, 32 or 64; the dense ones take any.
    """
    if architecture in DENSE:
        return images
    size = 4 * 2 ** len(CONVOLUTIONS[architecture][0])
    border = size - images.shape[1]
    if border < 0:
        fail(
            f"--architecture {architecture} takes images of up to {size} x {size}, "
            f"not {images.shape[1]} x {images.shape[2]}"
        )
    before, after = border // 2, border - border // 2
    return np.pad(images, [(0, 0), (before, after), (before, after), *[(0, 0)] * (images.ndim - 3)])


def build_encoder(architecture, image_shape, heads):
    """From an image to outputs of the given shapes, linear in the last hidden layer.

    Args:
        architecture: one of `ARCHITECTURES`.
        image_shape: `[height, width]` or `[height, width, channels]`.
        heads: list of shapes, one for each output.
    """
    inputs = keras.Input(image_shape, name="image")
    if architecture in DENSE:
        hidden = keras.layers.Flatten()(inputs)
        for units in DENSE[architecture][:-1]:
            hidden = keras.layers.Dense(units, "relu")(hidden)
    else:
        hidden = inputs
        if len(image_shape) == 2:
            hidden = keras.layers.Reshape([*image_shape, 1])(hidden)
        for filters in CONVOLUTIONS[architecture][0]:
            hidden = keras.layers.Conv2D(filters, 4, 2, "same", activation="relu")(hidden)
        hidden = keras.layers.Flatten()(hidden)
    hidden = keras.layers.Dense(256, "relu")(hidden)
    outputs = [
        keras.layers.Reshape(shape)(keras.layers.Dense(math.prod(shape))(hidden)) for shape in heads
    ]
    return keras.Model(inputs, outputs if len(outputs) > 1 else outputs[0], name="encoder")


def build_decoder(architecture, image_shape, latents):
    """From latents of the given shapes to the parameters of an image.

    Args:
        architecture: one of `ARCHITECTURES`.
        image_shape: `[height, width]` or `[height, width, channels]`, of the parameters.
        latents: list of shapes, one for each input.
    """
    inputs = [keras.Input(shape) for shape in latents]
    hidden = [keras.layers.Flatten()(latent) for latent in inputs]
    hidden = keras.layers.Concatenate()(hidden) if len(hidden) > 1 else hidden[0]
    hidden = keras.layers.Dense(256, "relu")(hidden)
    if architecture in DENSE:
        hidden = keras.layers.Dense(512, "relu")(hidden)
        hidden = keras.layers.Dense(math.prod(image_shape))(hidden)
    else:
        hidden = keras.layers.Dense(1024, "relu")(hidden)
        hidden = keras.layers.Reshape([4, 4, 64])(hidden)
        for filters in CONVOLUTIONS[architecture][1]:
            hidden = keras.layers.Conv2DTranspose(filters, 4, 2, "same", activation="relu")(hidden)
        channels = image_shape[2] if len(image_shape) == 3 else 1
        hidden = keras.layers.Conv2DTranspose(channels, 4, 2, "same")(hidden)
    outputs = keras.layers.Reshape(image_shape)(hidden)
    return keras.Model(inputs if len(inputs) > 1 else inputs[0], outputs, name="decoder")


def head_shapes(name, variables, classes):
    """The encoder outputs that a latent of this name is called on."""
    if name in ("concrete", "gst"):
        return [[variables, classes]]
    return [[variables, classes - 1]] * 2


def build_latent(
    name, temperature, classes, delta=0.1, flows=2, precision=None, prior=None, seed=None
):
    """IGR by softmax++, stick-breaking or planar flows, ExpConcrete; GST beside them.

    `prior` is an IGR's, location and scale of its Gaussians; None for the layer's default.
    """
    if name == "gst":
        return tfc.GapStraightThrough(temperature, seed=seed, name="z")
    if name == "concrete":
        return tfc.ExpConcreteSample(temperature, seed=seed, name="z")
    if name == "igr_sb":
        return tfc.IGRSample(
            "stick_breaking",
            temperature,
            delta,
            precision=precision,
            prior=prior,
            seed=seed,
            name="z",
        )
    transform = "softmax++"
    if name == "igr_planar":
        transform = tfc.bijectors.PlanarFlow.create(flows, classes - 1, seed=seed)
    return tfc.IGRSample(transform, temperature, delta, prior=prior, seed=seed, name="z")


def on_simplex(latent, parameters):
    """Relaxed samples of a latent for an encoder's outputs, as points of the simplex."""
    sample = latent(parameters, training=True)
    is_logarithm = isinstance(latent, tfc.ExpConcreteSample)
    return keras.ops.exp(sample) if is_logarithm else sample
