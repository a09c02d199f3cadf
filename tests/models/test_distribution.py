"""Several replicas, in a process with two logical devices."""

import pathlib
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_two_replicas():
    script = pathlib.Path(__file__).with_name("replicas.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "replicas agree" in done.stdout
