"""What a table of a paper consists of."""

import collections
import dataclasses
import re
from collections.abc import Callable

from keras_examples.reproduction.cells import Cell


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A way to train and measure.

    Attributes:
        run: from a `Cell` and a `Context` to a dict with `discrete` and `relaxed`, the
            negative bounds on test data in nats, `steps`, and whatever else was measured.
        unit: what a cell's length counts.
        needs_data: whether it trains on the papers' images.
    """

    run: Callable
    unit: str = "epochs"
    needs_data: bool = True


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """A line of a table, a key of its own among others that look alike.

    Attributes:
        label: as the paper calls it.
        options: of the `Cell`s that measure it, a dict.
        paper: the published value, None where there is none.
    """

    label: str
    options: dict
    paper: float | None = None

    @property
    def slug(self):
        """The label as an argument of `--rows`."""
        return re.sub(r"[^\w.=~-]+", "-", self.label.lower().replace("'", "")).strip("-")


@dataclasses.dataclass(frozen=True)
class Table:
    """A table or figure of a paper.

    Attributes:
        name: on the command line.
        title: heading, with the paper.
        experiment: key of `EXPERIMENTS`.
        rows: its `Row`s.
        lengths: `{"short": ..., "paper": ...}`, the length of a cell by budget.
        measure: which number of a cell the paper's is compared with.
        sign: -1 where the paper reports a bound and cells hold its negative.
        columns: further numbers of a cell to show, `{heading: key, or a function of the result}`.
        about: the protocol, and what to know when comparing.
        draw: from `{row: [results]}` to a figure, or None.
    """

    name: str
    title: str
    experiment: str
    rows: tuple
    lengths: dict
    measure: str = "discrete"
    sign: int = 1
    columns: dict = dataclasses.field(default_factory=dict)
    about: str = ""
    draw: Callable | None = None

    def cell(self, row, length, seed):
        return Cell(self.experiment, tuple(row.options.items()), length, seed)

    def by_length(self, row, store):
        """Finished cells of a row, a list for each length, the longest first."""
        found = collections.defaultdict(list)
        for result in store.all(self.experiment):
            if result["options"] == row.options:
                found[result["length"]].append(result)
        return [found[length] for length in sorted(found, reverse=True)]

    def results(self, row, store):
        """Finished cells of a row, those of the longest runs only, one for each seed."""
        return next(iter(self.by_length(row, store)), [])
