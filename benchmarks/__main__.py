"""All benchmarks in one run: `python -m benchmarks`, or `make bench`.

Every figure is a ratio of medians from interleaved runs. Prints Markdown as it goes and
writes `<output>/benchmarks.md` and `<output>/benchmarks.json`. With `--device GPU` (or
`make bench-gpu`) everything runs there and is compared with the CPU: `benchmarks/devices.py`.
"""

import argparse
import functools
import pathlib

from benchmarks import (
    against_peers,
    devices,
    likelihood,
    report,
    sampling,
    serving,
    side_roads,
    subsets,
    training,
    trees,
)
from benchmarks.peers.process import running_peers

SECTIONS = {
    "sampling": lambda peers: [*sampling.relaxed(), *sampling.binary()],
    "peers": lambda peers: [*against_peers.sampling(peers), *against_peers.forward(peers)],
    "log_prob": lambda peers: sampling.log_prob(),
    "loops": lambda peers: sampling.loops(),
    "hard": lambda peers: sampling.hard(),
    "growth": lambda peers: [*sampling.growth(), *sampling.memory()],
    "subsets": lambda peers: subsets.against_concrete(),
    "estimators": lambda peers: [*training.estimators(), *training.gumbel_rao()],
    "fit": lambda peers: [*training.framework(), *against_peers.training(peers)],
    "arrays": lambda peers: side_roads.arrays(),
    "functional": lambda peers: side_roads.functional(),
    "generation": lambda peers: side_roads.generation(),
    "igr_bound": lambda peers: side_roads.igr_bound(),
    "pipelines": lambda peers: side_roads.pipelines(),
    "first_step": side_roads.first_step,
    "trees": lambda peers: [*trees.compiled(), *trees.growth(), *trees.estimators()],
    "likelihood": lambda peers: [*likelihood.throughput(), *likelihood.memory()],
    "import": lambda peers: training.import_time(),
    "serving": lambda peers: [*serving.latency(), *serving.size()],
}


def main():
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [*SECTIONS, *devices.OWN_SECTIONS]
    options.add_argument("sections", nargs="*", help=f"of {', '.join(names)} (default: all)")
    options.add_argument("--device", choices=devices.NAMES, help="where to run all of it")
    options.add_argument("--quick", action="store_true", help="fewer cases of --device's sections")
    options.add_argument("--output", type=pathlib.Path, default=pathlib.Path("output"))
    settings = options.parse_args()
    known = names if settings.device else SECTIONS
    unknown = set(settings.sections) - set(known)
    if unknown:
        options.error(f"unknown section {', '.join(sorted(unknown))}")
    chosen = settings.sections or list(known)
    settings.output.mkdir(parents=True, exist_ok=True)
    if settings.device:
        try:
            devices.check(settings.device)
        except ValueError as error:
            options.error(str(error))
        with running_peers() as peers:
            bound = {name: functools.partial(run, peers) for name, run in SECTIONS.items()}
            print(devices.run(settings.device, chosen, bound, settings.output, settings.quick))
        return
    measured, tables = {}, []
    with running_peers() as peers:
        for name in chosen:
            measured[name] = list(SECTIONS[name](peers))
            tables.append(report.markdown(name, measured[name]))
            print(tables[-1], flush=True)
    (settings.output / "benchmarks.md").write_text("\n".join(tables))
    (settings.output / "benchmarks.json").write_text(report.as_json(measured))


if __name__ == "__main__":
    main()
