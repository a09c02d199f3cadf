"""What needs a process of its own: resuming in a fresh one, two logical devices."""

import json
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent


def run(script, *arguments):
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout.splitlines()[-1]


@pytest.mark.slow
def test_a_resumed_run_repeats_the_uninterrupted_one(tmp_path):
    """Bit for bit: weights, optimizer, temperatures, schedules and the noise streams."""
    path = tmp_path / "model.keras"
    whole = json.loads(run("resume.py", "whole", path))
    first = json.loads(run("resume.py", "first", path))
    second = json.loads(run("resume.py", "second", path))
    assert len(whole) == 4 and len(set(whole)) == 4
    assert first + second == whole


@pytest.mark.slow
def test_replicas_draw_different_noise():
    assert run("replicas.py") == "different noise"
