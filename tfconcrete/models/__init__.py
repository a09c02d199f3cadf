"""Keras models on one shared `train_step` (stage 6)."""

from tfconcrete.models.discrete_vae import DiscreteVAE
from tfconcrete.models.joint_vae import JointVAE
from tfconcrete.models.score_function_vae import ScoreFunctionVAE
from tfconcrete.models.structured_predictor import StructuredPredictor

__all__ = ["DiscreteVAE", "JointVAE", "ScoreFunctionVAE", "StructuredPredictor"]
