"""SIGKILL in the middle of an export never leaves a version that does not load."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import tfconcrete as tfc
from tests.export.small import functional, load

KILLS = 20


def all_versions(path):
    return [entry for entry in path.iterdir() if entry.name.isdigit()]


def seconds_to_next_version(path):
    start, before = time.monotonic(), len(all_versions(path))
    while len(all_versions(path)) == before:
        assert time.monotonic() - start < 120.0
        time.sleep(0.005)
    return time.monotonic() - start


@pytest.mark.slow
def test_twenty_kills_at_random_moments(tmp_path):
    moments = random.Random(0)
    script = pathlib.Path(__file__).with_name("killed_worker.py")
    left_behind = 0
    with subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(script.parents[2])},
    ) as worker:
        for _ in range(KILLS):
            worker.stdin.write("go\n")
            worker.stdin.flush()
            process = int(worker.stdout.readline())
            # However fast the machine is: in one of the exports after the first.
            time.sleep(moments.uniform(0.0, 2.0) * seconds_to_next_version(tmp_path))
            os.kill(process, signal.SIGKILL)
            assert worker.stdout.readline() == "gone\n"
            left_behind += any(not entry.name.isdigit() for entry in tmp_path.iterdir())
        worker.stdin.close()
    versions = all_versions(tmp_path)
    assert len(versions) >= KILLS
    # Some kills must have come in the middle of a write, or this shows nothing.
    assert left_behind >= KILLS // 4
    for version in versions:
        report = tfc.export.inspect(version)
        assert report.servable, str(report)
    for version in (versions[0], versions[-1]):
        assert load(version)(x=np.ones([2, 64], np.float32))["z_codes"].shape == (2,)
    newest = max(int(version.name) for version in versions)
    assert tfc.export.save_discrete(functional(), tmp_path).name == str(newest + 1)
    assert all(entry.name.isdigit() for entry in tmp_path.iterdir())
