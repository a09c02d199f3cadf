"""Figures of the papers from finished cells: each function takes `{row: [results]}`.

They return `{name: figure}`, empty where nothing to draw is finished.
"""

import matplotlib.pyplot as plt
import numpy as np

import tfconcrete as tfc
from keras_examples import approximate_discrete, structured_prediction

BINS = np.linspace(0.0, 1.0, 51)


def by_steps(key, title, logarithmic=False):
    """A drawer of one number of the cells' histories against training steps."""

    def draw(found):
        lines = {}
        for row, results in found.items():
            curves = [result["history"][key] for result in results if key in result["history"]]
            if curves and len(curves[0]) > 1:
                steps = _steps(results[0], len(curves[0]))
                lines[row.label] = (steps, np.mean(curves, axis=0))
        if not lines:
            return {}
        figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
        tfc.plots.curves(lines, ax, title, "training steps")
        if logarithmic:
            ax.set_xscale("log")
        return {key: figure}

    return draw


def _steps(result, points):
    """The training steps that a history of so many points was measured at."""
    per_epoch = result["steps"] / result["length"]
    epochs = result["history"].get("epoch")
    if epochs is None or len(epochs) != points:
        epochs = np.arange(1, points + 1) + result["length"] - points
    return per_epoch * np.asarray(epochs)


def variance_figure(found):
    """Variance of the encoder's gradient by epoch, a panel for each temperature (Figure 3)."""
    temperatures = sorted({row.options["temperature"] for row in found}, reverse=True)
    panels = {}
    for temperature in temperatures:
        panels[temperature] = {
            row.label.rsplit(" ", 1)[0]: _mean_curve(results, "variance")
            for row, results in found.items()
            if row.options["temperature"] == temperature and results
        }
    panels = {temperature: lines for temperature, lines in panels.items() if lines}
    if not panels:
        return {}
    figure, axes = plt.subplots(
        1, len(panels), figsize=(6 * len(panels), 4.2), layout="constrained", squeeze=False
    )
    for ax, (temperature, lines) in zip(axes[0], panels.items(), strict=True):
        tfc.plots.gradient_variance(
            lines, ax, f"variance of the encoder's gradient, temperature {temperature:g}"
        )
    return {"variance": figure}


def _mean_curve(results, key):
    curves = [result["history"][key] for result in results]
    length = min(map(len, curves))
    return np.arange(length), np.mean([curve[:length] for curve in curves], axis=0)


def distance_figure(found):
    """Distances of posterior samples to the nearest vertex."""
    lines = {
        f"{row.label}: {results[0]['near']:.0%} near": np.mean(
            [np.array(r["distances"]) / sum(r["distances"]) for r in results], axis=0
        )
        for row, results in found.items()
        if results
    }
    if not lines:
        return {}
    figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
    middle = (BINS[1:] + BINS[:-1]) / 2
    tfc.plots.curves(
        {label: (middle, shares) for label, shares in lines.items()},
        ax,
        "posterior samples of test digits",
        "distance to the nearest vertex",
        "share of samples",
        logarithmic=True,
    )
    ax.axvline(0.2, color="0.5", linewidth=0.8, linestyle="--")
    return {"distances": figure}


def fits_figure(found):
    """Rounded samples against their target, a panel for each fit."""
    shown = {row: results[0] for row, results in found.items() if results}
    if not shown:
        return {}
    columns = 3
    rows = -(-len(shown) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(4.2 * columns, 2.7 * rows), layout="constrained", squeeze=False
    )
    for ax in axes.ravel()[len(shown) :]:
        ax.axis("off")
    for ax, (row, result) in zip(axes.ravel(), shown.items(), strict=False):
        target = np.array(result["target"])
        size = min(len(target), 110)
        ax.bar(
            np.arange(size),
            approximate_discrete.aligned(np.array(result["rounded"]), size),
            width=1.0,
            color="#6baed6",
        )
        ax.plot(np.arange(size), target[:size], color="#cb181d", linewidth=1.2)
        ax.set_ylim(0, 1.6 * target.max())
        ax.set_title(f"{row.label}: TV {result['discrete']:.3f}", fontsize=9)
    return {"fits": figure}


def integrality_figure(found):
    """Relaxed and discrete loss of binary networks by training temperature."""
    points = sorted(
        (row.options["temperature"], results[0])
        for row, results in found.items()
        if results and " at " in row.label
    )
    if len(points) < 2:
        return {}
    temperatures, results = zip(*points, strict=True)
    relaxed, discrete = (
        np.array([result[key] for result in results]) for key in ("relaxed", "discrete_one")
    )
    return {"gap": structured_prediction.draw_gap(np.array(temperatures), relaxed, discrete)}
