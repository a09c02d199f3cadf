"""Figures from arrays (stage 7): numbers are computed elsewhere, only drawn here.

Each function takes arrays, draws into `ax` where one is given, and returns the
matplotlib figure. Needs matplotlib: `pip install tfconcrete[examples]`.
"""

from tfconcrete.plots.binary import binary_relaxation
from tfconcrete.plots.curves import (
    category_usage,
    class_scatter,
    curves,
    distances,
    gradient_variance,
)
from tfconcrete.plots.images import code_grid, image_grid, reconstructions
from tfconcrete.plots.numeric import numeric_reports
from tfconcrete.plots.simplex import simplex_density, simplex_masses, simplex_points
from tfconcrete.plots.trees import binary_tree

__all__ = [
    "binary_relaxation",
    "binary_tree",
    "category_usage",
    "class_scatter",
    "code_grid",
    "curves",
    "distances",
    "gradient_variance",
    "image_grid",
    "numeric_reports",
    "reconstructions",
    "simplex_density",
    "simplex_masses",
    "simplex_points",
]
