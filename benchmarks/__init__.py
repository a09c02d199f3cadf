"""Measurements of the package: each module runs with `python -m benchmarks.<name>`."""

import os

# Before TensorFlow starts: sections that measure in processes of their own share a GPU's memory.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
