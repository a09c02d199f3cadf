"""The papers' tables and figures, measured: one command each, resumable.

Title: Reproduce the papers
Reference: Maddison, Mnih & Teh (2017); Potapczynski, Loaiza-Ganem & Cunningham (2020); Fan,
Chi, Rudnicky & Ramadge (2022); a course report on the first.

    python -m keras_examples.reproduce gst-table3 --seeds 2 --budget paper

trains every row of a table with the code of the other examples and keeps each run as a JSON
file, written when the run ends: a killed command goes on where it was. `--list` says what is
finished and what the rest would take. `RESULTS.md`, with the paper's numbers beside the
measured ones, is written again after every command. Without `--output` all of this is the
project's own record, in this folder; give a folder to start a record of your own.
"""

import os
import pathlib

from keras_examples import common, datasets
from keras_examples.reproduction import rendering, running
from keras_examples.reproduction.catalogue import EXPERIMENTS, TABLES
from keras_examples.reproduction.cells import Store

RECORD = pathlib.Path(__file__).resolve().parent
CLAIMS = RECORD / "reproduction" / "claims.md"
NOTES = RECORD / "reproduction" / "notes.md"
SMOKE, SMOKE_ROWS = ("gst-table3", ["stgs-0.5", "gst-1.0-0.5"]), 2


def parse(arguments):
    options = common.parser(__doc__)
    options.set_defaults(output=RECORD)
    add = options.add_argument
    data = "TFDS directory with the papers' images (default: TFDS_DATA_DIR)"
    add("--data-dir", type=pathlib.Path, default=None, help=data)
    add("table", nargs="?", choices=TABLES, metavar="TABLE", help=f"of {', '.join(TABLES)}")
    add("--budget", choices=("short", "paper"), default="short", help="how long each run is")
    add("--epochs", type=int, help="length of each run instead of a budget's")
    add("--seeds", type=int, default=1, help="runs of each row, from --seed upwards")
    add("--rows", nargs="+", help="only these rows, by the names that --list shows")
    add("--list", action="store_true", help="what is finished, and what the rest would take")
    add("--lock", type=pathlib.Path, help="a file to lock during each run: one at a time")
    add("--pause-file", type=pathlib.Path, help="wait between epochs while this file exists")
    settings = common.parse(options, arguments)
    if settings.seeds < 1:
        common.fail(f"--seeds must be at least 1, not {settings.seeds}")
    settings.data_dir = datasets.data_directory(settings.data_dir)
    if settings.smoke and settings.table is None:
        settings.table, settings.rows = SMOKE
    if settings.rows and settings.table is None:
        common.fail("--rows are those of a TABLE: name it")
    settings.output = settings.output.resolve()
    if settings.smoke:
        # A run on a few images must not be taken for a result, nor its page for a record.
        parent = pathlib.Path("output") if settings.output == RECORD else settings.output
        settings.output = parent / "smoke"
    trains = settings.table and not (settings.list or settings.smoke)
    needs_data = trains and EXPERIMENTS[TABLES[settings.table].experiment].needs_data
    if needs_data and not settings.data_dir:
        common.fail("the papers' tables need the papers' data: give --data-dir a TFDS folder")
    return settings


def choose(table, settings):
    """The rows asked for."""
    if settings.rows is None:
        return table.rows[:SMOKE_ROWS] if settings.smoke else table.rows
    known = {row.slug: row for row in table.rows}
    for name in settings.rows:
        if name not in known:
            common.fail(f"--rows {name} is not one of {', '.join(known)}")
    return [known[name] for name in settings.rows]


def run(settings, store):
    """Runs the cells asked for that are not finished."""
    table = TABLES[settings.table]
    length = 1 if settings.smoke else settings.epochs or table.lengths[settings.budget]
    cells = [
        (row, table.cell(row, length, settings.seed + seed))
        for seed in range(settings.seeds)
        for row in choose(table, settings)
    ]
    context = running.Context(settings.data_dir, settings.smoke, settings.pause_file)
    running.run_cells(table, cells, EXPERIMENTS, store, context, settings.lock)


def render(settings, store):
    """Writes the page and its figures again."""
    texts = ()
    if settings.output == RECORD:
        texts = CLAIMS.read_text(), rendering.read_notes(NOTES.read_text())
    page = rendering.markdown(TABLES.values(), store, store.folder, *texts)
    path = settings.output / "RESULTS.md"
    unfinished = path.with_suffix(f".{os.getpid()}.tmp")
    unfinished.write_text(page)
    os.replace(unfinished, path)
    print(f"wrote {path}")


def main(arguments=None):
    settings = parse(arguments)
    store = Store(settings.output / "results")
    if settings.list:
        listing = rendering.listing(TABLES.values(), store)
        if settings.table:
            table = TABLES[settings.table]
            listing = rendering.row_names(table, choose(table, settings), store)
        print(*listing, sep="\n")
        return
    if settings.table:
        run(settings, store)
    render(settings, store)


if __name__ == "__main__":
    main()
