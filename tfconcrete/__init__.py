"""tfconcrete: discrete random variables as ordinary Keras layers.

`import tfconcrete as tfc`. Relaxed or straight-through samples in training, the
discrete argmax at inference.
"""

import importlib

from tfconcrete import (
    _backend,  # noqa: F401  first: it stops the import under another backend
    bijectors,
    calibration,
    callbacks,
    diagnostics,
    distributions,
    estimators,
    layers,
    models,
    noise,
    objectives,
    relaxations,
    schedules,
    variables,
)
from tfconcrete._version import __version__
from tfconcrete.estimators import gumbel_softmax
from tfconcrete.layers import (
    ConcreteSample,
    ExpConcreteSample,
    GapStraightThrough,
    IGRSample,
)

# Imported on first use: they bring matplotlib and the serving protos with them.
_LAZY = ("export", "plots")

__all__ = [
    "ConcreteSample",
    "ExpConcreteSample",
    "GapStraightThrough",
    "IGRSample",
    "__version__",
    "bijectors",
    "calibration",
    "callbacks",
    "diagnostics",
    "distributions",
    "estimators",
    "export",
    "gumbel_softmax",
    "layers",
    "models",
    "noise",
    "objectives",
    "plots",
    "relaxations",
    "schedules",
    "variables",
]


def __getattr__(name):
    if name in _LAZY:
        return importlib.import_module(f"tfconcrete.{name}")
    raise AttributeError(f"module 'tfconcrete' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
