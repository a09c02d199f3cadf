"""The explorer's figures, computed by the package: `python docs/tools/explorer.py FILE`.

One categorical variable of K classes and one objective of it, a small network, so that the
exact expectation and its gradient are sums over K states. For each estimator, number of
classes and temperature, from single draws:

- points: samples seen from above, sum_k z_k v_k with v_k the corners of a regular polygon
  (for K = 3 the simplex itself); of a straight-through estimator the soft sample whose
  gradient it takes, where it has one;
- near: the share of forward samples within 0.2 of a vertex;
- gap: the mean of the objective at forward samples less its discrete expectation, over its
  standard deviation over the classes;
- bias, variance: of the gradient, relative to the exact one's norm and its square, as in
  benchmarks/estimator_table.py.
"""

import argparse
import functools
import json
import pathlib
import sys

import numpy as np
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

import tfconcrete as tfc
from benchmarks.estimator_table import bias_and_variance

TEMPERATURES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.667, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0)
CLASSES = (3, 4, 6, 10, 20)
HIDDEN = 8


class Problem:
    """K classes with probabilities, and an objective f of a point of the simplex."""

    def __init__(self, num_classes):
        rng = np.random.default_rng(num_classes)
        self.num_classes = num_classes
        self.logits = 0.7 * rng.normal(size=num_classes)
        self.linear = rng.permutation(np.linspace(-1.0, 1.0, num_classes))
        self.hidden = rng.normal(size=(num_classes, HIDDEN))
        self.output = rng.normal(size=HIDDEN) / 4.0
        values = self.objective(tf.eye(num_classes, dtype=tf.float64)).numpy()
        self.probs = np.exp(self.logits) / np.exp(self.logits).sum()
        self.mean = float(self.probs @ values)
        self.spread = float(np.sqrt(self.probs @ (values - self.mean) ** 2))

    def objective(self, z):
        """A linear function plus one hidden layer of tanh units."""
        hidden = tf.tanh(tf.matmul(z, tf.constant(self.hidden, z.dtype)))
        curved = tf.linalg.matvec(hidden, tf.constant(self.output, z.dtype))
        return tf.linalg.matvec(z, tf.constant(self.linear, z.dtype)) + curved

    def exact_gradient(self, parameters, probs):
        """Of sum_k probs(parameters)_k f(e_k)."""
        parameters = tf.constant(parameters)
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            states = tf.eye(self.num_classes, dtype=parameters.dtype)
            expectation = tf.reduce_sum(probs(parameters) * self.objective(states))
        return tape.gradient(expectation, parameters).numpy().astype(np.float64)


class OfLogits:
    """An estimator `sample(logits, temperature, seed=)`, and the soft sample behind it."""

    def __init__(self, sample, soft=None):
        self.sample, self.soft = sample, soft

    def parameters(self, problem):
        return problem.logits.astype(np.float32)

    def probs(self, parameters):
        return tf.nn.softmax(parameters)


class OfGaussian:
    """IGR with softmax++ and scale 1, its location fitted to the same probabilities."""

    soft = None

    def parameters(self, problem):
        return tfc.calibration.fit_igr_prior(problem.probs, 0.5).loc.numpy().astype(np.float32)

    def probs(self, loc):
        return tfc.distributions.IGR(loc, tf.ones_like(loc), 0.5).discrete().probs_parameter()

    def sample(self, loc, temperature, seed):
        return tfc.relaxations.igr(loc, tf.zeros_like(loc), temperature, seed=seed)


def tempered(logits, temperature, seed):
    """What straight-through and ReinMax differentiate: no noise in it."""
    return tf.nn.softmax(logits / temperature)


ESTIMATORS = {
    "Concrete (soft)": OfLogits(tfc.relaxations.concrete),
    "Straight-through Gumbel-Softmax": OfLogits(
        tfc.estimators.straight_through_gumbel_softmax, tfc.relaxations.concrete
    ),
    "Gapped straight-through, gap 1": OfLogits(
        tfc.estimators.gapped_straight_through,
        functools.partial(tfc.estimators.gapped_straight_through, hard=False),
    ),
    "Gumbel-Rao, 10 samples": OfLogits(
        functools.partial(tfc.estimators.gumbel_rao, num_samples=10)
    ),
    "Straight-through": OfLogits(tfc.estimators.straight_through, tempered),
    "ReinMax": OfLogits(tfc.estimators.reinmax, tempered),
    "IGR (soft)": OfGaussian(),
}


def polygon(num_classes):
    """Corners `[K, 2]` of a regular polygon, the first one on top."""
    angles = np.pi / 2 - 2 * np.pi * np.arange(num_classes) / num_classes
    return np.stack([np.cos(angles), np.sin(angles)], -1)


def cell(estimator, problem, temperature, draws, points, exact, seed):
    """All numbers of one estimator, problem and temperature."""
    parameters = tf.constant(np.tile(estimator.parameters(problem), [draws, 1]))
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        z = estimator.sample(parameters, temperature, seed=seed)
        values = problem.objective(z)
    gradients = tape.gradient(values, parameters).numpy().astype(np.float64)
    bias, bias_error, variance, _ = bias_and_variance(gradients, exact)
    seen = (estimator.soft or estimator.sample)(parameters[:points], temperature, seed=seed)
    flat = np.round(1000 * seen.numpy() @ polygon(problem.num_classes)).astype(int)
    near = np.mean(tfc.calibration.vertex_distance(z).numpy() < 0.2)
    values = values.numpy().astype(np.float64)
    return {
        "points": flat.T.tolist(),
        "near": round(float(near), 4),
        "gap": round((values.mean() - problem.mean) / problem.spread, 4),
        "gap_error": round(values.std() / np.sqrt(draws) / problem.spread, 4),
        "bias": float(f"{bias:.3g}"),
        "bias_error": float(f"{bias_error:.3g}"),
        "variance": float(f"{variance:.4g}"),
    }


def figures(draws=4_000, points=250, classes=CLASSES, temperatures=TEMPERATURES, names=None):
    """Everything that the page shows, for `json.dumps`."""
    cells = {}
    for name in names or ESTIMATORS:
        for num_classes in classes:
            problem, estimator = Problem(num_classes), ESTIMATORS[name]
            exact = problem.exact_gradient(estimator.parameters(problem), estimator.probs)
            cells[f"{name}|{num_classes}"] = [
                # The same noise at every temperature: curves, not scatter.
                cell(estimator, problem, temperature, draws, points, exact, seed=0)
                for temperature in temperatures
            ]
    problems = {
        k: {
            "corners": np.round(1000 * polygon(k)).astype(int).tolist(),
            "probs": np.round(Problem(k).probs, 4).tolist(),
        }
        for k in classes
    }
    return {
        "estimators": list(names or ESTIMATORS),
        "classes": list(classes),
        "draws": draws,
        "temperatures": list(temperatures),
        "problems": problems,
        "cells": cells,
        "version": tfc.__version__,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--draws", type=int, default=4_000)
    settings = parser.parse_args()
    settings.file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(figures(settings.draws), separators=(",", ":"))
    settings.file.write_text(f"window.tfconcreteFigures = {text};\n")
    print(f"wrote {settings.file}, {settings.file.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
