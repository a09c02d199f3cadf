"""Interleaved timing: every figure is a ratio of medians from one run.

Machines are shared and noisy, so nothing here is an absolute time. Contestants take turns
round by round; a slow moment slows all of them.
"""

import time

import numpy as np
import tensorflow as tf

# A call that takes longer than this many seconds warms its own caches.
LONG = 0.05
_ACCELERATORS = tf.config.list_physical_devices("GPU")


def wait(result=None):
    """Blocks until everything asked for is there; reading a result would add its copy.

    Without an accelerator a call has ended when it returns, and asking costs 0.1 ms.
    """
    if _ACCELERATORS:
        tf.test.experimental.sync_devices()
    return result


def timed(run):
    """Seconds of one call, after another that finds the caches as the last turn left them."""
    begin = time.perf_counter()
    wait(run())
    first = time.perf_counter() - begin
    if first > LONG:
        return first
    begin = time.perf_counter()
    wait(run())
    return time.perf_counter() - begin


def interleaved(contestants, seconds=2.0, min_rounds=7, max_rounds=400):
    """Times callables in turns, in alternating order.

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
        turns = list(contestants.items())
        for name, run in turns if round_number % 2 else reversed(turns):
            times[name].append(timed(run))
        if round_number + 1 >= min_rounds and time.perf_counter() - start > seconds:
            break
    return {name: np.array(values) for name, values in times.items()}


def ratio(times, ours, peer):
    """How many times faster `ours` is than `peer`: the ratio of medians."""
    return float(np.median(times[peer]) / np.median(times[ours]))
