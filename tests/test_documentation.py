"""Every code block of the README and every example of a docstring runs as printed."""

import doctest
import importlib
import pathlib
import pkgutil
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
MODULES = [
    info.name for info in pkgutil.walk_packages(tfc.__path__, "tfconcrete.") if not info.ispkg
]


def test_readme_blocks(tmp_path, monkeypatch):
    """The blocks run in order and share their names, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    assert BLOCKS
    names = {"__name__": "__main__"}
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), names)


def test_readme_names_the_commands_that_exist():
    commands = set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test"} <= commands <= targets


def test_readme_names_every_example():
    listed = README[README.index("## Examples") :]
    for path in (ROOT / "keras_examples").glob("*.py"):
        if 'if __name__ == "__main__"' in path.read_text():
            assert f"`{path.name}`" in listed, path.name


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    names = {"tf": tf, "np": np, "keras": keras, "tfc": tfc}
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    finder = doctest.DocTestFinder()
    runner = doctest.DocTestRunner(optionflags=options)
    report = []
    for test in finder.find(module, name, extraglobs=names):
        runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


PUBLIC = [
    "noise",
    "relaxations",
    "estimators",
    "bijectors",
    "schedules",
    "distributions",
    "layers",
    "objectives",
    "calibration",
    "diagnostics",
    "models",
    "callbacks",
]


@pytest.mark.parametrize("room", PUBLIC)
def test_every_public_name_is_documented(room):
    module = getattr(tfc, room)
    for name in getattr(module, "__all__", ()):
        thing = getattr(module, name)
        text = thing.__doc__ or ""
        assert len(text.split()) > 10, f"tfc.{room}.{name} has no docstring"
        is_record = isinstance(thing, type) and issubclass(thing, tuple)
        assert ">>>" in text or is_record, f"tfc.{room}.{name} has no example"


def test_the_version_is_the_same_everywhere():
    assert f"\nversion: {tfc.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {tfc.__version__}\n" in (ROOT / "CHANGELOG.md").read_text()
    assert f"tfconcrete-{tfc.__version__}-py3" in README


def test_workflows_call_targets_that_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = set()
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        commands = re.findall(r"- run: (.*)", path.read_text())
        assert all(command.startswith("make ") for command in commands), path
        called.update(command.split()[1] for command in commands)
    assert {"lint", "test", "docs", "dist"} <= called <= targets
