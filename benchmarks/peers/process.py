"""A process for each peer: frameworks fight over threads where they share one.

A peer runs where an interpreter can import it: the one that `TORCH_PYTHON` or `JAX_PYTHON`
names, or this one. Without any there are no figures for it.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np

from benchmarks.timing import timed, wait

PEERS = {"torch": "TORCH_PYTHON", "jax": "JAX_PYTHON"}


def interpreter(name):
    """A Python that can import a peer, or None."""
    for candidate in filter(None, [os.environ.get(PEERS[name]), sys.executable]):
        found = subprocess.run(
            [candidate, "-c", f"import {name}"], capture_output=True, check=False
        )
        if found.returncode == 0:
            return candidate
    return None


class Peer:
    """Another framework's process: `make` a step, then `time` it.

    Args:
        name: a key of `PEERS`, or `"tfconcrete"` for this package in another version.
        python: an interpreter that can import it.
        **environment: variables of the process, beside those of this one.
    """

    def __init__(self, name, python, **environment):
        self.name = name
        script = pathlib.Path(__file__).with_name(f"{name}_server.py")
        self._process = subprocess.Popen(
            [python, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environment},
            text=True,
        )
        self._read()

    def _read(self):
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the {self.name} process ended")
        return json.loads(line)

    def _ask(self, **request):
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read()

    def make(self, maker, *arguments):
        """Makes the next step to time; returns the seconds of its first call."""
        return self._ask(make=maker, arguments=arguments)

    def time(self, times=1):
        """Seconds of so many steps."""
        return self._ask(times=times)

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=30)


@contextlib.contextmanager
def running_peers(names=tuple(PEERS)):
    """`{name: Peer}` of those that can run here."""
    with contextlib.ExitStack() as stack:
        peers = {}
        for name in names:
            python = interpreter(name)
            if python is not None:
                peers[name] = Peer(name, python)
                stack.callback(peers[name].close)
        yield peers


def in_turns(peer, ours, seconds=3.0, times=1, min_rounds=9):
    """Times `ours` and a peer's current step in turns.

    Args:
        peer: a `Peer` that has made its step.
        ours: a callable.
        seconds: how long to go on, roughly.
        times: the steps of the peer that are one call of ours.
        min_rounds: at least so many turns.

    Returns:
        `(ours, theirs)`, arrays of seconds, one for each turn.
    """
    wait(ours())
    wait(ours())
    mine, theirs = [], []
    start = time.perf_counter()
    while len(mine) < min_rounds or time.perf_counter() - start < seconds:
        mine.append(timed(ours))
        theirs.append(peer.time(times))
    return np.array(mine), np.array(theirs)
