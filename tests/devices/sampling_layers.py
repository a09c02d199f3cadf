"""Every layer of the package, with what it is called on."""

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc

layers, tfd = tfc.layers, tfp.distributions

# From this many classes on a draw goes by blocks of classes.
MANY = (6, 1, 100)

LAYERS = {
    "ConcreteSample": lambda **k: layers.ConcreteSample(**k),
    "ConcreteSample hard": lambda **k: layers.ConcreteSample(hard=True, **k),
    "ConcreteSample annealed": lambda **k: layers.ConcreteSample(
        tfc.schedules.ExponentialAnnealing(1.0, 0.5, 0.1), **k
    ),
    "ExpConcreteSample": lambda **k: layers.ExpConcreteSample(**k),
    "BinConcreteSample": lambda **k: layers.BinConcreteSample(**k),
    "BinConcreteSample hard": lambda **k: layers.BinConcreteSample(hard=True, **k),
    "StraightThrough": lambda **k: layers.StraightThrough(**k),
    "GumbelRao": lambda **k: layers.GumbelRao(**k),
    "GapStraightThrough": lambda **k: layers.GapStraightThrough(**k),
    "GapStraightThrough pi": lambda **k: layers.GapStraightThrough(gap="pi", **k),
    "ReinMax": lambda **k: layers.ReinMax(**k),
    "IGRSample": lambda **k: layers.IGRSample(**k),
    "IGRSample stick-breaking": lambda **k: layers.IGRSample("stick_breaking", **k),
    "IGRSample truncated": lambda **k: layers.IGRSample("stick_breaking", precision=0.99, **k),
    "IGRSample interpolation": lambda **k: layers.IGRSample("interpolation", **k),
}
LAYERS |= {
    "GapStraightThrough soft": lambda **k: layers.GapStraightThrough(hard=False, **k),
    "SubsetSample": lambda **k: layers.SubsetSample(3, **k),
    "SubsetSample gumbel": lambda **k: layers.SubsetSample(3, estimator="gumbel", **k),
    "SubsetSample soft": lambda **k: layers.SubsetSample(3, estimator="gumbel", hard=False, **k),
}
MODES = ("argmax", "sample", "probs")


def layer_input(name, logits):
    return [logits, 0.1 * logits] if name.startswith("IGR") else logits


class Softened(layers.SamplingLayer):
    """A layer of a user's own, which brings a formula and nothing else."""

    def relax(self, logits, temperature, class_mask=None, seed=None):
        return tf.nn.softmax(logits / tf.cast(temperature, logits.dtype), axis=self.axis)


def _tree(choice, **keywords):
    return layers.LatentTreeLSTM(5, choice, **keywords)


def _writer(sampler):
    cell = layers.SamplingCell(keras.layers.GRUCell(5), sampler, num_classes=7)
    return keras.layers.RNN(cell, return_sequences=True)


def _relaxed_bits(x):
    return tfd.Independent(tfc.distributions.BinConcrete(0.5, logits=x), 1)


def _subset(x):
    return tfc.distributions.KSubset(3, x)


ROW = tf.zeros([6, 10])
SEQUENCE = tf.zeros([6, 5, 4])
MASK = tf.constant(np.arange(10) < 7)
LENGTHS = tf.sequence_mask([5, 4, 3, 2, 1, 1], 5)

# `{name: (layer, what it is called on, a tuple for several arguments)}`.
OTHER_LAYERS = {
    "Centering": lambda: (layers.Centering(), ROW),
    "Codes": lambda: (layers.Codes(), ROW),
    "HypercubeCode": lambda: (layers.HypercubeCode(8), tf.zeros([6, 4, 8])),
    "FeatureSelector": lambda: (layers.FeatureSelector(3, seed=0), ROW),
    "FeatureSelector mixtures": lambda: (layers.FeatureSelector(3, hard=False, seed=0), ROW),
    "FeatureSelector sample": lambda: (layers.FeatureSelector(3, inference="sample"), ROW),
    "LatentTreeLSTM": lambda: (_tree(layers.GapStraightThrough(seed=0)), SEQUENCE),
    "LatentTreeLSTM masked": lambda: (_tree(layers.ReinMax(seed=0)), (SEQUENCE, LENGTHS)),
    "LatentTreeLSTM leaves": lambda: (
        _tree(layers.ConcreteSample(hard=True, seed=0), leaf_lstm=True),
        SEQUENCE,
    ),
    "SamplingCell": lambda: (_writer(layers.GapStraightThrough(seed=0)), SEQUENCE),
    "SamplingCell soft": lambda: (_writer(layers.ConcreteSample(seed=0)), SEQUENCE),
    "DistributionSample": lambda: (
        layers.DistributionSample(_relaxed_bits, lambda x: _relaxed_bits(0.0 * x), seed=0),
        ROW,
    ),
    "DistributionSample subset": lambda: (layers.DistributionSample(_subset, seed=0), ROW),
    "IGRSample prior": lambda: (
        layers.IGRSample(prior=(0.0, 1.0), kl_weight=1.0, seed=0),
        [ROW, ROW],
    ),
    "SamplingLayer": lambda: (Softened(0.5, seed=0), ROW),
}
OTHER_LAYERS |= {
    f"{name} masked": lambda make=make: (make(seed=0), (ROW, MASK))
    for name, make in LAYERS.items()
    if not name.startswith("IGR")
}
