"""Bias and variance of every gradient estimator where the exact gradient can be enumerated.

    python -m benchmarks.estimator_table [--draws 20000]

Three categorical variables of four classes, 64 states, and three objectives of them: a
linear one, a quadratic one and a small network. For each estimator, over many single
draws: the distance of the mean gradient from the exact one, and the variance (the trace
of the covariance), relative to the exact gradient's norm and its square. The +- of a bias
is the error that this many draws leave in the mean; of that size, a bias is zero. The
+- of a variance is its standard error.

Subsets have a problem of their own, two variables of three out of six classes, 400 states,
and the same objectives. Both estimators are held to the law p(z) ~ exp(z . logits), that of
`SubsetSample` outside training; draws without replacement have a slightly flatter one.

Whether an estimator with less variance here also has less on a large model depends on
the model; this table shows what the formulas do.
"""

import argparse
import functools
import itertools

import numpy as np
import tensorflow as tf

from tfconcrete import estimators, relaxations

VARIABLES, CLASSES = 3, 4
TEMPERATURES = (0.5, 1.0)

SUBSETS, FROM, K = 2, 6, 3

_RNG = np.random.default_rng(0)
LOGITS = _RNG.normal(size=(VARIABLES, CLASSES))
_SIZE = VARIABLES * CLASSES
_LINEAR = _RNG.normal(size=_SIZE)
_QUADRATIC = _RNG.normal(size=(_SIZE, _SIZE)) / 2.0
_HIDDEN = _RNG.normal(size=(_SIZE, 8))
_OUTPUT = _RNG.normal(size=8)
SUBSET_LOGITS = _RNG.normal(size=(SUBSETS, FROM))


def _flat(x):
    return tf.reshape(x, tf.concat([tf.shape(x)[:-2], [_SIZE]], 0))


def linear(x):
    """c . x"""
    return tf.einsum("...i,i->...", _flat(x), tf.constant(_LINEAR, x.dtype))


def quadratic(x):
    """c . x + x . A x"""
    flat = _flat(x)
    matrix = tf.constant(_QUADRATIC, x.dtype)
    return linear(x) + tf.einsum("...i,ij,...j->...", flat, matrix, flat)


def network(x):
    """One hidden layer of eight tanh units."""
    hidden = tf.tanh(tf.einsum("...i,ij->...j", _flat(x), tf.constant(_HIDDEN, x.dtype)))
    return tf.einsum("...j,j->...", hidden, tf.constant(_OUTPUT, x.dtype))


OBJECTIVES = {"linear": linear, "quadratic": quadratic, "network": network}


def categorical_law(logits):
    """All states of independent variables, and their log probabilities."""
    codes = np.array(list(itertools.product(range(CLASSES), repeat=VARIABLES)))
    states = tf.constant(np.eye(CLASSES)[codes])
    return states, tf.reduce_sum(states * tf.nn.log_softmax(logits), [1, 2])


def subset_law(logits):
    """All pairs of subsets, and their log probabilities, proportional to exp(z . logits)."""
    subsets = list(itertools.combinations(range(FROM), K))
    hot = np.array([np.isin(np.arange(FROM), subset) for subset in subsets], float)
    each = tf.nn.log_softmax(tf.linalg.matvec(hot, logits))
    pairs = np.array(list(itertools.product(range(len(hot)), repeat=SUBSETS)))
    total = tf.add_n([tf.gather(each[i], pairs[:, i]) for i in range(SUBSETS)])
    return tf.constant(hot[pairs]), total


def exact_gradient(objective, law=categorical_law, logits=LOGITS):
    """The gradient of the expectation, summed over all states in float64."""
    logits = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        states, log_prob = law(logits)
        expectation = tf.reduce_sum(tf.exp(log_prob) * objective(states))
    return tape.gradient(expectation, logits).numpy()


def _of_sample(sample, objective, logits, seed):
    """An estimator that differentiates the objective of its sample."""
    return objective(sample(logits, seed=seed))


def _of_objective(estimate, objective, logits, seed):
    """A score-function estimator, which evaluates the objective itself."""
    return estimate(lambda sample, log_q: objective(sample), logits, seed=seed)


def contestants():
    """`[(name, temperature, function)]`; the function maps (objective, logits, seed) to values."""
    at_temperature = {
        "Concrete (soft)": relaxations.concrete,
        "STGS": estimators.straight_through_gumbel_softmax,
        "GR-MC10": functools.partial(estimators.gumbel_rao, num_samples=10),
        "GR-MC100": functools.partial(estimators.gumbel_rao, num_samples=100),
    }
    for gap in (0.0, 0.8, 1.0, 1.2, "pi"):
        at_temperature[f"GST-{gap}"] = functools.partial(
            estimators.gapped_straight_through, gap=gap
        )
    for gap in (0.0, 1.0):
        at_temperature[f"NZ-GST-{gap}"] = functools.partial(
            estimators.gapped_straight_through, gap=gap, perturbation_gradient=True
        )
    rows = []
    for name, function in at_temperature.items():
        for temperature in TEMPERATURES:
            sample = functools.partial(function, temperature=temperature)
            rows.append((name, temperature, functools.partial(_of_sample, sample)))
    for name, sample in {
        "ST": estimators.straight_through,
        "ReinMax": estimators.reinmax,
    }.items():
        rows.append((name, 1.0, functools.partial(_of_sample, sample)))
    for name, function in {
        "REINFORCE": estimators.reinforce,
        "RLOO, 2 samples": functools.partial(estimators.rloo, num_samples=2),
        "DisARM-Tree, 2 samples": estimators.disarm_tree,
    }.items():
        rows.append((name, None, functools.partial(_of_objective, function)))
    return rows


def subset_contestants():
    """The same for three of six classes."""
    name = f"{K} of {FROM}"
    exact = functools.partial(estimators.straight_through_k_subset, k=K)
    rows = [(f"SIMPLE, {name}", None, functools.partial(_of_sample, exact))]
    for temperature in TEMPERATURES:
        gumbel = functools.partial(
            estimators.straight_through_gumbel_top_k, k=K, temperature=temperature
        )
        rows.append((f"Gumbel top-k, {name}", temperature, functools.partial(_of_sample, gumbel)))
    return rows


# Who competes on which variables: `(contestants, law, logits)`.
PROBLEMS = (
    (contestants, categorical_law, LOGITS),
    (subset_contestants, subset_law, SUBSET_LOGITS),
)


def draw_gradients(estimate, objective, draws, seed=0, logits=LOGITS):
    """`draws` independent gradients, `[draws, *shape of logits]` in float64."""
    logits = tf.constant(np.tile(logits, [draws, 1, 1]), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        values = estimate(objective, logits, seed)
    return tape.gradient(values, logits).numpy().astype(np.float64)


def bias_and_variance(gradients, exact):
    """Relative `(bias, its error, variance, its error)` of gradients along axis 0."""
    draws = len(gradients)
    flat, exact = gradients.reshape(draws, -1), exact.reshape(-1)
    norm = np.linalg.norm(exact)
    mean = flat.mean(0)
    squares = np.sum((flat - mean) ** 2, -1)
    variance = squares.sum() / (draws - 1)
    # The squared distance of a sample mean is too large by its own variance.
    bias = np.sqrt(max(np.sum((mean - exact) ** 2) - variance / draws, 0.0))
    return (
        bias / norm,
        np.sqrt(variance / draws) / norm,
        variance / norm**2,
        squares.std() / np.sqrt(draws) / norm**2,
    )


def measure(draws, problems=PROBLEMS):
    """`{(name, temperature): {objective: (bias, error, variance, error)}}`."""
    results, number = {}, 0
    for rows, law, logits in problems:
        exact = {key: exact_gradient(f, law, logits) for key, f in OBJECTIVES.items()}
        for name, temperature, estimate in rows():
            results[name, temperature] = {
                key: bias_and_variance(
                    draw_gradients(estimate, objective, draws, number, logits), exact[key]
                )
                for key, objective in OBJECTIVES.items()
            }
            number += 1
    return results


def markdown(results):
    """The table, one row for each estimator and temperature."""
    columns = [f"{key}: {what}" for key in OBJECTIVES for what in ("bias", "variance")]
    lines = [
        "| estimator | temperature | " + " | ".join(columns) + " |",
        "|---|---|" + "---|" * len(columns),
    ]
    for (name, temperature), row in results.items():
        cells = [name, "" if temperature is None else str(temperature)]
        for key in OBJECTIVES:
            bias, bias_error, variance, variance_error = row[key]
            cells.append(f"{bias:.3f} ± {bias_error:.3f}")
            cells.append(f"{variance:.3f} ± {variance_error:.3f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20_000, help="gradients per cell")
    print(markdown(measure(parser.parse_args().draws)))


if __name__ == "__main__":
    main()
