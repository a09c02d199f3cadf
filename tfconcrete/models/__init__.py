"""Keras models on one shared `train_step` (stage 6)."""

from tfconcrete.models.discrete_vae import DiscreteVAE

__all__ = ["DiscreteVAE"]
