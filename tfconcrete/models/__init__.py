"""Keras models on one shared `train_step` (stage 8)."""

from tfconcrete.models.base import BoundModel
from tfconcrete.models.discrete_vae import DiscreteVAE
from tfconcrete.models.joint_vae import JointVAE
from tfconcrete.models.replicas import Replicated
from tfconcrete.models.score_function_predictor import ScoreFunctionPredictor
from tfconcrete.models.score_function_vae import ScoreFunctionVAE
from tfconcrete.models.signature import Signature
from tfconcrete.models.structured_predictor import StructuredPredictor

__all__ = [
    "BoundModel",
    "DiscreteVAE",
    "JointVAE",
    "Replicated",
    "ScoreFunctionPredictor",
    "ScoreFunctionVAE",
    "Signature",
    "StructuredPredictor",
]
