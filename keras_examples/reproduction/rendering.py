"""The page of results: a section for each table, the paper's numbers beside the measured."""

import collections

import numpy as np

from keras_examples.common import save_figure
from keras_examples.reproduction import running

HEADER = """\
# The papers' tables, measured

Every number of this page comes from a run of this package: `python -m keras_examples.reproduce
TABLE` trains the rows of a table and writes this page again from the JSON files in `results/`,
one for each run, with its seed, steps, command, date, version and commit. Runs are as long as
two shared CPU cores allowed: the column steps says how long, and a short run is no statement
about where a long one ends. Bounds are in nats on test images. *relaxed* is the bound that
training maximises, *discrete* that of exact one-hot samples, which is what a user of the trained
model gets; *difference* is from the paper to the measure it reports.
"""


def markdown(tables, store, folder, claims="", notes=None):
    """The page, and figures in `folder`, which the page shows.

    Args:
        tables: the `Table`s.
        store: the `Store`.
        folder: where figures go.
        claims: what the tables say about the papers' claims, Markdown.
        notes: `{table: Markdown}`, what a reader must know beside its rows.
    """
    parts = [HEADER, claims] if claims else [HEADER]
    for table in tables:
        parts.append(section(table, store, folder, (notes or {}).get(table.name, "")))
    return "\n".join(parts)


def read_notes(text):
    """`{table: note}` of a text whose headings, `## table`, are tables."""
    parts = text.split("\n## ")[1:]
    return {name.strip(): note.strip() for name, note in (part.split("\n", 1) for part in parts)}


def section(table, store, folder, note=""):
    """A table of what is finished, with a note below it, and its figures."""
    found = {row: table.results(row, store) for row in table.rows}
    lines = [f"## {table.name}", "", f"{table.title}. {table.about}".strip(), ""]
    measured = {row: results for row, results in found.items() if results}
    if measured:
        lines += _table(table, measured)
        unmeasured = [row.label for row in table.rows if row not in measured]
        if unmeasured:
            lines += ["", f"Not run yet: {', '.join(unmeasured)}."]
        command = f"python -m keras_examples.reproduce {table.name}"
        lines += ["", f"Commands: `{command}` and the options of the last column."]
    else:
        lines.append("Not run yet.")
    if note:
        lines += ["", note]
    for name, figure in (table.draw(found) if table.draw else {}).items():
        path = save_figure(figure, folder, f"{table.name}_{name}")
        lines += ["", f"![{table.name}: {name}]({folder.name}/{path.name})"]
    return "\n".join([*lines, ""])


def _table(table, measured):
    header = [
        "row",
        "paper",
        "relaxed",
        "discrete",
        "difference",
        "std",
        "seeds",
        "steps",
        *table.columns,
        "date",
        "commit",
        "options",
    ]
    bounds = any(results[0]["discrete"] is not None for results in measured.values())
    if not bounds:
        header = [name for name in header if name not in ("relaxed", "discrete")]
    rows = [_line(table, row, results, bounds) for row, results in measured.items()]
    return [f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *rows)]


def _line(table, row, results, bounds):
    def mean(key):
        get = key if callable(key) else lambda result: result.get(key)
        values = [value for value in map(get, results) if value is not None]
        return np.mean(values) if values else None

    def bound(key):
        value = mean(key)
        return "diverged" if value is None else number(table.sign * value)

    finite = [result[table.measure] for result in results if result[table.measure] is not None]
    compared = table.sign * np.array(finite)
    known = row.paper is not None and len(compared)
    cells = [row.label, number(row.paper)]
    if bounds:
        cells += [bound("relaxed"), bound("discrete")]
    cells += [
        number(np.mean(compared) - row.paper, "+") if known else "",
        number(np.std(compared, ddof=1)) if len(compared) > 1 else "",
        str(len(results)),
        f"{results[0]['steps']:,}",
        *(number(mean(key)) for key in table.columns.values()),
        max(result["date"] for result in results),
        results[-1]["commit"] or "",
        f"`{_options(row, results)}`",
    ]
    return [cell.replace("|", "\\|") for cell in cells]


def number(value, sign=""):
    """Two decimals for what is large, three digits for what is small; empty for None."""
    if value is None:
        return ""
    if value == round(value) and not sign:
        return f"{value:.0f}"
    form = f"{sign}.2f" if abs(value) >= 1 else f"{sign}.3g"
    return f"{value:{form}}"


def _options(row, results):
    """What runs a row's cells again, after the table's command."""
    seeds = [result["seed"] for result in results]
    return (
        f"--rows {row.slug} --epochs {results[0]['length']} --seed {min(seeds)} "
        f"--seeds {max(seeds) - min(seeds) + 1}"
    )


def listing(tables, store):
    """Lines of `--list`: what is finished at which length, and what the rest would take."""
    yield "The rest in CPU time of one core, one seed each:\n"
    yield "| table | rows | finished (length) | rest of short | rest of paper |"
    yield "|---|---|---|---|---|"
    for table in tables:
        found = [(row, table.results(row, store)) for row in table.rows]
        done = collections.Counter(
            _length(table, results) for _, results in found if results
        ).most_common()
        finished = ", ".join(f"{count} ({length})" for length, count in done) or "none"
        yield (
            f"| {table.name} | {len(table.rows)} | {finished} | "
            f"{_rest(table, 'short', store)} | {_rest(table, 'paper', store)} |"
        )


def _length(table, results):
    """`"40 epochs: paper"`: how long a row's runs are, and the budget that this is."""
    length = results[0]["length"]
    budgets = [name for name, budget in table.lengths.items() if budget == length]
    return ": ".join([f"{length:,} {results[0]['unit']}", *budgets[-1:]])


def _rest(table, budget, store):
    """How long the rows without runs of a budget's length would take."""
    length = table.lengths[budget]
    missing = [
        table.cell(row, length, seed=0)
        for row in table.rows
        if all(result["length"] < length for result in table.results(row, store))
    ]
    if not missing:
        return "finished"
    seconds = running.expected_seconds(missing, store)
    if seconds is None:
        return "unknown"
    return f"{seconds / 60:,.0f} min" if seconds < 36_000 else f"{seconds / 3_600:,.0f} h"


def row_names(table, rows, store):
    """Lines of `TABLE --list`: the rows' names for `--rows`, and their lengths so far."""
    for row in rows:
        lengths = [
            f"{_length(table, results)}, {len(results)} seed{'s' * (len(results) > 1)}"
            for results in table.by_length(row, store)
        ]
        yield f"{row.slug}: {'; '.join(lengths) or 'not run'}"
