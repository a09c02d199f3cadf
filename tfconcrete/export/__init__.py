"""SavedModels with discrete argmaxes, what serves them, and other runtimes (stage 7)."""

from tfconcrete.export import c_loader, client
from tfconcrete.export.inspection import inspect
from tfconcrete.export.litert import to_litert
from tfconcrete.export.onnx import to_onnx
from tfconcrete.export.save import save_discrete
from tfconcrete.export.serving_config import write_serving_config

__all__ = [
    "c_loader",
    "client",
    "inspect",
    "save_discrete",
    "to_litert",
    "to_onnx",
    "write_serving_config",
]
