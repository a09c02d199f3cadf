"""Maddison, Mnih & Teh (2017): density estimation and structured prediction."""

import argparse
import functools

import keras
import numpy as np

import tfconcrete as tfc
from keras_examples import density_estimation
from keras_examples.reproduction import structured
from keras_examples.reproduction.figures import by_steps
from keras_examples.reproduction.tables import Experiment, Row, Table

BATCH = 64
RATE = 1e-3
SAMPLES = 1_000  # of the reported bound
IMAGES, CURVE_IMAGES = 1_000, 200
POINTS = 8


@functools.lru_cache(maxsize=1)
def _images(data_dir, smoke):
    return density_estimation.load(
        argparse.Namespace(data_dir=data_dir, smoke=smoke, dataset="mnist")
    )


class FollowLikelihood(keras.callbacks.Callback):
    """The discrete -L_1000 of some test images along a run.

    Args:
        images: `[n, 784]`.
        at: epochs after which to measure.
    """

    def __init__(self, images, at):
        super().__init__()
        self.images, self.at = images, set(at)
        self.values = {"epoch": [], "discrete": []}

    def on_epoch_end(self, epoch, logs=None):
        if epoch + 1 in self.at:
            self.values["epoch"].append(epoch + 1)
            self.values["discrete"].append(likelihood(self.model, self.images))


def likelihood(model, images, samples=SAMPLES):
    return -float(np.mean(model.log_likelihood(images, samples, seed=0, verbose=0)))


def train_density(cell, context):
    """A network of binary or n-ary units on fixed binarized MNIST."""
    images, validation, test = _images(context.data_dir, context.smoke)
    settings = argparse.Namespace(
        **cell.settings,
        seed=cell.seed,
        epochs=cell.length,
        learning_rate=RATE,
        smoke=context.smoke,
        temperature=None,
        prior_temperature=None,
    )
    keras.utils.set_random_seed(cell.seed)
    model = density_estimation.build_model(settings, tfc.objectives.base_rate_bias(images))
    at = np.unique(np.geomspace(1, cell.length, POINTS).round().astype(int))
    follow = FollowLikelihood(test[:CURVE_IMAGES], at)
    history = density_estimation.train(
        model, settings, images, validation, [follow, *context.callbacks()], verbose=0
    )
    trained = len(history["loss"])
    losses = model.evaluate(test, batch_size=500, verbose=0, return_dict=True)
    return {
        "discrete": likelihood(model, test[:IMAGES]),
        "train": likelihood(model, images[:IMAGES]),
        "bound": losses["loss"],
        "relaxed": losses["loss"] - losses.get("discretization_gap", 0.0),
        "steps": trained * -(-len(images) // BATCH),
        "images": len(images),
        "learning_rate": RATE,
        "history": {**follow.values, "loss": history["loss"], "val_loss": history["val_loss"]},
    }


EXPERIMENTS = {"density": Experiment(train_density)}


def _row(model, classes, num_samples, estimator):
    kind = "concrete" if estimator == "concrete" else "score"
    paper = density_estimation.PAPER[model][kind].get((classes, num_samples), (None, None))
    name = estimator.upper() if kind == "score" else "Concrete"
    arity = "" if classes == 2 else f" {classes}-ary"
    options = {
        "model": model,
        "classes": classes,
        "num_samples": num_samples,
        "estimator": estimator,
    }
    return Row(f"{model}{arity} m={num_samples} {name}", options, paper[0])


def _by_model(row):
    """The panel of a row of Table 1, and its line."""
    model, m, name = row.label.split(" ")
    return f"({model}), {m}", name


def _by_arity(row):
    """The panel of a row of Table 2, and its line."""
    classes, m = row.options["classes"], row.options["num_samples"]
    return f"({row.options['model']}), m={m}", "binary" if classes == 2 else f"{classes}-ary"


def _curves(split):
    label = "-L_1000 of 200 test images, nats"
    return by_steps("discrete", label, split, logarithmic="x", paper_at=10**7)


def _best_epoch(result):
    """The epoch whose weights early stopping has restored; None for Concrete, which has none."""
    if result["options"]["estimator"] == "concrete":
        return None
    return 1 + int(np.argmin(result["history"]["val_loss"]))


_MODELS = ("200H~784V", "200H~200H~784V", "200H-784V", "200H-200H-784V")
_LENGTHS = {"short": 5, "paper": 12_800}
_COMMON = {
    "experiment": "density",
    "lengths": _LENGTHS,
    "columns": {"train": "train", "discrete L_m": "bound", "weights of epoch": _best_epoch},
    "about": "Test NLL by L_1000 of 1,000 images (the paper: L_50,000, all images, after 10^7 "
    "steps); relaxed and L_m: the bounds that training and evaluation have, on all test images. "
    "Learning rate 1e-3, the paper's is 3e-4 (linear) or 1e-4. Temperatures of posterior and prior "
    "as in the paper: 2/3 and 1/2 binary, 1 and 2/3 4-ary, 2/3 and 2/5 8-ary. weights of epoch: of "
    "NVIL and VIMCO, the best one by the validation bound; they stop after 20 epochs without a "
    "better one (the paper does not say after how many).",
}
TABLES = (
    Table(
        "concrete-table1",
        "Concrete, Table 1: density estimation, binary units",
        rows=tuple(
            _row(model, 2, m, estimator)
            for m, score in ((1, "nvil"), (5, "vimco"))
            for model in _MODELS
            for estimator in ("concrete", score)
        ),
        draw=_curves(_by_model),
        **_COMMON,
    ),
    Table(
        "concrete-table2",
        "Concrete, Table 2: density estimation, n-ary units",
        rows=tuple(
            _row("240H~784V", classes, m, "concrete") for m in (1, 5) for classes in (2, 4, 8)
        ),
        draw=_curves(_by_arity),
        **_COMMON,
    ),
    structured.CONCRETE_TABLE,
)
