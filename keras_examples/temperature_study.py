"""What the temperature does to a discrete VAE: values, distances, annealing.

Title: Temperatures, fixed and annealed
Reference: Maddison, Mnih & Teh (2017), section 3.3 and Appendix C.4; a course report on it
that compares temperatures from 0.05 to 5 and annealing schedules on MNIST.

Every digit becomes two variables of ten classes, so that all 100 codes can be decoded and
looked at. One model is trained again and again from the same weights on the relaxed bound
(Eq. 20), only its temperature differs: fixed, or annealed as max(minimum, initial *
exp(-rate * epoch)). The temperature is a weight of the sampling layer, set by a callback,
so all runs share one compiled training step.

Three questions: what do the codes mean, and how do they come about (at 2/3)? Which fixed
temperature is best, and for what? Does annealing help?
"""

import dataclasses

import keras
import matplotlib.pyplot as plt
import numpy as np

import tfconcrete as tfc
from keras_examples import architectures, common, datasets

BASELINE = 2 / 3
TEMPERATURES = (0.05, 0.3, BASELINE, 0.8, 1.0, 2.0, 5.0)
# (initial, rate, minimum). Minima that no epoch reaches would make the same run again.
ANNEALING = (
    (10.0, 0.3, BASELINE),
    (10.0, 0.3, 0.3),
    (5.0, 0.03, BASELINE),
    (5.0, 0.03, 0.3),
    (10.0, 0.03, BASELINE),
    (1.0, 0.003, BASELINE),
)
SHOWN = 12


@dataclasses.dataclass
class Run:
    """What is kept of one training run."""

    name: str
    history: dict
    evaluation: dict
    snapshots: dict
    reconstructions: np.ndarray
    used_codes: int
    intra: float
    inter: float


class Snapshots(keras.callbacks.Callback):
    """Keeps reconstructions and relaxed latents of some images at the end of some epochs."""

    def __init__(self, images, epochs):
        super().__init__()
        self.images = images
        self.epochs = set(epochs)
        self.taken = {}

    def on_epoch_end(self, epoch, logs=None):
        if epoch + 1 in self.epochs:
            decoded = self.model.decode(self.model.encode(self.images[:SHOWN]))
            self.taken[epoch + 1] = decoded, relaxed_latents(self.model, self.images)


def relaxed_latents(model, images):
    """Relaxed samples for images, `[n, 20]`; the noise of training is left as it was."""
    with tfc.layers.preserved_state(model):
        sample = model.latent(model.encoder(images), training=True)
    return np.reshape(sample, [len(images), -1])


def class_distances(points, labels):
    """How far points are from the centre of their class, and the centres from each other."""
    classes = np.unique(labels)
    centres = np.stack([points[labels == label].mean(0) for label in classes])
    own = centres[np.searchsorted(classes, labels)]
    intra = np.linalg.norm(points - own, axis=-1)
    intra = np.mean([intra[labels == label].mean() for label in classes])
    between = np.linalg.norm(centres[:, None] - centres, axis=-1)
    return float(intra), float(between[np.triu_indices(len(classes), 1)].mean())


def principal_components(points):
    """The first two principal components `[n, 2]`, and their shares of the variance."""
    centred = points - points.mean(0)
    _, values, directions = np.linalg.svd(centred, full_matrices=False)
    return centred @ directions[:2].T, values[:2] ** 2 / np.sum(values**2)


class Study:
    """One compiled model, trained from the same start under one temperature after another."""

    def __init__(self, train, test, labels, epochs, seed):
        self.train, self.test, self.labels = train, test, labels
        self.epochs, self.seed = epochs, seed
        self.snapshot_epochs = sorted({1, *np.geomspace(1, epochs, 5).round().astype(int)})
        keras.utils.set_random_seed(seed)
        encoder, decoder = architectures.two_code_pair()
        latent = tfc.ConcreteSample(BASELINE, seed=seed, name="z")
        self.model = tfc.models.DiscreteVAE(encoder, decoder, latent)
        self.model.compile(keras.optimizers.Adam(1e-3), jit_compile=True, steps_per_execution=20)
        self.model.optimizer.build(self.model.trainable_variables)
        self.variables = self.model.variables + self.model.optimizer.variables
        self.start = [variable.numpy() for variable in self.variables]

    def run(self, name, schedule, callbacks=None):
        """Trains and measures one run, from the weights and the noise of all others."""
        for variable, value in zip(self.variables, self.start, strict=True):
            variable.assign(value)
        keras.utils.set_random_seed(self.seed)
        snapshots = Snapshots(self.test, self.snapshot_epochs)
        if callbacks is None:
            callbacks = [common.RunProgress(name)]
        history = self.model.fit(
            self.train,
            batch_size=100,
            epochs=self.epochs,
            verbose=0,
            callbacks=[
                tfc.callbacks.TemperatureScheduler(schedule),
                snapshots,
                *callbacks,
            ],
        )
        evaluation = self.model.evaluate(self.test, batch_size=500, return_dict=True, verbose=0)
        codes = self.model.encode(self.test)
        decoded = self.model.decode(codes)
        evaluation["squared_error"] = float(np.mean((decoded - self.test) ** 2) * 28 * 28)
        intra, inter = class_distances(snapshots.taken[self.epochs][1], self.labels)
        return Run(
            name,
            history.history,
            evaluation,
            snapshots.taken,
            decoded[:SHOWN],
            len(np.unique(codes, axis=0)),
            intra,
            inter,
        )

    def all_codes(self):
        """What each of the 100 codes decodes to, `[10, 10, 28, 28]`."""
        codes = np.stack(np.meshgrid(np.arange(10), np.arange(10), indexing="ij"), -1)
        return self.model.decode(codes.reshape([100, 2])).reshape([10, 10, 28, 28])


def stacked_rows(rows, title):
    """One row of images under another, each with its name."""
    size = (0.62 * SHOWN, 0.85 * len(rows) + 0.4)
    figure, axes = plt.subplots(len(rows), figsize=size, layout="constrained", squeeze=False)
    for ax, (name, images) in zip(axes[:, 0], rows.items(), strict=True):
        tfc.plots.image_grid(images, SHOWN, ax)
        ax.set_title(name, fontsize=9, loc="left", pad=2)
    figure.suptitle(title)
    return figure


def draw_baseline(run, codes, images, labels):
    """All codes; reconstructions by epoch; the latents' principal components, first and last."""
    figures = {"temperature_codes": tfc.plots.code_grid(codes, title="all 100 codes, decoded")}
    rows = {"data": images[:SHOWN]}
    rows.update({f"epoch {epoch}": decoded for epoch, (decoded, _) in run.snapshots.items()})
    figures["temperature_by_epoch"] = stacked_rows(rows, "argmax reconstructions by epoch")
    first, last = min(run.snapshots), max(run.snapshots)
    panels = [first, last] if first < last else [last]
    figure, axes = plt.subplots(
        1, len(panels), figsize=(5.2 * len(panels), 4.8), layout="constrained", squeeze=False
    )
    for ax, epoch in zip(axes[0], panels, strict=True):
        points, shares = principal_components(run.snapshots[epoch][1])
        tfc.plots.class_scatter(
            points,
            labels,
            ax,
            f"epoch {epoch}",
            f"first component, {shares[0]:.0%} of the variance",
            f"second, {shares[1]:.0%}",
        )
    figure.suptitle("relaxed latents of test digits at temperature 2/3, principal components")
    figures["temperature_pca"] = figure
    return figures


def draw_losses(runs, ax):
    """Training losses by epoch; the first one, far above the others, may leave the axes."""
    tfc.plots.curves(
        {run.name: run.history["loss"] for run in runs},
        ax,
        "training loss (relaxed)",
        ylabel="nats",
    )
    later = np.concatenate([run.history["loss"][1:] for run in runs])
    if len(later) > 3 * len(runs):
        ax.set_ylim(top=later.max() + 0.1 * np.ptp(later))


def draw_temperatures(runs, images):
    """Losses by epoch; losses and distances by temperature; reconstructions."""
    temperatures = list(runs)
    figure, axes = plt.subplots(1, 3, figsize=(14, 3.8), layout="constrained")
    draw_losses(runs.values(), axes[0])
    last = [run.history["loss"][-1] for run in runs.values()]
    tfc.plots.curves(
        {
            "training loss, first epoch": (
                temperatures,
                [run.history["loss"][0] for run in runs.values()],
            ),
            "training loss, last epoch": (temperatures, last),
            "discrete test loss": (
                temperatures,
                [run.evaluation["loss"] for run in runs.values()],
            ),
        },
        axes[1],
        "losses by temperature",
        "temperature",
        "nats",
    )
    tfc.plots.curves(
        {
            "within a class": (temperatures, [run.intra for run in runs.values()]),
            "between classes": (temperatures, [run.inter for run in runs.values()]),
        },
        axes[2],
        "distances of relaxed latents",
        "temperature",
        "Euclidean distance",
    )
    for ax in axes[1:]:
        ax.set_xscale("log")
        ax.set_xticks(temperatures, [f"{t:.2g}" for t in temperatures], fontsize=8, rotation=60)
        ax.minorticks_off()
    axes[2].set_ylim(bottom=0)
    rows = {"data": images[:SHOWN]}
    rows.update({run.name: run.reconstructions for run in runs.values()})
    return {
        "temperature_values": figure,
        "temperature_reconstructions": stacked_rows(rows, "argmax reconstructions"),
    }


def draw_annealing(baseline, runs, images):
    """Loss and temperature by epoch against the fixed baseline; reconstructions."""
    runs = [baseline, *runs]
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.2), layout="constrained")
    for ax in axes:
        # Broken lines later: schedules with one start are one line until they part.
        ax.set_prop_cycle(
            color=plt.get_cmap("tab10").colors[:8], linestyle=["-", "--", "-.", ":"] * 2
        )
    draw_losses(runs, axes[0])
    tfc.plots.curves(
        {run.name: run.history["temperature"] for run in runs},
        axes[1],
        "temperature (colours as on the left)",
        logarithmic=True,
    )
    axes[1].get_legend().remove()
    axes[1].yaxis.set_major_formatter("{x:g}")
    rows = {"data": images[:SHOWN]}
    rows.update({run.name: run.reconstructions for run in runs})
    return {
        "annealing": figure,
        "annealing_reconstructions": stacked_rows(rows, "argmax reconstructions"),
    }


def table_row(run):
    loss, test = run.history["loss"], run.evaluation
    return (
        run.name,
        loss[0],
        loss[-1],
        test["loss"],
        test["discretization_gap"],
        test["reconstruction"],
        test["squared_error"],
        run.used_codes,
        run.intra,
        run.inter,
    )


HEADER = (
    "temperature",
    "train, first epoch",
    "train, last",
    "test, discrete",
    "gap",
    "reconstruction",
    "squared error",
    "codes used",
    "within classes",
    "between classes",
)
NOTE = """\
Losses in nats. train: the relaxed bound. test: the discrete bound with exact one-hot draws; gap:
by how much it exceeds the relaxed one. reconstruction: its first term. squared error: of
the argmax reconstruction, per image. codes used: of 100, by the argmax on the test set.
within, between classes: mean distances of relaxed latents to the centre of their digit, and of
the ten centres to each other."""


def label(temperature):
    return "2/3" if abs(temperature - BASELINE) < 1e-6 else f"{temperature:g}"


def choose(settings):
    """`{temperature: (name, schedule)}` of the fixed runs, `[(name, schedule)]` of the others."""
    temperatures = sorted({BASELINE, *settings.temperatures})
    if settings.smoke:
        temperatures = sorted({min(temperatures), BASELINE, max(temperatures)})
    fixed = {t: (f"fixed {label(t)}", tfc.schedules.Constant(t)) for t in temperatures}
    annealed = {}
    for initial, rate, minimum in () if settings.no_annealing else ANNEALING:
        schedule = tfc.schedules.ExponentialAnnealing(initial, minimum, rate)
        name = f"{initial:g} to {label(minimum)}, rate {rate:g}"
        path = tuple(float(schedule(epoch)) for epoch in range(settings.epochs))
        annealed.setdefault(path, (name, schedule))
    return fixed, list(annealed.values())


def main(arguments=None):
    options = common.parser(__doc__, epochs=70, data=True)
    options.add_argument(
        "--temperatures",
        type=common.positive,
        nargs="+",
        default=TEMPERATURES,
        help="fixed temperatures to compare; 2/3 is always among them",
    )
    options.add_argument("--no-annealing", action="store_true", help="leave out annealing runs")
    settings = common.parse(options, arguments)
    settings.epochs = 2 if settings.smoke else settings.epochs
    data_dir = datasets.data_directory(settings.data_dir)
    (train, _), (test, labels) = datasets.load_images(
        "mnist", data_dir=data_dir, smoke=settings.smoke
    )
    test, labels = test[:1_000], labels[:1_000]
    fixed, annealed = choose(settings)
    study = Study(train, test, labels, settings.epochs, settings.seed)

    runs = {}
    for temperature, (name, schedule) in fixed.items():
        runs[temperature] = study.run(name, schedule)
        if temperature == BASELINE:
            codes = study.all_codes()
    baseline = runs[BASELINE]
    annealing_runs = [study.run(name, schedule) for name, schedule in annealed]

    figures = draw_baseline(baseline, codes, test, labels)
    figures.update(draw_temperatures(runs, test))
    if annealing_runs:
        figures.update(draw_annealing(baseline, annealing_runs, test))
    paths = [common.save_figure(figure, settings.output, name) for name, figure in figures.items()]
    rows = [table_row(run) for run in (*runs.values(), *annealing_runs)]
    title = f"Temperatures of a discrete VAE with 2 x 10 codes, {study.epochs} epochs"
    path = common.write_table(settings.output / "temperature_study.md", title, HEADER, rows, NOTE)
    print("wrote " + ", ".join(str(path) for path in [*paths, path]))
    print(
        "look at: temperature_codes.png for what the codes mean; temperature_values.png, where "
        "warm models have low training losses, high discrete ones, and classes close together; "
        "in the table, whether any annealed run beats the fixed 2/3 on the discrete test loss"
    )


if __name__ == "__main__":
    main()
