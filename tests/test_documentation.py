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
    info.name
    for info in pkgutil.walk_packages(tfc.__path__, "tfconcrete.")
    if not info.ispkg
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


PUBLIC = ["noise", "relaxations", "estimators", "bijectors", "schedules", "distributions",
          "layers", "objectives", "calibration", "diagnostics", "models", "callbacks"]  # fmt: skip


@pytest.mark.parametrize("room", PUBLIC)
def test_every_public_name_is_documented(room):
    module = getattr(tfc, room)
    for name in getattr(module, "__all__", ()):
        thing = getattr(module, name)
        text = thing.__doc__ or ""
        assert len(text.split()) > 10, f"tfc.{room}.{name} has no docstring"
        is_record = isinstance(thing, type) and issubclass(thing, tuple)
        assert ">>>" in text or is_record, f"tfc.{room}.{name} has no example"
