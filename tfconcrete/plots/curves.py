"""Training curves, gradient statistics, distances: lines with a legend."""

import matplotlib.patheffects
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfconcrete._checks import invalid_value
from tfconcrete._typing import TensorLike


def curves(
    lines: dict,
    ax: Axes | None = None,
    title: str = "",
    xlabel: str = "epoch",
    ylabel: str = "",
    logarithmic: bool = False,
) -> Figure:
    """One line for each named series.

    Args:
        lines: dict from a label to an array `[n]`, or to a pair of arrays `(x, y)`.
        ax: axes to draw into; a new figure where None.
        title, xlabel, ylabel: texts of the axes.
        logarithmic: whether the vertical axis is logarithmic.

    Returns:
        The matplotlib figure.

    Example:

    >>> figure = tfc.plots.curves({"loss": [3.0, 2.0, 1.5], "val_loss": [3.1, 2.4, 2.2]})
    """
    if not lines:
        raise invalid_value("lines", "at least one series", lines)
    if ax is None:
        _, ax = plt.subplots(figsize=(5.0, 3.2), layout="constrained")
    for label, values in lines.items():
        if isinstance(values, tuple):
            x, y = values
        else:
            x, y = np.arange(1, len(values) + 1), values
        marker = "o" if len(y) < 25 else None
        ax.plot(x, y, label=label, marker=marker, markersize=3, linewidth=1.4)
    if logarithmic:
        ax.set_yscale("log")
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    ax.legend(frameon=False, fontsize=8)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    return ax.figure


def gradient_variance(
    lines: dict, ax: Axes | None = None, title: str = "gradient variance", xlabel: str = "epoch"
) -> Figure:
    """Gradient variances of several estimators, on a logarithmic axis (GST, Figure 3).

    Args:
        lines: dict from an estimator's name to an array `[n]` or a pair `(x, y)`.
        ax: axes to draw into; a new figure where None.
        title, xlabel: texts of the axes.

    Returns:
        The matplotlib figure.

    Example:

    >>> figure = tfc.plots.gradient_variance({"GST": [1.0, 0.5], "STGS": [4.0, 3.0]})
    """
    return curves(lines, ax, title, xlabel, "variance", logarithmic=True)


def category_usage(
    shares: TensorLike, ax: Axes | None = None, title: str = "how often each class is used"
) -> Figure:
    """The share of each class, one row of cells for each variable; dead classes stand out.

    Args:
        shares: array `[num_variables, num_classes]` (or `[num_classes]`), shares that sum
            to 1 along the last axis.
        ax: axes to draw into; a new figure where None.
        title: title of the axes.

    Returns:
        The matplotlib figure.

    Example:

    >>> figure = tfc.plots.category_usage(np.full([3, 4], 0.25))
    """
    shares = np.atleast_2d(np.asarray(shares, np.float64))
    if shares.ndim != 2:
        raise invalid_value(
            "shares", "an array of shape [num_variables, num_classes]", shares.shape
        )
    if ax is None:
        _, ax = plt.subplots(figsize=(5.0, 3.2), layout="constrained")
    picture = ax.imshow(shares, cmap="Blues", vmin=0.0, aspect="auto")
    dead = np.argwhere(shares == 0)
    ax.plot(dead[:, 1], dead[:, 0], "x", color="#cb181d", markersize=5, label="never used")
    if len(dead):
        ax.legend(loc="upper right", fontsize=7)
    ax.set(title=title, xlabel="class", ylabel="variable")
    ax.figure.colorbar(picture, ax=ax, label="share")
    return ax.figure


def distances(
    samples: dict[str, TensorLike],
    ax: Axes | None = None,
    title: str = "distance to the nearest vertex",
    bins: int = 60,
    mark: float | None = None,
) -> Figure:
    """Histograms of distances, one outline for each named sample (IGR, Figures 1, 5, 12).

    Args:
        samples: dict from a label to an array of distances.
        ax: axes to draw into; a new figure where None.
        title: title of the axes.
        bins: number of cells.
        mark: a distance to draw a line at, such as 0.2.

    Returns:
        The matplotlib figure.

    Example:

    >>> figure = tfc.plots.distances({"a": np.random.rand(100)}, mark=0.2)
    """
    if ax is None:
        _, ax = plt.subplots(figsize=(5.0, 3.2), layout="constrained")
    top = max(float(np.max(values)) for values in samples.values())
    for label, values in samples.items():
        ax.hist(
            np.ravel(values),
            bins,
            range=(0, top),
            density=True,
            histtype="step",
            label=label,
            linewidth=1.4,
        )
    if mark is not None:
        ax.axvline(mark, color="0.5", linestyle=":", linewidth=1.0)
    ax.set(title=title, xlabel="Euclidean distance", ylabel="density")
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    return ax.figure


def class_scatter(
    points: TensorLike,
    labels: TensorLike,
    ax: Axes | None = None,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
) -> Figure:
    """Points of the plane, one colour for each class, its name at the median point.

    Args:
        points: array `[n, 2]`, such as two principal components.
        labels: int array `[n]`, the class of each point.
        ax: axes to draw into; a new figure where None.
        title, xlabel, ylabel: texts of the axes.

    Returns:
        The matplotlib figure.

    Example:

    >>> figure = tfc.plots.class_scatter(np.random.rand(50, 2), np.arange(50) % 3)
    """
    points, labels = np.asarray(points), np.asarray(labels)
    if points.ndim != 2 or points.shape[1] != 2:
        raise invalid_value("points", "an array of shape [n, 2]", points.shape)
    if labels.shape != points.shape[:1]:
        raise invalid_value("labels", f"an array of shape [{len(points)}]", labels.shape)
    if ax is None:
        _, ax = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
    classes = np.unique(labels)
    colors = plt.get_cmap("tab10" if len(classes) <= 10 else "tab20")
    for index, name in enumerate(classes):
        own = points[labels == name]
        color = colors(index % colors.N)
        ax.scatter(own[:, 0], own[:, 1], s=7, color=color, alpha=0.55, linewidths=0)
        # Drawn over all points, with a light rim: readable on any colour.
        ax.annotate(
            str(name),
            np.median(own, axis=0),
            ha="center",
            va="center",
            fontsize=10,
            fontweight="bold",
            color=color,
            zorder=3,
            path_effects=[matplotlib.patheffects.withStroke(linewidth=2.5, foreground="white")],
        )
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    return ax.figure
