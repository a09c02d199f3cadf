"""Figures with their goals, as Markdown and JSON."""

import dataclasses
import json
import platform


@dataclasses.dataclass
class Figure:
    """One measured figure.

    Attributes:
        what: what was compared.
        value: the measurement, a ratio unless `unit` says otherwise.
        goal: the bound to reach, or None where there is none.
        at_least: whether larger is better.
        unit: what follows the number.
        note: anything a reader must know beside it.
    """

    what: str
    value: float | None
    goal: float | None = None
    at_least: bool = True
    unit: str = "x"
    note: str = ""

    @property
    def reached(self):
        if self.value is None or self.goal is None:
            return None
        return self.value >= self.goal if self.at_least else self.value <= self.goal


def _cell(value, unit):
    return "" if value is None else f"{value:.3g}{unit}"


def markdown(title, figures):
    """One section: a table of figures, their goals and whether they were reached."""
    lines = [f"## {title}", "", "| what | measured | goal | reached |", "|---|---|---|---|"]
    for figure in figures:
        sign = ">= " if figure.at_least else "<= "
        goal = "" if figure.goal is None else sign + _cell(figure.goal, figure.unit)
        reached = {True: "yes", False: "no", None: ""}[figure.reached]
        measured = _cell(figure.value, figure.unit) or "not run"
        if figure.note:
            measured += f" ({figure.note})"
        lines.append(f"| {figure.what} | {measured} | {goal} | {reached} |")
    return "\n".join([*lines, ""])


def as_json(sections):
    """All sections with the machine they were measured on."""
    import keras
    import tensorflow as tf
    import tensorflow_probability as tfp

    about = {
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "tensorflow_probability": tfp.__version__,
    }
    figures = {
        title: [{**dataclasses.asdict(f), "reached": f.reached} for f in rows]
        for title, rows in sections.items()
    }
    return json.dumps({"machine": about, "figures": figures}, indent=1)
