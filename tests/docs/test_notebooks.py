"""Notebooks made from the examples run, with the smoke settings, and begin with an installation."""

import importlib.util
import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
nbformat = pytest.importorskip("nbformat", reason="needs `pip install .[notebooks]`")
_spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs/tools/notebooks.py")
notebooks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(notebooks)


@pytest.mark.parametrize("name", notebooks.EXAMPLES)
def test_a_notebook_has_the_whole_example(name):
    made = notebooks.notebook(name)
    prose, install, *code = made.cells
    assert prose.cell_type == "markdown" and prose.source.startswith("# ")
    assert '"install"' in install.source
    source = (ROOT / "keras_examples" / f"{name}.py").read_text()
    written = "\n".join(cell.source for cell in code)
    body = source[: source.index("if __name__")].split('"""', 2)[2]
    assert [x for x in body.splitlines() if x] == [
        x for x in written[: written.index("\nmain([")].splitlines() if x
    ]
    assert nbformat.writes(made) == nbformat.writes(notebooks.notebook(name))


def test_every_example_has_one():
    scripts = {
        path.stem
        for path in (ROOT / "keras_examples").glob("*.py")
        if 'if __name__ == "__main__"' in path.read_text()
    }
    assert {*notebooks.EXAMPLES, *notebooks.LEFT_OUT} == scripts


@pytest.mark.slow
@pytest.mark.parametrize("name", notebooks.EXAMPLES)
def test_a_notebook_runs(name, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="needs `pip install .[notebooks]`")
    pytest.importorskip("ipykernel", reason="needs `pip install .[notebooks]`")
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.delenv("TFDS_DATA_DIR", raising=False)
    monkeypatch.delenv("MPLBACKEND", raising=False)
    made = notebooks.notebook(name, smoke=True)
    client = nbclient.NotebookClient(
        made, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    pictures = list((tmp_path / "output").glob("*.png"))
    shown = [out for out in made.cells[-1].get("outputs", ()) if out.output_type == "display_data"]
    assert len(shown) == len(pictures)
