"""This checkout against another one: `python -m benchmarks.versions FOLDER`.

Both run in processes of their own, in turns, with the same steps: training by estimator,
samples with their gradient, requests to an exported encoder. For the last release:

    git worktree add ../release <its commit>
    python -m benchmarks.versions ../release
"""

import argparse
import os
import pathlib
import sys
import tempfile

import numpy as np

from benchmarks.peers.process import Peer
from benchmarks.report import Figure, markdown
from benchmarks.sampling import SHAPES
from benchmarks.serving import BATCHES

CASES = {
    "estimators": [("fit", name, True) for name in ("STGS", "GST-1.0", "IGR", "GR-MC100")],
    "fit": [("fit", "STGS", False), ("fit", "GST-1.0", False)],
    "sampling": [("sample", shape) for shape in SHAPES],
    "serving": [("requests", batch) for batch in BATCHES],
}


def start(checkout, folder):
    """A process that imports `tfconcrete` from a checkout, and all else from this one."""
    folder.mkdir()
    (folder / "tfconcrete").symlink_to((checkout / "tfconcrete").resolve())
    here = pathlib.Path(__file__).parents[1]
    path = os.pathsep.join(map(str, (folder, here)))
    return Peer("tfconcrete", sys.executable, PYTHONPATH=path)


def compare(peers, case, seconds, min_rounds=9):
    """Time of the first peer over that of the second, in turns of alternating order."""
    for peer in peers:
        peer.make(*case)
    taken = []
    while len(taken) < min_rounds or np.sum(taken) < seconds:
        order = (0, 1) if len(taken) % 2 else (1, 0)
        turn = {index: peers[index].time() for index in order}
        taken.append([turn[0], turn[1]])
    ours, theirs = np.median(taken, axis=0)
    low, high = np.quantile(np.divide(*np.transpose(taken)), [0.25, 0.75])
    note = f"{ours * 1e3:.3g} ms, quarters {low:.2f} to {high:.2f}"
    what = " ".join(map(str, case))
    return Figure(f"{what}, time against the other", float(ours / theirs), 1.02, False, note=note)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("checkout", type=pathlib.Path, help="folder of the other version")
    options.add_argument("--sections", nargs="+", choices=CASES, default=list(CASES))
    options.add_argument("--seconds", type=float, default=20.0, help="of each comparison")
    settings = options.parse_args()
    if not (settings.checkout / "tfconcrete").is_dir():
        options.error(f"there is no tfconcrete in {settings.checkout}")
    here = pathlib.Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        both = ((here, "ours"), (settings.checkout, "theirs"))
        peers = [start(checkout, pathlib.Path(folder) / name) for checkout, name in both]
        for section in settings.sections:
            figures = [compare(peers, case, settings.seconds) for case in CASES[section]]
            print(markdown(section, figures), flush=True)
        for peer in peers:
            peer.close()


if __name__ == "__main__":
    main()
