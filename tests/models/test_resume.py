"""A run that is killed and started again ends where the uninterrupted one does."""

import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

SCRIPT = pathlib.Path(__file__).with_name("resume.py")
BATCHES = 12


def start(folder, way):
    folder.mkdir(exist_ok=True)
    command = [sys.executable, str(SCRIPT), str(folder), way]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(folder, way):
    process = start(folder, way)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0 and "finished" in output, errors[-3000:]
    return result(folder)


def result(folder):
    with np.load(folder / "weights.npz") as arrays:
        return dict(arrays)


def kill(folder, way, lines, delay):
    """Lets a run print some lines, waits and kills it; whether it was killed, and its lines."""
    process, seen = start(folder, way), []
    for _ in range(lines):
        line = process.stdout.readline()
        if not line:
            break
        seen.append(line.strip())
    time.sleep(delay)
    process.kill()
    output, errors = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), errors[-3000:]
    return process.returncode != 0, [*seen, *output.split()]


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, value in expected.items():
        # A run that was killed after its last epoch has no loss to tell.
        if name != "loss" or np.isfinite(found[name]):
            np.testing.assert_array_equal(found[name], value, err_msg=name)


def torn(folder):
    """Whether Keras was killed between the two files that `BackupAndRestore` writes."""
    weights, metadata = (
        folder / "backup" / name for name in ("latest.weights.h5", "training_metadata.json")
    )
    if not weights.exists():
        return False
    try:
        epoch = json.loads(metadata.read_text())["epoch"]
    except (OSError, ValueError):
        return True
    with h5py.File(weights) as file:
        return int(file["optimizer/vars/0"][()]) != epoch * BATCHES


@pytest.mark.slow
@pytest.mark.parametrize("way", ["checkpoint", "backup"])
def test_killed_at_random_moments(tmp_path, way):
    """Twenty SIGKILLs from outside, wherever they fall: in a step, in a save, in between."""
    expected = finish(tmp_path / "whole", way)
    folder, before = tmp_path / "killed", tmp_path / "before"
    moments, kills, saving = random.Random(0), 0, 0
    for _ in range(60):
        shutil.rmtree(before, ignore_errors=True)
        if folder.exists():
            shutil.copytree(folder, before)
        # A third aims at the end of an epoch, when files are written.
        aim = moments.random() < 1 / 3
        lines = BATCHES + 1 if aim else moments.randint(1, 2 * BATCHES)
        killed, seen = kill(folder, way, lines, moments.uniform(0.0, 0.05))
        if torn(folder):
            # Between the weights and the epoch that they belong to: not ours to mend.
            shutil.rmtree(folder)
            if before.exists():
                shutil.copytree(before, folder)
            continue
        kills += killed
        saving += killed and seen[-1] == "epoch"
        if kills == 20:
            break
        if not killed:
            # It got to the end before its time: begin anew, the kills count on.
            assert_same(result(folder), expected)
            shutil.rmtree(folder)
    assert kills == 20 and saving > 0
    assert_same(finish(folder, way), expected)
