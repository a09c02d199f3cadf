"""PyTorch's side of a comparison, in a process of its own.

Torch and TensorFlow fight over threads in one process, so the peer runs in a second one
and takes its turns over a pipe. The interpreter is this one where it can import torch, or
the one that TORCH_PYTHON names; without either there are no PyTorch columns.
"""

import contextlib
import os
import subprocess
import sys

import numpy as np

_SERVER = r"""
import json, sys, time
import torch
import torch.nn.functional as F

torch.manual_seed(0)


def gumbel_softmax(shape, compiled):
    logits = torch.randn(*shape)
    weight = torch.randn(*shape)

    def loss(x):
        return (weight * F.gumbel_softmax(x, tau=0.5)).sum()

    run = torch.compile(loss) if compiled else loss

    def step():
        x = logits.detach().requires_grad_()
        run(x).backward()
        return x.grad

    return step


def vae_step(batch, compiled):
    encoder = torch.nn.Sequential(
        torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256), torch.nn.ReLU(),
        torch.nn.Linear(256, 300), torch.nn.ReLU(),
    )
    decoder = torch.nn.Sequential(
        torch.nn.Linear(300, 256), torch.nn.ReLU(), torch.nn.Linear(256, 512), torch.nn.ReLU(),
        torch.nn.Linear(512, 784),
    )
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    x = torch.rand(batch, 784)

    def loss(x):
        logits = encoder(x).view(-1, 30, 10)
        z = F.gumbel_softmax(logits, tau=0.5, hard=True).view(-1, 300)
        fit = F.binary_cross_entropy_with_logits(decoder(z), x, reduction="sum")
        log_q = F.log_softmax(logits, -1)
        kl = (log_q.exp() * (log_q + torch.log(torch.tensor(10.0)))).sum()
        return (fit + kl) / x.shape[0]

    run = torch.compile(loss) if compiled else loss

    def step():
        optimizer.zero_grad()
        run(x).backward()
        optimizer.step()

    return step


makers = {"gumbel_softmax": gumbel_softmax, "vae_step": vae_step}
step = None
print("ready", flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if "make" in request:
        step = makers[request["make"]](*request["arguments"])
        step(), step()
        print("made", flush=True)
    else:
        step()
        start = time.perf_counter()
        for _ in range(request["times"]):
            step()
        print(time.perf_counter() - start, flush=True)
"""


def interpreter():
    """A Python that can import torch, or None."""
    candidates = [os.environ.get("TORCH_PYTHON"), sys.executable]
    for candidate in filter(None, candidates):
        found = subprocess.run([candidate, "-c", "import torch"], capture_output=True, check=False)
        if found.returncode == 0:
            return candidate
    return None


class TorchPeer:
    """A running PyTorch process: `make` a step, then `time` it, in turns with ours."""

    def __init__(self, python):
        self._process = subprocess.Popen(
            [python, "-c", _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._read("ready")

    def _read(self, expected=None):
        line = self._process.stdout.readline().strip()
        if not line or (expected and line != expected):
            raise RuntimeError(f"the PyTorch process answered {line!r}")
        return line

    def _ask(self, **request):
        import json

        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def make(self, name, *arguments):
        self._ask(make=name, arguments=arguments)
        self._read("made")

    def time(self, times=1):
        self._ask(times=times)
        return float(self._read())

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=30)


@contextlib.contextmanager
def torch_peer():
    """The peer, or None where no interpreter has torch."""
    python = interpreter()
    if python is None:
        yield None
        return
    peer = TorchPeer(python)
    try:
        yield peer
    finally:
        peer.close()


def interleaved_with(peer, ours, seconds=3.0, times=1, min_rounds=7):
    """Turns between `ours` (a callable) and the peer's current step; medians' ratio."""
    import time

    from benchmarks.timing import timed, wait

    wait(ours())
    wait(ours())
    mine, theirs = [], []
    start = time.perf_counter()
    while len(mine) < min_rounds or time.perf_counter() - start < seconds:
        mine.append(timed(ours))
        theirs.append(peer.time(times))
    return float(np.median(theirs) / np.median(mine))
