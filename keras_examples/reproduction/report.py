"""The course report on the Concrete paper: temperatures, fixed and annealed."""

import functools

import numpy as np

import tfconcrete as tfc
from keras_examples import datasets, temperature_study
from keras_examples.reproduction.cells import packed
from keras_examples.reproduction.report_figures import annealing_figures, temperature_figures
from keras_examples.reproduction.tables import Experiment, Row, Table

BATCH = 100
TEST_IMAGES = 1_000


@functools.lru_cache(maxsize=1)
def images(data_dir, smoke=False):
    (train, _), (test, labels) = datasets.load_images("mnist", data_dir=data_dir, smoke=smoke)
    return train, test[:TEST_IMAGES], labels[:TEST_IMAGES]


@functools.lru_cache(maxsize=1)
def _study(data_dir, smoke, epochs, seed):
    return temperature_study.Study(*images(data_dir, smoke), epochs, seed)


def train_small(cell, context):
    """Two variables of ten classes, under one schedule of the temperature."""
    initial, rate, minimum = (cell.settings[name] for name in ("initial", "rate", "minimum"))
    study = _study(context.data_dir, context.smoke, cell.length, cell.seed)
    schedule = tfc.schedules.Constant(initial)
    if rate:
        schedule = tfc.schedules.ExponentialAnnealing(initial, minimum, rate)
    run = study.run("", schedule, context.callbacks())
    first, last = min(run.snapshots), max(run.snapshots)
    result = {
        "discrete": run.evaluation["loss"],
        "relaxed": run.evaluation["loss"] - run.evaluation["discretization_gap"],
        "train_first": run.history["loss"][0],
        "train_last": run.history["loss"][-1],
        "squared_error": run.evaluation["squared_error"],
        "codes": run.used_codes,
        "within": run.intra,
        "between": run.inter,
        "steps": cell.length * -(-len(study.train) // BATCH),
        "images": len(study.train),
        "history": {name: run.history[name] for name in ("loss", "temperature")},
        "data": packed(study.test[: temperature_study.SHOWN]),
        "reconstructions": packed(run.reconstructions),
    }
    if (initial, rate) == (BASELINE, 0.0):
        result["code_images"] = packed(study.all_codes())
        result["snapshots"] = {
            epoch: packed(decoded) for epoch, (decoded, _) in run.snapshots.items()
        }
        result["latents"] = {epoch: packed(run.snapshots[epoch][1]) for epoch in {first, last}}
        result["labels"] = np.asarray(study.labels).tolist()
    return result


EXPERIMENTS = {"report_vae": Experiment(train_small)}
BASELINE = 0.667


def _row(initial, rate=0.0, minimum=0.0):
    minimum_label = "2/3" if minimum == BASELINE else f"{minimum:g}"
    label = f"fixed {'2/3' if initial == BASELINE else f'{initial:g}'}"
    if rate:
        label = f"{initial:g} to {minimum_label} rate {rate:g}"
    return Row(label, {"initial": initial, "rate": rate, "minimum": minimum})


_COLUMNS = {
    "train, first epoch": "train_first",
    "train, last": "train_last",
    "squared error": "squared_error",
    "codes used": "codes",
    "within classes": "within",
    "between classes": "between",
}
_LENGTHS = {"short": 10, "paper": 70}
TABLES = (
    Table(
        "report-temperatures",
        "Report, 4.1 and 4.2: fixed temperatures",
        "report_vae",
        tuple(_row(t) for t in (0.05, 0.3, BASELINE, 0.8, 1.0, 2.0, 5.0)),
        _LENGTHS,
        columns=_COLUMNS,
        draw=temperature_figures,
        about="Losses in nats on 1,000 test images; the report has curves only. squared error: of "
        "the argmax reconstruction, per image. within, between classes: distances of relaxed "
        "latents. The report names no networks and no optimizer: 256 and 128 units, Adam 1e-3, "
        "batches of 100.",
    ),
    Table(
        "report-annealing",
        "Report, 4.3: annealing",
        "report_vae",
        (
            _row(BASELINE),
            *(
                _row(initial, rate, minimum if minimum == 0.3 else BASELINE)
                for initial, rate, minimum in temperature_study.ANNEALING
            ),
        ),
        _LENGTHS,
        columns=_COLUMNS,
        draw=annealing_figures,
        about="max(minimum, initial * exp(-rate * epoch)) against the fixed 2/3. The report has no "
        "start for the rate of 0.003: 1.",
    ),
)
