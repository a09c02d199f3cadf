"""TFP bijectors over the maps of `tfconcrete.relaxations` (stage 3)."""

from tfconcrete.bijectors.softmax_plus_plus import SoftmaxPlusPlus

__all__ = ["SoftmaxPlusPlus"]
