"""Figures from arrays (stage 7): numbers are computed elsewhere, only drawn here.

Each function takes arrays, draws into `ax` or `figure` where one is given, and returns
the matplotlib figure. Needs matplotlib: `pip install tfconcrete[examples]`.
"""

from tfconcrete.plots.binary import binary_relaxation
from tfconcrete.plots.simplex import simplex_density, simplex_masses, simplex_points

__all__ = ["binary_relaxation", "simplex_density", "simplex_masses", "simplex_points"]
