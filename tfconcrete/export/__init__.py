"""SavedModels with discrete argmaxes, and what serves them (stage 7)."""

from tfconcrete.export import c_loader, client
from tfconcrete.export.inspection import inspect
from tfconcrete.export.save import save_discrete
from tfconcrete.export.serving_config import write_serving_config

__all__ = ["c_loader", "client", "inspect", "save_discrete", "write_serving_config"]
