"""Measurements of the package: each module runs with `python -m benchmarks.<name>`."""
