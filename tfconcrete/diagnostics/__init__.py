"""Numbers about training: gradients, category usage, integrality gap (stage 5)."""

from tfconcrete.diagnostics.gap import integrality_gap
from tfconcrete.diagnostics.gradients import gradient_variance, vanishing_gradients
from tfconcrete.diagnostics.relaxation_study import (
    RelaxationGradients,
    compare_relaxations,
    relaxation_gradients,
)
from tfconcrete.diagnostics.usage import category_usage

__all__ = [
    "RelaxationGradients",
    "category_usage",
    "compare_relaxations",
    "gradient_variance",
    "integrality_gap",
    "relaxation_gradients",
    "vanishing_gradients",
]
