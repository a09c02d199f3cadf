"""SavedModels with discrete argmaxes, and what serves them (stage 7)."""

from tfconcrete.export.save import save_discrete

__all__ = ["save_discrete"]
