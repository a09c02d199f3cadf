"""Numbers about training: gradients, precision, category usage, discretization gap (stage 7)."""

from tfconcrete.diagnostics.category_usage import category_usage
from tfconcrete.diagnostics.device_report import DeviceReport, device_report
from tfconcrete.diagnostics.discretization_gap import DiscretizationGap, discretization_gap
from tfconcrete.diagnostics.gradient_statistics import gradient_variance, vanishing_gradients
from tfconcrete.diagnostics.numeric_report import NumericReport, numeric_report
from tfconcrete.diagnostics.relaxation_study import (
    RelaxationGradients,
    compare_relaxations,
    relaxation_gradients,
)
from tfconcrete.diagnostics.trees import tree_f1, tree_spans

# The Concrete paper's name for it.
integrality_gap = discretization_gap

__all__ = [
    "DeviceReport",
    "DiscretizationGap",
    "NumericReport",
    "RelaxationGradients",
    "category_usage",
    "compare_relaxations",
    "device_report",
    "discretization_gap",
    "gradient_variance",
    "integrality_gap",
    "numeric_report",
    "relaxation_gradients",
    "tree_f1",
    "tree_spans",
    "vanishing_gradients",
]
