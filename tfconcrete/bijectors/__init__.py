"""TFP bijectors over the maps of `tfconcrete.relaxations` (stage 3)."""

from tfconcrete.bijectors.interpolation import Interpolation
from tfconcrete.bijectors.planar_flow import PlanarFlow
from tfconcrete.bijectors.simplex import TransformBijector
from tfconcrete.bijectors.softmax_plus_plus import SoftmaxPlusPlus
from tfconcrete.bijectors.stick_breaking import StickBreaking, StickBreakingSoftmax

__all__ = [
    "Interpolation",
    "PlanarFlow",
    "SoftmaxPlusPlus",
    "StickBreaking",
    "StickBreakingSoftmax",
    "TransformBijector",
]
