"""Keras callbacks: temperatures, the discretization gap, gradient health (stage 6)."""

from tfconcrete.callbacks.gap import DiscretizationGap
from tfconcrete.callbacks.gradients import GradientDiagnostics
from tfconcrete.callbacks.temperature import TemperatureScheduler

__all__ = ["DiscretizationGap", "GradientDiagnostics", "TemperatureScheduler"]
