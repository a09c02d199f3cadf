"""Layers of discrete units on the hypercube, as the Concrete paper's networks have them."""

import dataclasses
import math

import keras

import tfconcrete as tfc
from keras_examples import igr_architectures


@dataclasses.dataclass(frozen=True)
class Units:
    """A kind of discrete unit: which relaxation, how many classes, at which temperature."""

    relaxation: str
    classes: int
    temperature: float

    @property
    def label(self):
        name = {"igr": "IGR", "concrete": "Concrete"}[self.relaxation]
        return f"{name} {self.arity} ({self.temperature:.2g})"

    @property
    def arity(self):
        return "binary" if self.classes == 2 else f"{self.classes}-ary"

    @property
    def is_binary_concrete(self):
        return self.relaxation == "concrete" and self.classes == 2

    def latent(self, seed):
        if self.is_binary_concrete:
            return tfc.layers.BinConcreteSample(self.temperature, levels=(-1, 1), seed=seed)
        if self.relaxation == "concrete":
            return tfc.ConcreteSample(self.temperature, seed=seed)
        return tfc.IGRSample(temperature=self.temperature, seed=seed)

    def parameters(self, hidden, width):
        """The latent's parameters for a layer of `width` units, linear in `hidden`."""
        if self.is_binary_concrete:
            return keras.layers.Dense(width)(hidden)
        variables = width // int(math.log2(self.classes))
        heads = igr_architectures.head_shapes(self.relaxation, variables, self.classes)
        outputs = [
            keras.layers.Reshape(shape)(keras.layers.Dense(math.prod(shape))(hidden))
            for shape in heads
        ]
        return outputs[0] if len(outputs) == 1 else outputs

    def sample_input(self, width):
        """A model's input for the latent's samples, and the units in [-1, 1] it stands for."""
        if self.is_binary_concrete:
            inputs = keras.Input([width])
            return inputs, inputs
        inputs = keras.Input([width // int(math.log2(self.classes)), self.classes])
        return inputs, tfc.layers.HypercubeCode(self.classes)(inputs)
