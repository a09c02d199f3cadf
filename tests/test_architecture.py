"""Imports follow the way of the data: earlier stages or the own folder, never upward."""

import ast
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "tfconcrete"

STAGES = {
    "_version": 0, "_backend": 0, "_checks": 0, "_dtypes": 0, "_seeds": 0,
    "noise": 1,
    "relaxations": 2,
    "estimators": 3, "bijectors": 3, "schedules": 3,
    "distributions": 4, "layers": 4,
    "objectives": 5, "calibration": 5, "diagnostics": 5,
    "models": 6, "callbacks": 6,
    "export": 7, "plots": 7,
}  # fmt: skip

# A schedule is what a layer's temperature may be; a stage's room is its folder's name.
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


def imported_rooms(path):
    """Every room of the package that a file imports from, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "tfconcrete":
                assert len(parts) > 1, f"{path}: imports the package itself"
                yield parts[1]


def violations(path):
    own = room(path)
    for other in imported_rooms(path):
        if other != own and STAGES[other] >= STAGES[own] and STAGES[own] > 0:
            yield f"{own} (stage {STAGES[own]}) imports {other} (stage {STAGES[other]})"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_upward_import(path):
    assert not list(violations(path))


def test_an_upward_import_would_be_seen(tmp_path, monkeypatch):
    """The rule itself is tested on a file that breaks it."""
    monkeypatch.setattr(f"{__name__}.PACKAGE", tmp_path)
    (tmp_path / "noise").mkdir()
    bad = tmp_path / "noise" / "bad.py"
    bad.write_text("def f():\n    from tfconcrete.layers import base\n")
    assert list(violations(bad)) == ["noise (stage 1) imports layers (stage 4)"]


def test_every_folder_has_a_stage():
    assert {room(path) for path in FILES} <= set(STAGES)


def test_only_plots_imports_matplotlib():
    for path in FILES:
        if room(path) == "plots":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module]
            assert not any(name.split(".")[0] == "matplotlib" for name in names), path
