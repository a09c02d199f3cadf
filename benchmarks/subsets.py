"""Subsets of exactly k classes, forward and backward, against a relaxed Concrete sample."""

import functools

import numpy as np
import tensorflow as tf

from benchmarks.report import Figure
from benchmarks.sampling import MODES, SEED, with_gradient
from benchmarks.timing import interleaved
from tfconcrete import estimators, relaxations

SHAPE, K, TEMPERATURE = (256, 1000), 10, 0.5

# By the names of `SubsetSample`'s arguments; the goal is for XLA.
CONTESTANTS = {
    'estimator="gumbel"': (
        functools.partial(estimators.straight_through_gumbel_top_k, k=K, temperature=TEMPERATURE),
        6.0,
    ),
    'estimator="gumbel", hard=False': (
        functools.partial(relaxations.relaxed_top_k, k=K, temperature=TEMPERATURE),
        6.0,
    ),
    'estimator="exact"': (functools.partial(estimators.straight_through_k_subset, k=K), None),
    'estimator="exact", hard=False': (
        functools.partial(relaxations.relaxed_k_subset, k=K, temperature=TEMPERATURE),
        None,
    ),
}


def against_concrete(modes=("XLA", "graph")):
    """Time of each estimator in units of `relaxations.concrete` on the same logits."""
    rng = np.random.default_rng(0)
    logits = tf.constant(rng.normal(size=SHAPE), tf.float32)
    weight = tf.constant(rng.normal(size=SHAPE), tf.float32)
    concrete = functools.partial(relaxations.concrete, temperature=TEMPERATURE)
    samplers = {"concrete": concrete, **{name: f for name, (f, _) in CONTESTANTS.items()}}
    for mode in modes:

        def compiled(sample, mode=mode):
            run = MODES[mode](with_gradient(lambda logits, seed: sample(logits, seed=seed), weight))
            return lambda: run(logits, SEED)

        times = interleaved({name: compiled(f) for name, f in samplers.items()}, seconds=20.0)
        unit = np.median(times["concrete"])
        for name, (_, goal) in CONTESTANTS.items():
            yield Figure(
                f"{K} of {SHAPE[1]:,}, batch {SHAPE[0]}, {name}, {mode}, time against concrete",
                float(np.median(times[name]) / unit),
                goal if mode == "XLA" else None,
                False,
            )
