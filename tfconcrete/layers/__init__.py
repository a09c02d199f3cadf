"""Keras layers: a relaxed sample in training, a discrete one at inference (stage 4)."""

from tfconcrete.layers.base import SamplingLayer
from tfconcrete.layers.concrete import ConcreteSample, ExpConcreteSample
from tfconcrete.layers.recorder import record_codes

__all__ = [
    "ConcreteSample",
    "ExpConcreteSample",
    "SamplingLayer",
    "record_codes",
]
