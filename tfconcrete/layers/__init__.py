"""Keras layers: a relaxed sample in training, a discrete one at inference (stage 4)."""

from tfconcrete.layers.base import SamplingLayer
from tfconcrete.layers.bin_concrete import BinConcreteSample
from tfconcrete.layers.centering import Centering
from tfconcrete.layers.codes import Codes
from tfconcrete.layers.concrete import ConcreteSample, ExpConcreteSample
from tfconcrete.layers.distribution import DistributionSample
from tfconcrete.layers.feature_selector import FeatureSelector
from tfconcrete.layers.gapped import GapStraightThrough
from tfconcrete.layers.gumbel_rao import GumbelRao
from tfconcrete.layers.hypercube import HypercubeCode
from tfconcrete.layers.igr import IGRSample
from tfconcrete.layers.inference import (
    inference_mode,
    preserved_state,
    sampling_layers,
)
from tfconcrete.layers.recorder import record_calls, record_codes
from tfconcrete.layers.reinmax import ReinMax
from tfconcrete.layers.sampling_cell import SamplingCell
from tfconcrete.layers.straight_through import StraightThrough
from tfconcrete.layers.subset_sample import SubsetSample
from tfconcrete.layers.tree_lstm import LatentTreeLSTM

__all__ = [
    "BinConcreteSample",
    "Centering",
    "Codes",
    "ConcreteSample",
    "DistributionSample",
    "ExpConcreteSample",
    "FeatureSelector",
    "GapStraightThrough",
    "GumbelRao",
    "HypercubeCode",
    "IGRSample",
    "LatentTreeLSTM",
    "ReinMax",
    "SamplingCell",
    "SamplingLayer",
    "StraightThrough",
    "SubsetSample",
    "inference_mode",
    "preserved_state",
    "record_calls",
    "record_codes",
    "sampling_layers",
]
