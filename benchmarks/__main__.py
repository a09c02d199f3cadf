"""All benchmarks in one run: `python -m benchmarks`, or `make bench`.

Every figure is a ratio of medians from interleaved runs. Prints Markdown as it goes and
writes `<output>/benchmarks.md` and `<output>/benchmarks.json`.
"""

import argparse
import pathlib

from benchmarks import against_torch, likelihood, report, sampling, serving, training
from benchmarks.torch_peer import torch_peer

SECTIONS = {
    "sampling": lambda peer: [*sampling.relaxed(), *sampling.binary()],
    "torch": against_torch.sampling,
    "log_prob": lambda peer: sampling.log_prob(),
    "loops": lambda peer: sampling.loops(),
    "hard": lambda peer: sampling.hard(),
    "growth": lambda peer: [*sampling.growth(), *sampling.memory()],
    "estimators": lambda peer: [*training.estimators(), *training.gumbel_rao()],
    "fit": lambda peer: [*training.framework(), *training.against_torch(peer)],
    "likelihood": lambda peer: [*likelihood.throughput(), *likelihood.memory()],
    "import": lambda peer: training.import_time(),
    "serving": lambda peer: [*serving.latency(), *serving.size()],
}


def main():
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    options.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)} (default: all)")
    options.add_argument("--output", type=pathlib.Path, default=pathlib.Path("output"))
    settings = options.parse_args()
    unknown = set(settings.sections) - set(SECTIONS)
    if unknown:
        options.error(f"unknown section {', '.join(sorted(unknown))}")
    chosen = settings.sections or list(SECTIONS)
    settings.output.mkdir(parents=True, exist_ok=True)
    measured, tables = {}, []
    with torch_peer() as peer:
        for name in chosen:
            measured[name] = list(SECTIONS[name](peer))
            tables.append(report.markdown(name, measured[name]))
            print(tables[-1], flush=True)
    (settings.output / "benchmarks.md").write_text("\n".join(tables))
    (settings.output / "benchmarks.json").write_text(report.as_json(measured))


if __name__ == "__main__":
    main()
