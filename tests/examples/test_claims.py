"""The numbers in what is said about the record are numbers of the record."""

import itertools
import re

import numpy as np
import pytest

NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e-\d+)?%?|(?<![\w.])\d+%")
# Where a claim's numbers are, beside the table that it names.
BESIDE = {
    "gst-table3": ("gst-protocol", "gst-pytorch", "gst-table5"),
    "gst-table7": ("gst-table3",),
    "igr-table1": ("igr-protocol",),
    "igr-figure4": ("igr-table1",),
    "igr-figure5": ("igr-table1", "igr-protocol"),
    "igr-table4": ("igr-table1",),
    "report-annealing": ("report-temperatures",),
}
APPENDICES = {"igr-appendixc": "igr-table4", "igr-appendixe": "igr-figure2"}
BOUNDS = ("discrete", "relaxed", "discrete_one")
ASIDE = ("seconds", "cpu_seconds", "cpu_per_epoch")
# Of the published GST code on the same data, run once outside of this project; and entropies that
# the GST paper's text has, in no table.
ELSEWHERE = {"gst-table3": (126.0, 117.4), "gst-table7": (0.36, 0.15, 0.0007)}


class Record:
    """Numbers of tables' rows: published, measured, and simple functions of those."""

    def __init__(self, reproduce):
        self.tables = reproduce.TABLES
        self.store = reproduce.Store(reproduce.RECORD / "results")

    def values(self, names, curves=False):
        """The numbers of tables; along their runs too where `curves`, which lets more pass."""
        rows = [(self.tables[name], row) for name in names for row in self.tables[name].rows]
        found = [value for table, row in rows for value in self._row(table, row, curves)]
        found += [value for name in names for value in ELSEWHERE.get(name, ())]
        return np.array(found, float)

    def _row(self, table, row, curves):
        yield from numbers_of([row.paper, row.options])
        if row.options.get("rate"):  # the temperature that annealing ends at
            last = table.lengths["paper"] - 1
            yield row.options["initial"] * np.exp(-row.options["rate"] * last)
        for result in self.store.all(table.experiment):
            if result["options"] == row.options:  # of any length
                yield from self._run(table, row, result, curves)
        seeds = table.results(row, self.store)
        for key in seeds[0] if seeds else ():
            column = [result[key] for result in seeds]
            if all(isinstance(value, float) for value in column):
                yield np.mean(column)

    def _run(self, table, row, result, curves):
        aside = (list,) if curves else (list, dict)
        kept = [v for k, v in result.items() if k not in ASIDE and not isinstance(v, aside)]
        yield from numbers_of(kept)
        bounds = numbers_of([result.get(key) for key in BOUNDS])
        yield from (a - b for a, b in itertools.permutations(bounds, 2))
        measure = result[table.measure]
        if row.paper is not None and measure is not None:
            yield table.sign * measure - row.paper


def numbers_of(value):
    """The numbers in a nested structure."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return [value] if is_number else []
    return [number for inner in value for number in numbers_of(inner)]


def unknown(text, values):
    """Numbers of a text that are none of the values, rounded as the text has them."""
    text = re.sub(r"`[^`]*`|\((?:report|GST|IGR|Concrete), [^)]*\)|\w+\([\d., ]+\)", "", text)
    text = re.sub(r"\d\.\d\.\d|Eq\. \d+|Table \d+|Figure \d+|GST-\d\.\d", "", text)
    missing = []
    for written in NUMBER.findall(text):
        number = float(written.rstrip("%").split("e")[0])
        scale = float("1e" + written.rstrip("%").split("e")[1]) if "e" in written else 1.0
        scale = 0.01 if written.endswith("%") else scale
        digits = len(written.rstrip("%").split("e")[0].partition(".")[2])
        close = 0.5 * 10.0**-digits * scale * (1 + 1e-6)
        if not np.any(np.abs(np.abs(values) - abs(number) * scale) <= close):
            missing.append(written)
    return missing


def tables_of(claim, before):
    """The tables that a claim names: `(GST, Table 3)`, or those of the claim before it."""
    found = re.findall(r"\((GST|IGR|Concrete), (Table|Figure|Appendix) (\w)\)", claim)
    names = [f"{paper}-{kind}{number}".lower() for paper, kind, number in found]
    names = [APPENDICES.get(name, name) for name in names]
    if "(report, 4.2" in claim:
        names.append("report-temperatures")
    if "(report, 4.3" in claim:
        names.append("report-annealing")
    if not names:
        return before
    return [*names, *(other for name in names for other in BESIDE.get(name, ()))]


@pytest.fixture
def reproduce(example):
    return example("reproduce")


def test_the_claims(reproduce):
    record, names, wrong = Record(reproduce), [], {}
    table, *sections = reproduce.CLAIMS.read_text().split("\n### ")
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    for claim, *said in rows:
        names = tables_of(claim, names)
        assert names and set(names) <= set(reproduce.TABLES), claim
        missing = unknown(" | ".join(said), record.values(names))
        if missing:
            wrong[claim] = missing
    for section in sections:
        names = re.findall(r"`((?:gst|igr)-[a-z0-9]+)`", section)
        names += ["gst-table3"] if "STGS" in section else ["igr-table1"]
        missing = unknown(section, record.values(dict.fromkeys(names), curves=True))
        if missing:
            wrong[section.splitlines()[0]] = missing
    assert not wrong


def test_the_notes(reproduce, example):
    record, wrong = Record(reproduce), {}
    for name, note in (
        example("reproduction.rendering").read_notes(reproduce.NOTES.read_text()).items()
    ):
        missing = unknown(note, record.values([name, *BESIDE.get(name, ())]))
        if missing:
            wrong[name] = missing
    assert not wrong


def test_the_readmes_headlines(reproduce):
    record, names, wrong = Record(reproduce), [], {}
    readme = (reproduce.RECORD.parent / "README.md").read_text()
    section = readme.split("## Measured beside the papers")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 8
    for row in rows:
        table, rest = row.strip("| ").split(" |", 1) if not row.startswith("| |") else ("", row)
        reference = table.split(" (")[0].replace("Report", "report")
        names = tables_of(f"({reference})", names)
        missing = unknown(rest, record.values(names))
        if missing:
            wrong[row] = missing
    assert not wrong


def test_the_guide_to_temperatures(reproduce):
    """Each table's numbers are of the tables named above it."""
    guide = (reproduce.RECORD.parent / "docs" / "guides" / "temperatures.md").read_text()
    record, names, checked = Record(reproduce), [], 0
    for part in guide.split("## What was measured")[1].split("\n\n"):
        names = re.findall(r"`((?:gst|igr|report)-[a-z0-9]+)`", part) or names
        if names:
            assert unknown(part, record.values(names)) == []
            checked += len(NUMBER.findall(part))
    assert checked > 30


def test_what_is_not_in_the_record():
    """The check itself: rounding as written, signs, shares and powers of ten."""
    values = np.array([104.57, 0.0725, 6.18e-4, -33.6])
    text = "104.6, -104.6, 104.57, 7.2%, 7.3%, 7%, 6.2e-4, 33.6, 104.5, 6.3e-4, 8%, 104.58"
    assert unknown(text, values) == ["104.5", "6.3e-4", "8%", "104.58"]
    assert unknown("GST-1.0 of `x 9.9` in (report, 4.2.1)", values) == []
