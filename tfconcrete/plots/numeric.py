"""Numeric reports beside each other."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfconcrete._checks import invalid_value


def numeric_reports(
    reports: Any | Sequence[Any],
    ax: Axes | None = None,
    title: str = "what floating-point numbers leave",
) -> Figure:
    """A row for each report and a column for each share; what is not finite is red.

    Args:
        reports: `tfc.diagnostics.NumericReport`, one or several.
        ax: axes to draw into; a new figure where None.
        title: title of the axes.

    Returns:
        The matplotlib figure.

    Example:

    >>> layer = tfc.ConcreteSample()
    >>> reports = [
    ...     tfc.diagnostics.numeric_report(layer, 10, t, "bfloat16") for t in (0.01, 0.1, 1.0)]
    >>> figure = tfc.plots.numeric_reports(reports)
    """
    reports = list(reports) if isinstance(reports, (list, tuple)) else [reports]
    if not reports or not all(hasattr(report, "shares") for report in reports):
        raise invalid_value("reports", "one or several numeric reports", reports)
    columns = list(dict.fromkeys(name for report in reports for name in report.shares))
    table = np.array([[report.shares.get(name, np.nan) for name in columns] for report in reports])
    if ax is None:
        size = (2.6 + 0.9 * len(columns), 1.4 + 0.32 * len(reports))
        _, ax = plt.subplots(figsize=size, layout="constrained")
    ax.imshow(np.ma.masked_invalid(table), cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    for (row, column), value in np.ndenumerate(table):
        if np.isnan(value):
            continue
        is_bad = value > 0.0 and columns[column].startswith("non-finite")
        color = "#cb181d" if is_bad else "white" if value > 0.6 else "black"
        weight = "bold" if is_bad else "normal"
        text = f"{value:.2g}"
        ax.text(column, row, text, ha="center", va="center", color=color, weight=weight, size=8)
    ax.set_xticks(range(len(columns)), [name.replace(" ", "\n") for name in columns], size=8)
    ax.set_yticks(range(len(reports)), [report.title for report in reports], size=8)
    ax.tick_params(length=0)
    ax.set_title(title)
    return ax.figure
