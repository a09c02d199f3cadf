"""How a noisy logit becomes a relaxed bit (Concrete, Figure 3)."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfconcrete._typing import TensorLike


def binary_relaxation(
    inputs: TensorLike,
    input_density: TensorLike,
    outputs: TensorLike,
    output_density: TensorLike,
    squash: TensorLike,
    samples: TensorLike | None = None,
    ax: Axes | None = None,
    title: str = "",
) -> Figure:
    """The noisy logit's density below, the squashing curve, and the bit's density beside it.

    Args:
        inputs: array `[n]`, a grid of noisy logits.
        input_density: array `[n]`, their density.
        outputs: array `[m]`, a grid on [0, 1].
        output_density: array `[m]`, the density of the relaxed bit; for the discrete step,
            the two masses at `outputs = [0, 1]`.
        squash: array `[n]`, the curve from `inputs` to [0, 1].
        samples: array `[k]` of relaxed bits, drawn as a histogram over the density.
        ax: axes to draw into; a new figure where None.
        title: title of the axes.

    Returns:
        The matplotlib figure.

    Example:

    >>> x, y = np.linspace(-4, 4, 81), np.linspace(0.01, 0.99, 99)
    >>> sigmoid, bell = 1 / (1 + np.exp(-x)), np.exp(-x * x / 2)
    >>> figure = tfc.plots.binary_relaxation(x, bell, y, np.ones(99), sigmoid)
    """
    if ax is None:
        _, ax = plt.subplots(figsize=(3.4, 3.0), layout="constrained")
    inputs, outputs = np.asarray(inputs), np.asarray(outputs)
    left, right = inputs.min(), inputs.max()
    reach = 0.35 * (right - left)  # room for the density that stands on the right
    height = 0.45 / np.max(input_density)
    below = -0.6 + height * np.asarray(input_density)
    ax.fill_between(inputs, -0.6, below, color="#6baed6", alpha=0.8, linewidth=0)
    ax.plot(inputs, squash, color="0.2", linewidth=1.3)
    ax.axhline(0.0, color="0.8", linewidth=0.6, zorder=0)
    ax.axhline(1.0, color="0.8", linewidth=0.6, zorder=0)
    output_density = np.asarray(output_density, np.float64)
    if len(outputs) == 2:
        lengths = reach * output_density / output_density.max()
        ax.barh(outputs, lengths, left=right, height=0.05, color="#08519c")
    else:
        top = np.percentile(output_density, 97)
        width = reach / top * np.minimum(output_density, top)
        if samples is not None:
            counts, edges = np.histogram(samples, bins=40, range=(0, 1), density=True)
            bars = reach / top * np.minimum(counts, top)
            ax.barh(
                edges[:-1],
                bars,
                left=right,
                height=1 / 40,
                align="edge",
                color="#c6dbef",
                linewidth=0,
            )
        ax.plot(right + width, outputs, color="#08519c", linewidth=1.3)
    ax.axvline(right, color="0.8", linewidth=0.6)
    ax.set(xlim=(left, right + 1.08 * reach), ylim=(-0.65, 1.15), title=title)
    ax.set(xticks=np.linspace(left, right, 5), yticks=[0, 1])
    ax.set_xlabel("noisy logit")
    ax.spines[["top", "right"]].set_visible(False)
    return ax.figure
