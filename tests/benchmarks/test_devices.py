"""`python -m benchmarks --device ...`: the way to a user's GPU, taken here with the CPU."""

import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from benchmarks import devices

ROOT = pathlib.Path(__file__).parents[2]


def run(*arguments):
    command = [sys.executable, "-m", "benchmarks", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="there is a GPU")
def test_without_a_gpu_there_is_an_error(tmp_path):
    done = run("--device", "GPU", "--output", tmp_path)
    assert done.returncode != 0 and "sees no GPU" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_one_markdown_file(tmp_path):
    sections = ("codes", "grid", "determinism", "import")
    done = run(*sections, "--device", "CPU", "--quick", "--output", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    (path,) = tmp_path.iterdir()
    text = path.read_text()
    assert path.name == "benchmarks_cpu.md" and text.startswith("# CPU: ")
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == list(sections)
    rows = [line for line in text.splitlines() if "differ |" in line or "finite" in line]
    assert len(rows) == 3 * len(devices.samplers()) + 3
    assert all(row.endswith("| yes |") for row in rows), rows


def test_a_code_that_differs_is_counted(monkeypatch):
    """A device that draws others' codes in 3 of 200 * 30 places, and one that agrees."""
    calls = []

    def sampler(logits, seed):
        calls.append(None)
        codes = tfc.relaxations.codes(logits).numpy()
        if len(calls) > 2:
            codes[:3, 0] += 1
        return tf.constant(codes)

    monkeypatch.setattr(devices, "samplers", lambda: {"codes of the argmax": sampler})
    monkeypatch.setattr(devices, "MODES", {"eager": lambda f: f, "again": lambda f: f})
    figures = list(devices.codes("CPU", quick=True))
    assert [figure.value for figure in figures] == [0, 3, 0]
    assert [figure.reached for figure in figures] == [True, False, True]


def test_a_cell_that_is_not_finite_is_counted(monkeypatch):
    column = {("cell", i): bool(i % 4) for i in range(8)}
    monkeypatch.setattr(devices.numeric_grid, "tensorflow_column", lambda *a, **k: column)
    figures = list(devices.grid("CPU"))
    assert [(f.value, f.goal, f.reached) for f in figures] == [(6, 8, False)] * 2
    assert np.array_equal([f.at_least for f in figures], [True, True])
