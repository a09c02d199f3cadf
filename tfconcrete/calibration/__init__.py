"""Temperatures and priors that make relaxations comparable (stage 5)."""

from tfconcrete.calibration.prior import fit_igr_prior
from tfconcrete.calibration.temperature import (
    SuggestedTemperature,
    calibrate_temperature,
    suggest_temperature,
)
from tfconcrete.calibration.vertices import vertex_distance

__all__ = [
    "SuggestedTemperature",
    "calibrate_temperature",
    "fit_igr_prior",
    "suggest_temperature",
    "vertex_distance",
]
