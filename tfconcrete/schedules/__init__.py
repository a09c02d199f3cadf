"""Temperature schedules: pure functions of the step, serialisable (stage 3)."""

from tfconcrete.schedules.schedule import (
    Constant,
    ExponentialAnnealing,
    MixedTemperature,
    Schedule,
)

__all__ = ["Constant", "ExponentialAnnealing", "MixedTemperature", "Schedule"]
