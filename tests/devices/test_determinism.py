"""`tf.config.experimental.enable_op_determinism` passes on all layers."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.slow
def test_layers_run_and_repeat_under_op_determinism():
    run = [sys.executable, "-m", "tests.devices.determinism"]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "deterministic"
