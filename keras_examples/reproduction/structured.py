"""Structured prediction: Figure 4 of the Concrete paper, Table 3 of the IGR paper."""

import argparse
import functools

from keras_examples import structured_prediction
from keras_examples.reproduction.figures import integrality_figure
from keras_examples.reproduction.tables import Experiment, Row, Table
from keras_examples.units import Units

BATCH, WIDTH = 64, 240
RATE = 1e-3  # 3e-4 in the paper, for 10^7 steps


@functools.lru_cache(maxsize=1)
def _experiment(data_dir, smoke, num_samples, seed):
    settings = argparse.Namespace(
        data_dir=data_dir,
        smoke=smoke,
        num_samples=num_samples,
        seed=seed,
        width=WIDTH,
        learning_rate=RATE,
    )
    return structured_prediction.Experiment(settings)


def train_predictor(cell, context):
    """The lower half of a digit from its upper half, through layers of 240 units."""
    settings = cell.settings
    experiment = _experiment(context.data_dir, context.smoke, settings["num_samples"], cell.seed)
    units = Units(settings["relaxation"], settings["classes"], settings["temperature"])
    model = experiment.fit(units, settings["depth"], cell.length, context.callbacks())
    losses = model.evaluate(*experiment.test, batch_size=500, verbose=0, return_dict=True)
    return {
        "discrete": experiment.likelihood(model, experiment.test),
        "train": experiment.likelihood(model, experiment.train),
        "relaxed": losses["loss"] - losses["discretization_gap"],
        "discrete_one": losses["loss"],
        "steps": cell.length * -(-len(experiment.train[0]) // BATCH),
        "images": len(experiment.train[0]),
        "learning_rate": RATE,
    }


EXPERIMENTS = {"structured": Experiment(train_predictor)}


def _row(label, paper, relaxation, classes, temperature, depth, num_samples):
    options = {
        "relaxation": relaxation,
        "classes": classes,
        "temperature": temperature,
        "depth": depth,
        "num_samples": num_samples,
    }
    return Row(label, options, paper)


def _figure_rows():
    yield _row("2 layers m=1", 58.5, "concrete", 2, 0.667, 2, 1)
    yield _row("2 layers m=5", 54.3, "concrete", 2, 0.667, 2, 5)
    yield _row("3 layers m=1", 56.3, "concrete", 2, 0.667, 3, 1)
    yield _row("3 layers m=5", 52.7, "concrete", 2, 0.667, 3, 5)
    yield _row("2 layers 4-ary", 55.4, "concrete", 4, 1.0, 2, 1)
    yield _row("2 layers 8-ary", 54.7, "concrete", 8, 0.667, 2, 1)
    for temperature in (0.1, 0.25, 0.5, 1.0, 2.0, 4.0):
        yield _row(f"3 layers at {temperature:g}", None, "concrete", 2, temperature, 3, 1)


_LENGTHS = {"short": 5, "paper": 12_800}
_COLUMNS = {"discrete -L_1": "discrete_one", "train": "train"}
_ABOUT = (
    "Negative log-likelihood by L_100 of 1,000 images (discrete; the column train: of training "
    "images); relaxed: -L_1 of the relaxed network. Learning rate 1e-3, the paper's 10^7 steps "
    "have 3e-4."
)
IGR_TABLE = Table(
    "igr-table3",
    "IGR, Table 3: structured prediction",
    "structured",
    (
        _row("IGR 0.5", 62.84, "igr", 2, 0.5, 2, 1),
        _row("GS 0.67", 64.68, "concrete", 2, 0.667, 2, 1),
        _row("IGR 0.1", 67.26, "igr", 2, 0.1, 2, 1),
        _row("GS 0.25", 69.28, "concrete", 2, 0.25, 2, 1),
    ),
    {"short": 5, "paper": 100},
    columns=_COLUMNS,
    about=_ABOUT,
)
CONCRETE_TABLE = Table(
    "concrete-figure4",
    "Concrete, Figure 4: structured prediction, the integrality gap",
    "structured",
    tuple(_figure_rows()),
    _LENGTHS,
    columns=_COLUMNS,
    about=_ABOUT,
    draw=integrality_figure,
)
