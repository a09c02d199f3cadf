"""Pictures of images: grids, reconstructions, and what each code decodes to."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfconcrete._checks import invalid_value
from tfconcrete._typing import TensorLike


def _check_images(images, name="images"):
    images = np.asarray(images)
    if images.ndim == 4 and images.shape[-1] == 1:
        images = images[..., 0]
    if images.ndim not in (3, 4):
        raise invalid_value(name, "an array of shape [n, height, width(, channels)]", images.shape)
    return images


def _tile(images, rows, columns, gap=1.0):
    """One large picture of `rows` x `columns` images with a thin line between them."""
    height, width = images.shape[1:3]
    canvas = np.full([rows * (height + 1) - 1, columns * (width + 1) - 1, *images.shape[3:]], gap)
    for index, image in enumerate(images[: rows * columns]):
        top = index // columns * (height + 1)
        left = index % columns * (width + 1)
        canvas[top : top + height, left : left + width] = image
    return canvas


def _show(ax, canvas, title):
    ax.imshow(np.clip(canvas, 0.0, 1.0), cmap="gray_r", vmin=0.0, vmax=1.0)
    ax.set_title(title)
    ax.axis("off")
    return ax.figure


def image_grid(
    images: TensorLike, columns: int = 10, ax: Axes | None = None, title: str = ""
) -> Figure:
    """Images side by side, in reading order.

    Args:
        images: array `[n, height, width]` or `[n, height, width, channels]` in [0, 1].
        columns: images in a row.
        ax: axes to draw into; a new figure where None.
        title: title of the axes.

    Returns:
        The matplotlib figure.

    Example:

    >>> figure = tfc.plots.image_grid(np.random.rand(20, 8, 8), columns=5)
    """
    images = _check_images(images)
    rows = -(-len(images) // columns)
    if ax is None:
        _, ax = plt.subplots(figsize=(0.6 * columns, 0.6 * rows + 0.4), layout="constrained")
    return _show(ax, _tile(images, rows, columns), title)


def reconstructions(
    originals: TensorLike,
    reconstructed: TensorLike,
    ax: Axes | None = None,
    title: str = "above: data, below: decoded codes",
) -> Figure:
    """Each image above what came back from its code.

    Args:
        originals: array `[n, height, width]` or with channels, in [0, 1].
        reconstructed: array of the same shape.
        ax: axes to draw into; a new figure where None.
        title: title of the axes.

    Returns:
        The matplotlib figure.

    Example:

    >>> x = np.random.rand(6, 8, 8)
    >>> figure = tfc.plots.reconstructions(x, 1 - x)
    """
    originals = _check_images(originals, "originals")
    reconstructed = _check_images(reconstructed, "reconstructed")
    if originals.shape != reconstructed.shape:
        raise invalid_value(
            "reconstructed", f"an array of shape {originals.shape}", reconstructed.shape
        )
    both = np.concatenate([originals, reconstructed])
    columns = len(originals)
    if ax is None:
        _, ax = plt.subplots(figsize=(0.6 * columns, 1.7), layout="constrained")
    return _show(ax, _tile(both, 2, columns), title)


def code_grid(
    images: TensorLike,
    ax: Axes | None = None,
    title: str = "",
    row_label: str = "first code",
    column_label: str = "second code",
) -> Figure:
    """What every pair of codes decodes to: rows by the first, columns by the second.

    Args:
        images: array `[rows, columns, height, width]` in [0, 1].
        ax: axes to draw into; a new figure where None.
        title: title of the axes.
        row_label, column_label: what the two codes are called.

    Returns:
        The matplotlib figure.

    Example:

    >>> figure = tfc.plots.code_grid(np.random.rand(3, 4, 8, 8))
    """
    images = np.asarray(images)
    if images.ndim < 4:
        raise invalid_value(
            "images", "an array of shape [rows, columns, height, width]", images.shape
        )
    rows, columns, height, width = images.shape[:4]
    if ax is None:
        _, ax = plt.subplots(figsize=(0.6 * columns + 0.8, 0.6 * rows + 0.8), layout="constrained")
    canvas = _tile(images.reshape([rows * columns, *images.shape[2:]]), rows, columns)
    figure = _show(ax, canvas, title)
    ax.axis("on")
    ax.set(xlabel=column_label, ylabel=row_label)
    ax.set_xticks(np.arange(columns) * (width + 1) + width / 2, np.arange(columns))
    ax.set_yticks(np.arange(rows) * (height + 1) + height / 2, np.arange(rows))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return figure
