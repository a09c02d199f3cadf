"""Worked examples: each runs with `python -m keras_examples.<name>`."""
