"""Interleaved timing: every figure is a ratio of medians from one run.

Machines are shared and noisy, so nothing here is an absolute time. Contestants take turns
round by round; a slow moment slows all of them.
"""

import time

import numpy as np
import tensorflow as tf


def wait(result):
    """Blocks until every tensor of a result is there."""
    for value in tf.nest.flatten(result):
        if hasattr(value, "numpy"):
            value.numpy()


def interleaved(contestants, seconds=2.0, min_rounds=7, max_rounds=400):
    """Times callables in turns.

    Args:
        contestants: dict from a name to a callable without arguments.
        seconds: how long to go on, roughly, for all of them together.
        min_rounds, max_rounds: bounds on the number of rounds.

    Returns:
        dict from each name to an array of seconds, one for each round.
    """
    for run in contestants.values():  # traces and compiles, then once warm
        wait(run())
        wait(run())
    times = {name: [] for name in contestants}
    start = time.perf_counter()
    for round_number in range(max_rounds):
        for name, run in contestants.items():
            begin = time.perf_counter()
            wait(run())
            times[name].append(time.perf_counter() - begin)
        if round_number + 1 >= min_rounds and time.perf_counter() - start > seconds:
            break
    return {name: np.array(values) for name, values in times.items()}


def ratio(times, ours, peer):
    """How many times faster `ours` is than `peer`: the ratio of medians."""
    return float(np.median(times[peer]) / np.median(times[ours]))
