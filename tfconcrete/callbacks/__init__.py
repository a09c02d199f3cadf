"""Keras callbacks: temperatures, the discretization gap, gradient health (stage 8)."""

from tfconcrete.callbacks.code_summaries import CodeSummaries
from tfconcrete.callbacks.discretization_gap import DiscretizationGap
from tfconcrete.callbacks.gradient_diagnostics import GradientDiagnostics
from tfconcrete.callbacks.temperature_scheduler import TemperatureScheduler

__all__ = [
    "CodeSummaries",
    "DiscretizationGap",
    "GradientDiagnostics",
    "TemperatureScheduler",
]
