"""The cells of `reproduce.py`: kept whole or not at all, skipped when finished, rendered."""

import dataclasses
import json
import re
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("only_new_garbage")


@pytest.fixture
def cells(example):
    return example("reproduction.cells")


@pytest.fixture
def tables(example):
    return example("reproduction.tables")


class Counting:
    """An experiment that costs nothing and remembers its cells."""

    def __init__(self, fail_at=None):
        self.seen, self.fail_at = [], fail_at

    def __call__(self, cell, context):
        if len(self.seen) == self.fail_at:
            raise KeyboardInterrupt
        self.seen.append(cell)
        loss = 100.0 + cell.seed + cell.settings["temperature"]
        return {"discrete": loss, "relaxed": loss - 2, "steps": 10 * cell.length, "gap": None}


def make_table(tables):
    rows = tuple(
        tables.Row(f"GST {t:g}", {"temperature": t}, paper)
        for t, paper in ((0.5, 101.0), (1.0, None), (2.0, 90.0))
    )
    return tables.Table("a-table", "A table", "toy", rows, {"short": 2, "paper": 7})


def run(example, table, experiment, store, seeds=2, length=2):
    running, tables = example("reproduction.running"), example("reproduction.tables")
    chosen = [(row, table.cell(row, length, s)) for s in range(seeds) for row in table.rows]
    experiments = {"toy": tables.Experiment(experiment)}
    running.run_cells(table, chosen, experiments, store, running.Context())


def test_a_killed_command_goes_on_where_it_was(example, cells, tables, tmp_path):
    table, store = make_table(tables), cells.Store(tmp_path)
    first = Counting(fail_at=4)
    with pytest.raises(KeyboardInterrupt):
        run(example, table, first, store)
    assert len(store.all("toy")) == 4
    second = Counting()
    run(example, table, second, store)
    assert [cell.seed for cell in second.seen] == [1, 1] and not set(first.seen) & set(second.seen)
    third = Counting()
    run(example, table, third, store)
    assert third.seen == []


def test_a_cell_says_what_it_is(example, cells, tables, tmp_path):
    table, store = make_table(tables), cells.Store(tmp_path)
    run(example, table, Counting(), store, seeds=1)
    result = store.read(table.cell(table.rows[0], 2, 0))
    assert result["options"] == {"temperature": 0.5} and result["steps"] == 20
    assert result["discrete"] == 100.5 and result["relaxed"] == 98.5 and result["gap"] is None
    assert result["command"] == (
        "python -m keras_examples.reproduce a-table --rows gst-0.5 --epochs 2 --seed 0"
    )
    assert {"date", "version", "commit", "seconds", "cpu_seconds", "length", "seed"} <= set(result)


def test_nothing_half_written_counts(cells, tables, tmp_path, monkeypatch):
    table, store = make_table(tables), cells.Store(tmp_path)
    cell = table.cell(table.rows[0], 2, 0)

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cells.os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        store.write(cell, {"discrete": 1.0})
    assert store.read(cell) is None and store.all("toy") == []


def test_two_processes_do_not_run_the_same_cell(example, cells, tables, tmp_path, capsys):
    table, store = make_table(tables), cells.Store(tmp_path)
    cell, experiment = table.cell(table.rows[1], 2, 0), Counting()
    with cells.Store(tmp_path).claimed(cell) as is_ours:
        assert is_ours
        run(example, table, experiment, store, seeds=1)
    assert cell not in experiment.seen and len(experiment.seen) == 2
    assert "GST 1, seed 0: another process runs it" in capsys.readouterr().out
    run(example, table, experiment, store, seeds=1)
    assert experiment.seen[-1] == cell
    assert not list(tmp_path.rglob("*.lock"))


def test_the_page(example, cells, tables, tmp_path):
    """Means over seeds, the longest runs, the difference to the paper."""
    table, store = make_table(tables), cells.Store(tmp_path / "results")
    run(example, table, Counting(), store, seeds=3, length=2)
    run(example, table, Counting(), store, seeds=2, length=7)
    store.path(table.cell(table.rows[2], 7, 0)).unlink()
    store.path(table.cell(table.rows[2], 7, 1)).unlink()
    rendering = example("reproduction.rendering")
    page = rendering.section(table, cells.Store(tmp_path / "results"), tmp_path)
    lines = {line.split(" | ")[0]: line.split(" | ")[1:8] for line in page.splitlines()}
    assert lines["| GST 0.5"] == ["101", "99", "101", "+0", "0.707", "2", "70"]
    assert lines["| GST 1"] == ["", "99.50", "101.50", "", "0.707", "2", "70"]
    assert lines["| GST 2"] == ["90", "101", "103", "+13.00", "1", "3", "20"]


def test_notes_stand_below_their_tables(example, cells, tables, tmp_path):
    rendering = example("reproduction.rendering")
    notes = rendering.read_notes("# Notes\n\n## a-table\n\nWhy so.\n\nMore.\n\n## other\nNo.\n")
    assert notes == {"a-table": "Why so.\n\nMore.", "other": "No."}
    page = rendering.markdown([make_table(tables)], cells.Store(tmp_path), tmp_path, "", notes)
    assert "Why so." in page and "No." not in page


def test_the_records_notes_name_tables(example):
    reproduce = example("reproduce")
    notes = example("reproduction.rendering").read_notes(reproduce.NOTES.read_text())
    assert set(notes) <= set(reproduce.TABLES) and all(notes.values())


def test_a_bound_has_the_papers_sign(example, cells, tables, tmp_path):
    row = tables.Row("IGR", {"temperature": 0.5}, -100.0)
    table = tables.Table("igr", "", "toy", (row,), {"short": 1}, measure="relaxed", sign=-1)
    store = cells.Store(tmp_path)
    run(example, table, Counting(), store, seeds=1, length=1)
    page = example("reproduction.rendering").section(table, store, tmp_path)
    assert "| IGR | -100 | -98.50 | -100.50 | +1.50 |" in page


def test_what_the_rest_takes(example, cells, tables, tmp_path):
    running, store = example("reproduction.running"), cells.Store(tmp_path)
    table = make_table(tables)
    waiting = [table.cell(row, 7, 0) for row in table.rows]
    assert running.expected_seconds(waiting, store) is None
    for row, seconds in zip(table.rows, (4.0, 8.0), strict=False):
        store.write(table.cell(row, 2, 0), {"cpu_seconds": seconds})
    # 2 and 4 seconds an epoch; the third row has the upper median of both.
    assert running.expected_seconds(waiting, store) == 7 * (2 + 4 + 4)
    # A longer run knows better: half of the first one's seconds went into compiling.
    store.write(table.cell(table.rows[0], 4, 0), {"cpu_seconds": 4.0})
    assert running.expected_seconds(waiting, store) == 7 * (1 + 4 + 1)


def test_the_list_says_which_budget_a_row_has(example, cells, tables, tmp_path):
    """A row that ran longer than a budget is finished for it."""
    rendering, store = example("reproduction.rendering"), cells.Store(tmp_path)
    table = make_table(tables)
    for row, length in zip(table.rows, (7, 2), strict=False):
        store.write(table.cell(row, length, 0), {"cpu_seconds": 60.0 * length, "unit": "epochs"})
    assert list(rendering.listing([table], store))[-1] == (
        "| a-table | 3 | 1 (7 epochs: paper), 1 (2 epochs: short) | 2 min | 14 min |"
    )
    assert list(rendering.row_names(table, table.rows, store)) == [
        "gst-0.5: 7 epochs: paper, 1 seed",
        "gst-1: 2 epochs: short, 1 seed",
        "gst-2: not run",
    ]


def test_time_left_is_the_time_of_this_machine(example, monkeypatch, capsys):
    """Half of a core for this run: what is left takes twice its CPU seconds."""
    running = example("reproduction.running")
    clocks = {"wall": 0.0, "cpu": 0.0}
    monkeypatch.setattr(running.time, "monotonic", lambda: clocks["wall"])
    monkeypatch.setattr(running.time, "process_time", lambda: clocks["cpu"])
    progress = running.Progress("a run", 4, later=100.0)
    clocks.update(wall=60.0, cpu=30.0)
    progress.on_epoch_end(0, {"loss": 5.0})
    assert "1/4 loss 5.0, 0:03:00 left, 0:06:20 for all" in capsys.readouterr().out


def test_a_figures_curves(example):
    """Where histories were measured: all epochs, some of them, the first too, before training."""
    figures, tables = example("reproduction.figures"), example("reproduction.tables")

    def result(trained, **history):
        return {"steps": 10 * trained, "history": {"loss": [0.0] * trained, **history}}

    def curve(*results, key):
        return [list(values) for values in figures._curve(results, key)]

    stopped, longer = result(3, a=[3.0, 2.0, 1.0]), result(4, a=[5.0, 4.0, 3.0, 2.0])
    assert curve(stopped, longer, key="a") == [[10, 20, 30], [4.0, 3.0, 2.0]]
    sparse = result(5, epoch=[2, 4], a=[2.0, 1.0], b=[3.0, 2.0, 1.0])
    assert curve(sparse, key="a") == [[20, 40], [2.0, 1.0]]
    assert curve(sparse, key="b") == [[10, 20, 40], [3.0, 2.0, 1.0]]
    assert curve(result(2, a=[9.0, 2.0, 1.0]), key="a") == [[10, 20], [2.0, 1.0]]
    rows = [tables.Row(f"{name} {t}", {"t": t}) for t in (1, 2) for name in ("a", "b")]
    found = {row: [longer] for row in rows if row.label != "a 2"}
    draw = figures.by_steps("a", "loss", lambda row: (row.label[2:], row.label[0]), sign=-1)
    first, second = draw(found)["a"].axes
    assert [line.get_label() for line in first.lines] == ["a", "b"]
    assert second.lines[0].get_color() == first.lines[1].get_color()
    np.testing.assert_array_equal(second.lines[0].get_ydata(), [-5.0, -4.0, -3.0, -2.0])
    assert figures.by_steps("b", "", None)(found) == {}


def test_a_run_that_diverged(example, cells, tables, tmp_path):
    """It is said so, in its row alone, and leaves a gap in its curve."""
    store = cells.Store(tmp_path / "results")

    def experiment(cell, context):
        bad = {0.5: float("nan"), 1.0: float("inf")}.get(cell.settings["temperature"], 90.0)
        history = {"loss": [3.0, bad, 1.0]}
        return {"discrete": bad, "relaxed": bad, "steps": 3, "history": history}

    table = make_table(tables)
    run(example, table, experiment, store, seeds=1)
    page = example("reproduction.rendering").section(table, store, tmp_path)
    for row in ("| GST 0.5 | 101 | diverged | diverged |  |", "| GST 1 |  | diverged | diverged |"):
        assert row in page
    assert "| GST 2 | 90 | 90 | 90 | +0 |" in page
    results = table.results(table.rows[0], store)
    _, values = example("reproduction.figures")._curve(results, "loss")
    np.testing.assert_array_equal(values, [3.0, np.nan, 1.0])


def test_what_is_no_result(cells, tables, tmp_path, capsys):
    """A file that was cut, or that is of other options, is named."""
    table, store = make_table(tables), cells.Store(tmp_path)
    cell, other = (table.cell(row, 2, 0) for row in table.rows[:2])
    path = store.write(cell, {"discrete": 1.0})
    path.rename(store.path(other))
    with pytest.raises(SystemExit):
        store.read(other)
    assert "0.5" in capsys.readouterr().err
    for content in (b'{"discrete": 1', b"[]", b"{}", b"3", b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(SystemExit):
            store.read(cell)
        assert str(path) in capsys.readouterr().err
        # Of other cells it says so, and goes on.
        store.path(other).unlink(missing_ok=True)
        store.write(other, {"discrete": 2.0})
        assert [result["discrete"] for result in cells.Store(tmp_path).all("toy")] == [2.0]
        assert str(path) in capsys.readouterr().err


def test_the_records_commands_run_what_they_stand_in(example, cells):
    """The command in a file names a row with the options in the file."""
    reproduce = example("reproduce")
    store = cells.Store(reproduce.RECORD / "results")
    results = [result for name in reproduce.EXPERIMENTS for result in store.all(name)]
    assert len(results) > 150
    for result in results:
        words = result["command"].split()
        table, slug = reproduce.TABLES[words[3]], words[words.index("--rows") + 1]
        row = next((row for row in table.rows if row.slug == slug), None)
        assert row is not None and row.options == result["options"], result["command"]
        cell = table.cell(row, result["length"], result["seed"])
        assert store.read(cell) == result, result["command"]


def test_the_page_is_of_the_record(example):
    """Every number of the page's tables is what the files say today."""
    reproduce, rendering = example("reproduce"), example("reproduction.rendering")
    store = example("reproduction.cells").Store(reproduce.RECORD / "results")
    texts = reproduce.CLAIMS.read_text(), rendering.read_notes(reproduce.NOTES.read_text())
    tables = [dataclasses.replace(table, draw=None) for table in reproduce.TABLES.values()]
    expected = rendering.markdown(tables, store, store.folder, *texts)
    page = (reproduce.RECORD / "RESULTS.md").read_text()
    figures = re.findall(r"!\[.*\]\(results/(.*)\)", page)
    assert all((store.folder / name).exists() for name in figures)
    written, today = (re.sub(r"\n!\[.*\n", "", text).split("\n") for text in (page, expected))
    assert written == today


def test_a_smoke_run_has_two_rows(example, tmp_path):
    reproduce = example("reproduce")
    settings = reproduce.parse(["igr-figure2", "--smoke", "--output", str(tmp_path)])
    assert len(reproduce.choose(reproduce.TABLES["igr-figure2"], settings)) == 2


def test_the_record_is_known_by_any_path(example, monkeypatch, tmp_path):
    """A smoke run never goes into the record, nor among results."""
    reproduce = example("reproduce")
    monkeypatch.chdir(reproduce.RECORD.parent)
    found = reproduce.parse(["gst-table3", "--smoke", "--output", "keras_examples"])
    assert found.output == reproduce.pathlib.Path("output") / "smoke"
    found = reproduce.parse(["gst-table3", "--smoke", "--output", str(tmp_path)])
    assert found.output == tmp_path.resolve() / "smoke"
    assert reproduce.parse(["--list", "--output", str(tmp_path)]).output == tmp_path.resolve()
    monkeypatch.delenv("TFDS_DATA_DIR", raising=False)
    for arguments in (["--rows", "stgs-0.5"], ["gst-table3"]):
        with pytest.raises(SystemExit):
            reproduce.parse(arguments)
    assert reproduce.parse(["igr-figure2"]).data_dir is None


def test_a_gap_by_temperature_is_of_runs_of_one_length(example):
    figures, tables = example("reproduction.figures"), example("reproduction.tables")
    found = {
        tables.Row(f"3 layers at {t:g}", {"temperature": t}): [
            {"length": length, "relaxed": 70.0 - t, "discrete_one": 70.0 + t}
        ]
        for t, length in ((0.5, 30), (1.0, 5), (2.0, 30))
    }
    drawn = figures.integrality_figure(found)["gap"].axes[0]
    for line in drawn.lines[:2]:
        np.testing.assert_array_equal(line.get_xdata(), [0.5, 2.0])
    found = {row: results for row, results in found.items() if row.options["temperature"] > 0.5}
    assert figures.integrality_figure(found) == {}


def test_packed_images(cells):
    images = np.random.default_rng(0).random([3, 4, 5])
    text = json.loads(json.dumps(cells.packed(images)))
    np.testing.assert_allclose(cells.unpacked(text), images, atol=0.5 / 255 + 1e-6)


def test_every_table_of_the_papers_is_there(example):
    catalogue = example("reproduction.catalogue")
    named = {
        "gst-table2",
        "gst-table3",
        "gst-table4",
        "gst-table5",
        "gst-table7",
        "gst-figure3",
        "igr-table1",
        "igr-table2",
        "igr-table3",
        "igr-table4",
        "igr-figure2",
        "igr-figure4",
        "igr-figure5",
        "concrete-table1",
        "concrete-table2",
        "concrete-figure4",
        "report-temperatures",
        "report-annealing",
    }
    assert named <= set(catalogue.TABLES)
    for table in catalogue.TABLES.values():
        assert table.experiment in catalogue.EXPERIMENTS
        slugs = [row.slug for row in table.rows]
        assert len(set(slugs)) == len(slugs), table.name
        names = [table.cell(row, 1, 0).name for row in table.rows]
        assert len(set(names)) == len(names), table.name


def test_a_start_like_pytorchs(example):
    """Uniform within 1 / sqrt(inputs), biases too: variance 1 / (3 inputs)."""
    encoder, _ = example("architectures").gst_pair()
    example("reproduction.protocol").start_like_pytorch(encoder, seed=0)
    first = encoder.layers[1]
    kernel, bias = first.get_weights()
    assert np.abs(kernel).max() <= 784**-0.5 and np.abs(bias).max() <= 784**-0.5
    count = kernel.size
    # The variance of a squared uniform is 4/45 of the bound's fourth power.
    error = np.sqrt(4 / 45 / count) / 784
    assert abs(np.mean(kernel**2) - 1 / (3 * 784)) < 5 * error and bias.std() > 0


def test_another_frameworks_program_is_a_cell(example, cells, monkeypatch, tmp_path, capsys):
    """It gets the images, its options and the seed; its lines are progress and result."""
    outside, running = example("reproduction.outside"), example("reproduction.running")
    program = tmp_path / "program.py"
    program.write_text(
        "import json, sys, zipfile\n"
        "assert 'x_train.npy' in zipfile.ZipFile(sys.argv[1]).namelist()\n"
        "assert sys.argv[2:] == ['--estimator', 'stgs', '--temperature', '0.5',"
        " '--start', 'glorot', '--epochs', '2', '--seed', '3'], sys.argv\n"
        "print('epoch 1: 130.5')\nprint('epoch 2: 120.25')\n"
        "print(json.dumps({'val_loss': [130.5, 120.25]}))\n"
    )
    monkeypatch.setattr(outside, "SCRIPT", program)
    monkeypatch.setattr(outside.process, "interpreter", lambda name: sys.executable)
    context = running.Context(smoke=True)
    context.progress = running.Progress("outside", 2)
    row = outside.TABLES[0].rows[1]
    result = outside.train_outside(outside.TABLES[0].cell(row, 2, 3), context)
    assert result["discrete"] == 120.25 and result["history"]["val_loss"] == [130.5, 120.25]
    assert "2/2 val_loss 120.2" in capsys.readouterr().out
    program.write_text("raise SystemExit(7)")
    with pytest.raises(SystemExit):
        outside.train_outside(outside.TABLES[0].cell(row, 2, 3), context)
    assert "ended with 7" in capsys.readouterr().err
    monkeypatch.setattr(outside.process, "interpreter", lambda name: None)
    with pytest.raises(SystemExit):
        outside.train_outside(outside.TABLES[0].cell(row, 2, 3), context)
    assert "TORCH_PYTHON" in capsys.readouterr().err


def test_losses_of_runs_of_different_lengths(example):
    """As where a table is half finished at a longer budget."""
    import matplotlib.pyplot as plt

    study = example("temperature_study")

    def run(name, loss):
        return study.Run(name, {"loss": loss}, {}, {}, None, 0, 0.0, 0.0)

    figure, ax = plt.subplots()
    study.draw_losses([run("a", [500.0, 9.0, 8.0, 7.0, 6.0]), run("b", [400.0, 5.0, 4.0, 4.0])], ax)
    assert len(ax.lines) == 2 and 9.0 < ax.get_ylim()[1] < 20.0
    plt.close(figure)
