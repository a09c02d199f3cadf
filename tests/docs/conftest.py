"""The built site, once for all tests of it."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the site, built in strict mode: a warning is an error."""
    for module in ("mkdocs", "mkdocstrings", "plotly"):
        pytest.importorskip(module, reason="the site needs `pip install .[docs]`")
    folder = tmp_path_factory.mktemp("site")
    figures = ROOT / "build" / "explorer" / "figures.js"
    if not figures.exists():
        figures = folder / "figures.js"
        command = [sys.executable, "docs/tools/explorer.py", str(figures), "--draws", "200"]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    environment = {**os.environ, "EXPLORER_FIGURES": str(figures), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--quiet",
            "--site-dir",
            str(folder / "site"),
        ],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    return folder / "site"
