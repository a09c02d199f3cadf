"""Densities, masses and samples on the triangle of three classes."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import matplotlib.tri
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfconcrete._checks import invalid_value
from tfconcrete._typing import TensorLike

# Class 1 at the lower left, class 2 at the top, class 3 at the lower right.
_CORNERS = np.array([[0.0, 0.0], [0.5, np.sqrt(3) / 2], [1.0, 0.0]])


def _triangle(ax, title, labels, distance=8):
    if ax is None:
        _, ax = plt.subplots(figsize=(3.2, 3.0), layout="constrained")
    ax.add_patch(plt.Polygon(_CORNERS, fill=False, color="0.2", linewidth=1.0, zorder=3))
    offsets = [(-distance, -4), (0, distance - 4), (distance, -4)]
    aligned = ["right", "center", "left"]
    for corner, label, offset, side in zip(_CORNERS, labels, offsets, aligned, strict=True):
        ax.annotate(label, corner, offset, textcoords="offset points", ha=side, fontsize=9)
    ax.set(xlim=(-0.12, 1.12), ylim=(-0.1, 1.0), aspect="equal", title=title)
    ax.axis("off")
    return ax


def _check_points(points):
    points = np.asarray(points, np.float64)
    if points.ndim != 2 or points.shape[1] != 3:
        raise invalid_value("points", "an array of shape [n, 3]", points.shape)
    return points


def simplex_density(
    points: TensorLike,
    density: TensorLike,
    ax: Axes | None = None,
    title: str = "",
    labels: Sequence[str] = ("1", "2", "3"),
) -> Figure:
    """Shades the triangle by a density known at scattered points.

    Args:
        points: array `[n, 3]`, points of the simplex (a grid, or samples).
        density: array `[n]`, the density there. Densities of relaxed variables grow
            without bound at the vertices, so shades stop at the 99th percentile.
        ax: axes to draw into; a new figure where None.
        title: title of the axes.
        labels: names of the three vertices.

    Returns:
        The matplotlib figure.

    Example:

    >>> points = np.random.default_rng(0).dirichlet([1, 1, 1], 500)
    >>> figure = tfc.plots.simplex_density(points, points[:, 0])
    """
    points = _check_points(points)
    density = np.asarray(density, np.float64)
    if density.shape != points.shape[:1]:
        raise invalid_value("density", f"an array of shape [{len(points)}]", density.shape)
    ax = _triangle(ax, title, labels)
    plane = points @ _CORNERS
    mesh = matplotlib.tri.Triangulation(plane[:, 0], plane[:, 1])
    top = np.percentile(density, 99)
    ax.tripcolor(mesh, np.minimum(density, top), cmap="Blues", shading="gouraud", vmin=0.0)
    return ax.figure


def simplex_masses(
    probs: TensorLike | None,
    ax: Axes | None = None,
    title: str = "",
    labels: Sequence[str] = ("1", "2", "3"),
) -> Figure:
    """A discrete distribution on the vertices: each circle's area is its probability.

    Args:
        probs: array `[3]`, probabilities (normalised here).
        ax: axes to draw into; a new figure where None.
        title: title of the axes.
        labels: names of the three vertices.

    Returns:
        The matplotlib figure.

    Example:

    >>> figure = tfc.plots.simplex_masses([2.0, 0.5, 1.0])
    """
    weights = _check_points(np.asarray(probs)[None])[0]
    weights = weights / weights.sum()
    ax = _triangle(ax, title, labels, distance=20)
    ax.add_patch(plt.Polygon(_CORNERS, color="#c6dbef", zorder=1))
    ax.scatter(*_CORNERS.T, s=1600 * weights, facecolor="white", edgecolor="0.2", zorder=4)
    for corner, probability in zip(_CORNERS, weights, strict=True):
        ax.annotate(f"{probability:.2f}", corner, ha="center", va="center", fontsize=7, zorder=5)
    return ax.figure


def simplex_points(
    points: TensorLike,
    ax: Axes | None = None,
    title: str = "",
    labels: Sequence[str] = ("1", "2", "3"),
) -> Figure:
    """Samples as dots on the triangle.

    Args:
        points: array `[n, 3]`, points of the simplex.
        ax: axes to draw into; a new figure where None.
        title: title of the axes.
        labels: names of the three vertices.

    Returns:
        The matplotlib figure.

    Example:

    >>> points = np.random.default_rng(0).dirichlet([1, 1, 1], 500)
    >>> figure = tfc.plots.simplex_points(points)
    """
    points = _check_points(points)
    ax = _triangle(ax, title, labels)
    ax.scatter(*(points @ _CORNERS).T, s=2, alpha=0.25, color="#2171b5", linewidths=0)
    return ax.figure
