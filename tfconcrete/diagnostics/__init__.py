"""Numbers about training: gradients, category usage, integrality gap (stage 5)."""

from tfconcrete.diagnostics.gap import integrality_gap
from tfconcrete.diagnostics.gradients import gradient_variance, vanishing_gradients
from tfconcrete.diagnostics.usage import category_usage

__all__ = [
    "category_usage",
    "gradient_variance",
    "integrality_gap",
    "vanishing_gradients",
]
