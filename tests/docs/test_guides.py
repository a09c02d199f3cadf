"""The guides run as printed, and name what exists."""

import pathlib
import re

import pytest

import tfconcrete as tfc

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([DOCS / "index.md", *(DOCS / "guides").glob("*.md")])
# Those that train and compile; the others take a second or two.
SLOW = {"index", "models", "subsets", "watching", "devices", "serving"}

# Packages of extras, and what the functions that need them end with.
NEEDED = {"openvino": "openvino", "tf2onnx": "onnx", "onnxruntime": "onnx"}


def python_blocks(text):
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=[pytest.mark.slow] if p.stem in SLOW else [], id=p.stem) for p in PAGES],
)
def test_blocks_run(path, tmp_path, monkeypatch):
    """In order, and sharing their names, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for block in python_blocks(path.read_text()):
        for module in NEEDED:
            if f"import {module}" in block or f"to_{NEEDED[module]}(" in block:
                pytest.importorskip(module)
        exec(compile(block, path.name, "exec"), names)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_names_exist(path):
    """Every `tfc.room.name` in prose and tables is there, and so is every example."""
    text = path.read_text()
    for name in set(re.findall(r"\btfc((?:\.[A-Za-z_]\w*)+)", text)):
        thing = tfc
        for part in name[1:].split("."):
            assert hasattr(thing, part), f"{path.name}: tfc{name}"
            thing = getattr(thing, part)
            if isinstance(thing, type) or callable(thing):
                break
    for name, kind in set(re.findall(r"keras_examples[./](\w+)(\.md)?", text)):
        file = ROOT / "keras_examples" / f"{name}{kind or '.py'}"
        assert file.exists(), f"{path.name}: {file.name}"
    for name in set(re.findall(r"python -m (benchmarks\.\w+)", text)):
        assert (ROOT / f"{name.replace('.', '/')}.py").exists()


def test_every_guide_is_in_the_navigation():
    settings = (ROOT / "mkdocs.yml").read_text()
    for path in PAGES:
        assert f": {path.relative_to(DOCS)}" in settings
