"""Figures of the papers from finished cells: each function takes `{row: [results]}`.

They return `{name: figure}`, empty where nothing to draw is finished.
"""

import collections

import matplotlib.pyplot as plt
import numpy as np

import tfconcrete as tfc
from keras_examples import approximate_discrete, structured_prediction

BINS = np.linspace(0.0, 1.0, 51)


COLUMNS = 3
STYLES = ("-", "--", "-.", ":")


def panels(number, width=5.4, height=3.8):
    """A figure and the axes of so many panels, `COLUMNS` in a row; of four two."""
    columns = 2 if number == 4 else min(number, COLUMNS)
    rows = -(-number // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(width * columns, height * rows), layout="constrained", squeeze=False
    )
    for ax in axes.ravel()[number:]:
        ax.axis("off")
    return figure, axes.ravel()[:number]


def show_all(ax):
    """Broken lines above unbroken ones, so that of equal lines both are seen."""
    for line in ax.lines:
        line.set_zorder(2 + STYLES.index(line.get_linestyle()))


def by_steps(key, ylabel, split, sign=1, logarithmic="", paper_at=None):
    """A drawer of one number of the cells' histories against training steps.

    Args:
        key: of the histories.
        ylabel: what it is.
        split: from a `Row` to the title of its panel and the name of its line, which has the
            same colour in every panel.
        sign: -1 where the paper shows a bound and the histories hold its negative.
        logarithmic: the axes that are, `"x"`, `"y"` or `"xy"`.
        paper_at: the steps of the paper's runs, where a star stands for its value.
    """

    def draw(found):
        lines, published = {}, collections.defaultdict(dict)
        for row, results in found.items():
            steps, values = _curve(results, key)
            if len(steps) > 1:
                title, name = split(row)
                lines.setdefault(title, {})[name] = steps, sign * values
                if paper_at and row.paper is not None:
                    published[title][name] = row.paper
        if not lines:
            return {}
        names = list(dict.fromkeys(name for panel in lines.values() for name in panel))
        palette = plt.get_cmap("tab10" if len(names) <= 10 else "tab20").colors
        colors = {name: palette[index] for index, name in enumerate(names)}
        figure, axes = panels(len(lines))
        for ax, (title, panel) in zip(axes, lines.items(), strict=True):
            ax.set_prop_cycle(
                color=[colors[name] for name in panel],
                linestyle=[STYLES[names.index(name) % len(STYLES)] for name in panel],
            )
            tfc.plots.curves(panel, ax, title, "training steps", ylabel, "y" in logarithmic)
            show_all(ax)
            if "x" in logarithmic:
                ax.set_xscale("log")
            if published[title]:
                _stars(ax, {colors[name]: y for name, y in published[title].items()}, paper_at)
        return {key: figure}

    return draw


def _stars(ax, values, steps):
    """The paper's values, by the colours of their lines."""
    handles, labels = ax.get_legend_handles_labels()
    for color, value in values.items():
        star = ax.scatter([steps], [value], 90, [color], "*", edgecolors="black", linewidths=0.5)
    ax.legend([*handles, star], [*labels, "the paper"], frameon=False, fontsize=8)
    ax.get_legend().legend_handles[-1].set_facecolor("white")


def _curve(results, key):
    """Training steps, and the mean over seeds of a history, as far as all of them go."""
    results = [result for result in results if key in result.get("history", ())]
    if not results:
        return (), ()
    # A run that diverged has None where its numbers were not finite.
    curves = [np.array(result["history"][key], float) for result in results]
    steps = [_steps(result, len(curve)) for result, curve in zip(results, curves, strict=True)]
    shortest = min(steps, key=len)
    values = np.mean([curve[: len(shortest)] for curve in curves], axis=0)
    trained = shortest > 0  # a first value may be of the untrained network
    return shortest[trained], values[trained]


def _steps(result, points):
    """The training steps that a history of so many points was measured at."""
    trained = len(result["history"]["loss"])  # epochs; fewer than asked for if stopped early
    epochs = result["history"].get("epoch", ())
    if len(epochs) == points - 1:
        epochs = [1, *epochs]  # a callback that is due in the first epoch too
    elif len(epochs) != points:
        epochs = np.arange(1, points + 1) + trained - points
    return result["steps"] / trained * np.asarray(epochs)


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
    figure, axes = panels(len(shown), 4.2, 2.7)
    for ax, (row, result) in zip(axes, shown.items(), strict=True):
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
    """Relaxed and discrete loss of binary networks by training temperature.

    Of runs of one length, that of most of them.
    """
    runs = [
        (row.options["temperature"], results[0])
        for row, results in found.items()
        if results and " at " in row.label
    ]
    lengths = collections.Counter(result["length"] for _, result in runs)
    length = max(lengths, key=lengths.get, default=None)
    points = sorted((t, result) for t, result in runs if result["length"] == length)
    if len(points) < 2:
        return {}
    temperatures, results = zip(*points, strict=True)
    relaxed, discrete = (
        np.array([result[key] for result in results]) for key in ("relaxed", "discrete_one")
    )
    return {"gap": structured_prediction.draw_gap(np.array(temperatures), relaxed, discrete)}
