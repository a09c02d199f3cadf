"""Binary trees over tokens."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfconcrete._checks import invalid_value


def binary_tree(
    tokens: Sequence[str],
    spans: Sequence,
    ax: Axes | None = None,
    title: str = "",
    marked: Sequence = (),
) -> Figure:
    """A binary tree, its leaves labelled with tokens in one row below it.

    Args:
        tokens: sequence of strings, the leaves.
        spans: list of `len(tokens) - 1` pairs `(start, stop)`, one for each inner node,
            children before parents, as `tfc.diagnostics.tree_spans` gives them.
        ax: axes to draw into; a new figure where None.
        title: title of the axes.
        marked: spans to draw in red, such as those that another tree does not have.

    Returns:
        The matplotlib figure.

    Example:

    >>> figure = tfc.plots.binary_tree(["[MAX", "1", "]"], [(0, 2), (0, 3)])
    """
    if len(spans) != len(tokens) - 1:
        raise invalid_value("spans", f"{len(tokens) - 1} spans of {len(tokens)} tokens", spans)
    if ax is None:
        _, ax = plt.subplots(figsize=(0.34 * len(tokens) + 0.6, 2.6), layout="constrained")
    red = {tuple(span) for span in marked}
    # From the leaf at which a node starts and that at which it ends to where it stands.
    nodes = {(leaf, leaf + 1): (float(leaf), 0) for leaf in range(len(tokens))}
    for start, stop in spans:
        children = next(
            (nodes[start, middle], nodes[middle, stop])
            for middle in range(start + 1, stop)
            if (start, middle) in nodes and (middle, stop) in nodes
        )
        x = (children[0][0] + children[1][0]) / 2
        y = 1 + max(child[1] for child in children)
        nodes[start, stop] = x, y
        color = "#cb181d" if (start, stop) in red else "#2171b5"
        for child in children:
            ax.plot([child[0], child[0], x], [child[1], y, y], color=color, linewidth=1.1)
    for leaf, token in enumerate(tokens):
        ax.text(leaf, -0.4, token, ha="center", va="top", fontsize=7, rotation=90)
    top = max(y for _, y in nodes.values())
    ax.set(title=title, xlim=(-0.7, len(tokens) - 0.3), ylim=(-0.25 * top - 2, top + 0.6))
    ax.set_axis_off()
    return ax.figure
