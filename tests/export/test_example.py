"""`export_and_serve.py` runs, and its artifact is the one that it says."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import tfconcrete as tfc

SCRIPT = pathlib.Path(__file__).parents[2] / "keras_examples" / "export_and_serve.py"


@pytest.mark.slow
def test_smoke(tmp_path):
    # Without a server on the PATH, whatever the machine has.
    environment = {**os.environ, "PATH": str(tmp_path), "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--smoke", "--output", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "TensorFlow's C++ loader" in done.stdout and "docker run" in done.stdout
    assert tfc.export.inspect(tmp_path / "out" / "mnist_vae").servable
    with np.load(tmp_path / "out" / "mnist_vae" / "recorded_codes.npz") as recorded:
        assert recorded["codes"].shape == (16, 20)
    assert (tmp_path / "out" / "export_and_serve.png").is_file()
