"""Keras layers: a relaxed sample in training, a discrete one at inference (stage 4)."""

from tfconcrete.layers.base import SamplingLayer
from tfconcrete.layers.bin_concrete import BinConcreteSample
from tfconcrete.layers.centering import Centering
from tfconcrete.layers.concrete import ConcreteSample, ExpConcreteSample
from tfconcrete.layers.distribution import DistributionSample
from tfconcrete.layers.gapped import GapStraightThrough
from tfconcrete.layers.gumbel_rao import GumbelRao
from tfconcrete.layers.hypercube import HypercubeCode
from tfconcrete.layers.igr import IGRSample
from tfconcrete.layers.modes import inference_mode, preserved_state, sampling_layers
from tfconcrete.layers.recorder import record_calls, record_codes
from tfconcrete.layers.reinmax import ReinMax
from tfconcrete.layers.straight_through import StraightThrough

__all__ = [
    "BinConcreteSample",
    "Centering",
    "ConcreteSample",
    "DistributionSample",
    "ExpConcreteSample",
    "GapStraightThrough",
    "GumbelRao",
    "HypercubeCode",
    "IGRSample",
    "ReinMax",
    "SamplingLayer",
    "StraightThrough",
    "inference_mode",
    "preserved_state",
    "record_calls",
    "record_codes",
    "sampling_layers",
]
