"""Discrete VAEs with IGR latents against the Gumbel-Softmax, at temperatures that compare.

Title: Invertible Gaussian reparameterization
Reference: Potapczynski, Loaiza-Ganem & Cunningham (2020), section 5.2, Appendix C and D.

Four latents of 30 variables with 10 classes each: IGR (Gaussian noise through a softmax++),
IGR-SB (through stick-breaking), IGR-Planar (through learned planar flows) and Concrete, the
Gumbel-Softmax, run in log space as `ExpConcreteSample`. The IGR models know their KL in
closed form, which the Concrete bound has to sample.

The same temperature means different things to different latents, so each gets two of its
own. By vertices: the one at which 75% of the samples from the prior are within 0.2 of a
vertex of the simplex, found by `tfc.calibration` before training. By validation: the one
of a grid with the best discrete bound on held-out images. After training, the distances of
posterior samples tell whether the comparison was fair (Figure 5).
"""

import dataclasses

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from keras_examples import common, datasets, igr_architectures

VARIABLES, CLASSES = 30, 10
NEAR, SHARE = 0.2, 0.75
NAMES = {"igr": "IGR", "igr_sb": "IGR-SB", "igr_planar": "IGR-Planar", "concrete": "Concrete"}
# Test images behind the curves, which need a value for every few epochs.
CURVE_IMAGES = 128
SHOWN = 12


@dataclasses.dataclass
class Run:
    """One trained model and what is known about it."""

    name: str
    chosen_by: str
    temperature: float
    history: dict
    evaluation: dict
    distances: np.ndarray
    reconstructed: np.ndarray
    generated: np.ndarray

    @property
    def label(self):
        return f"{NAMES[self.name]} ({self.temperature:.2g})"

    @property
    def near(self):
        """The share of posterior samples near a vertex."""
        return float(np.mean(self.distances <= NEAR))


def load(settings, held_out=1 / 6):
    """Training, validation and test images, in the size that the architecture takes."""
    *splits, _ = datasets.load_splits(
        settings.dataset,
        datasets.data_directory(settings.data_dir),
        settings.smoke,
        settings.images,
    )
    if settings.binarization == "threshold":
        splits = [np.float32(images >= 0.5) for images in splits]
    train, test = (igr_architectures.fit_images(images, settings.architecture) for images in splits)
    kept = len(train) - max(1, int(len(train) * held_out)) if held_out else len(train)
    if settings.smoke:
        test = test[:32]
    return train[:kept], train[kept:][:CURVE_IMAGES], test


class Experiment:
    """The data and everything that all runs have in common.

    Args:
        settings: what `parse` returns.
        held_out: share of the training images to choose temperatures on.
        likelihood: of grey or coloured images; None for a Gaussian of `settings.scale`.
    """

    def __init__(self, settings, held_out=1 / 6, likelihood=None):
        self.settings = settings
        self.binarize = settings.dataset == "mnist"
        self.train, self.validation, self.test = load(settings, held_out)
        if self.binarize:
            rng = np.random.default_rng(settings.seed)
            self.validation, self.test = (
                np.float32(rng.random(x.shape) < x) for x in (self.validation, self.test)
            )
        self.image_shape = self.train.shape[1:]
        self.likelihood = likelihood or tfc.objectives.Gaussian(settings.scale)
        if self.binarize:
            self.likelihood = tfc.objectives.Bernoulli()

    def latent(self, name, temperature, prior=None):
        settings = self.settings
        return igr_architectures.build_latent(
            name,
            temperature,
            CLASSES,
            settings.delta,
            settings.flows,
            prior=prior,
            seed=settings.seed,
        )

    def vertex_temperature(self, name):
        """Where 75% of the samples from the prior are within 0.2 of a vertex."""
        latent = self.latent(name, 0.1)
        inputs = tf.zeros([CLASSES])
        if name != "concrete":
            inputs = [tf.zeros([CLASSES - 1]), tf.zeros([CLASSES - 1])]
        if name == "igr":
            uniform = np.full(CLASSES, 1 / CLASSES)
            inputs[0] = tfc.calibration.fit_igr_prior(uniform, 0.1, delta=latent.delta).loc
        return tfc.calibration.calibrate_temperature(
            latent, NEAR, SHARE, inputs, num_samples=20_000
        )

    def best_temperature(self, name, grid, epochs):
        """The temperature of a grid with the lowest discrete loss on held-out images."""
        if len(grid) == 1:
            return grid[0]
        losses = {}
        for temperature in grid:
            model = self.model(name, temperature)
            progress = common.RunProgress(f"{NAMES[name]} at {temperature:g}, to be validated")
            self.fit(model, epochs, [progress])
            losses[temperature] = model.evaluate(
                datasets.image_batches(self.validation), verbose=0, return_dict=True
            )["loss"]
            print(f"held-out loss {losses[temperature]:.2f}")
        return min(losses, key=losses.get)

    def model(self, name, temperature, prior=None, reads=None, **options):
        """30 x 10 latents in one of the paper's networks.

        Without a `prior` of an IGR it is uniform, for IGR the Gaussians that round to it;
        IGR-SB and IGR-Planar have standard Gaussians. `reads` is a layer between samples and
        decoder. Further options are those of `DiscreteVAE`.
        """
        settings = self.settings
        keras.utils.set_random_seed(settings.seed)
        heads = igr_architectures.head_shapes(name, VARIABLES, CLASSES)
        outputs = self.likelihood.params_shape((None, *self.image_shape))[1:]
        shape = [VARIABLES, CLASSES]
        encoder = igr_architectures.build_encoder(settings.architecture, self.image_shape, heads)
        decoder = igr_architectures.build_decoder(settings.architecture, outputs, [shape])
        if reads is not None:
            decoder = keras.Sequential([keras.Input(shape), reads, decoder])
        model = tfc.models.DiscreteVAE(
            encoder,
            decoder,
            self.latent(name, temperature, prior),
            self.likelihood,
            **options,
        )
        model.compile(keras.optimizers.Adam(1e-3), steps_per_execution=10)
        return model

    def fit(self, model, epochs, callbacks, **options):
        source = datasets.image_batches(self.train, self.binarize, self.settings.seed)
        return model.fit(
            source, epochs=epochs, shuffle=False, verbose=0, callbacks=callbacks, **options
        )

    def run(self, name, temperature, chosen_by, epochs):
        """Trains a model and measures it on the test images."""
        model = self.model(name, temperature)
        title = f"{NAMES[name]} at {temperature:.3g}, by {chosen_by}"
        history = self.fit(
            model,
            epochs,
            [common.RunProgress(title)],
            validation_data=datasets.image_batches(self.test[:CURVE_IMAGES]),
            validation_freq=max(1, epochs // 6),
        ).history
        evaluation = model.evaluate(datasets.image_batches(self.test), verbose=0, return_dict=True)
        shown = next(iter(datasets.image_batches(self.test, batch_size=SHOWN)))
        return Run(
            name,
            chosen_by,
            temperature,
            history,
            evaluation,
            self.distances(model),
            model.predict(shown, verbose=0),
            model.generate(SHOWN, self.settings.seed),
        )

    def distances(self, model):
        """How far posterior samples of 500 test images are from the nearest vertex (Figure 5)."""
        images = next(iter(datasets.image_batches(self.test, batch_size=500)))
        with tfc.layers.preserved_state(model):
            samples = igr_architectures.on_simplex(model.latent, model.encoder(images))
        return tfc.calibration.vertex_distance(samples).numpy().ravel()


def draw_curves(groups, every):
    """Test bound by epoch, a panel for each way to choose the temperature (Figure 3)."""
    figure, axes = plt.subplots(
        1, len(groups), figsize=(5.6 * len(groups), 3.8), layout="constrained", squeeze=False
    )
    for ax, (chosen_by, runs) in zip(axes[0], groups.items(), strict=True):
        lines = {}
        for run in runs:
            values = -np.array(run.history["val_loss"])
            lines[run.label] = (every * np.arange(1, len(values) + 1), values)
        tfc.plots.curves(lines, ax, f"temperatures by {chosen_by}", ylabel="discrete ELBO, nats")
        ax.xaxis.get_major_locator().set_params(integer=True)
    figure.suptitle("bound on test images, higher is better")
    return figure


def draw_distances(groups):
    """Distances of posterior samples to the nearest vertex after training (Figure 5)."""
    figure, axes = plt.subplots(
        1, len(groups), figsize=(5.6 * len(groups), 3.8), layout="constrained", squeeze=False
    )
    for ax, (chosen_by, runs) in zip(axes[0], groups.items(), strict=True):
        samples = {f"{run.label}: {run.near:.0%} near": run.distances for run in runs}
        tfc.plots.distances(samples, ax, f"temperatures by {chosen_by}", mark=NEAR)
        ax.set_yscale("log")
    figure.suptitle("posterior samples of test images: distance to the nearest vertex")
    return figure


def draw_images(runs, images):
    """What each model makes of test images, and what it makes up."""
    rows = {"data": (images, np.ones_like(images))}
    rows.update({run.label: (run.reconstructed, run.generated) for run in runs})
    figure, axes = plt.subplots(
        len(rows), 2, figsize=(12, 0.75 * len(rows) + 0.5), layout="constrained"
    )
    for (left, right), (label, (reconstructed, generated)) in zip(axes, rows.items(), strict=True):
        tfc.plots.image_grid(reconstructed, SHOWN, left)
        left.set_title(label, fontsize=9, loc="left", pad=2)
        tfc.plots.image_grid(generated, SHOWN, right)
    axes[0, 1].clear()
    axes[0, 1].axis("off")
    axes[1, 1].set_title("samples from the prior", fontsize=9, loc="left", pad=2)
    figure.suptitle("left: argmax reconstructions of test images; right: samples")
    return figure


HEADER = (
    "latent",
    "chosen by",
    "temperature",
    "ELBO, discrete",
    "ELBO, relaxed",
    "gap",
    "KL",
    f"within {NEAR} of a vertex",
)
NOTE = """\
Nats per test image, higher ELBO is better. discrete: with exact one-hot draws; for IGR with the
exact class probabilities, for IGR-SB and IGR-Planar with the KL of the Gaussians, a looser
bound. relaxed: the training bound on the same images; gap: the difference. The last column
counts posterior samples after training."""


def table_row(run):
    test = run.evaluation
    return (
        NAMES[run.name],
        run.chosen_by,
        f"{run.temperature:.3g}",
        -test["loss"],
        test["discretization_gap"] - test["loss"],
        test["discretization_gap"],
        test["kl"],
        f"{run.near:.0%}",
    )


def parse(arguments):
    options = common.parser(__doc__, epochs=40, data=True)
    options.add_argument(
        "--dataset",
        choices=["mnist", "fashion_mnist", "celeb_a"],
        default="mnist",
        help="mnist is binarized, the others have a Gaussian decoder",
    )
    options.add_argument(
        "--architecture",
        choices=igr_architectures.ARCHITECTURES,
        default=None,
        help="networks of Appendix D (dense3: the published program's, with a layer more); "
        "dense, and conv2 for celeb_a, where not given",
    )
    options.add_argument(
        "--binarization",
        choices=["dynamic", "threshold"],
        default="dynamic",
        help="of mnist: drawn anew in every epoch, or cut at 0.5 as in the published program",
    )
    options.add_argument(
        "--latents",
        choices=igr_architectures.LATENTS,
        nargs="+",
        default=igr_architectures.LATENTS,
        help="which latents to compare",
    )
    options.add_argument(
        "--select",
        choices=["vertices", "validation"],
        nargs="+",
        default=["vertices", "validation"],
        help="how to choose temperatures",
    )
    options.add_argument(
        "--grid",
        type=common.positive,
        nargs="+",
        default=[0.1, 0.25, 0.5],
        help="temperatures to validate; a single one is taken as it is",
    )
    options.add_argument("--delta", type=common.positive, default=0.1, help="of the softmax++")
    options.add_argument("--flows", type=int, default=2, help="planar flows of IGR-Planar")
    options.add_argument(
        "--scale",
        type=common.positive,
        default=0.3,
        help="standard deviation of a Gaussian decoder",
    )
    options.add_argument("--images", type=int, default=None, help="training images, at most")
    settings = common.parse(options, arguments)
    for name in ("flows", "images"):
        value = getattr(settings, name)
        if value is not None and value < 1:
            common.fail(f"--{name} must be at least 1, not {value}")
    if settings.images is not None and settings.images < 12:
        common.fail(f"--images must be at least 12, not {settings.images}")
    if settings.architecture is None:
        settings.architecture = "conv2" if settings.dataset == "celeb_a" else "dense"
    if settings.smoke:
        settings.epochs, settings.grid = 1, settings.grid[:1]
    return settings


def main(arguments=None):
    settings = parse(arguments)
    tf.get_logger().setLevel("ERROR")  # many models, many traces: no advice on that
    experiment = Experiment(settings)
    groups = {}
    for chosen_by in dict.fromkeys(settings.select):
        groups[chosen_by] = []
        latents = list(dict.fromkeys(settings.latents))
        if settings.smoke and len(settings.select) == 2:
            latents = latents[-1:] if chosen_by == "validation" else latents[:3]
        for name in latents:
            if chosen_by == "vertices":
                temperature = experiment.vertex_temperature(name)
            else:
                search = max(1, settings.epochs // 3)
                temperature = experiment.best_temperature(name, settings.grid, search)
            run = experiment.run(name, temperature, chosen_by, settings.epochs)
            groups[chosen_by].append(run)

    runs = [run for group in groups.values() for run in group]
    images = next(iter(datasets.image_batches(experiment.test, batch_size=SHOWN))).numpy()
    figures = {
        "igr_vae_curves": draw_curves(groups, max(1, settings.epochs // 6)),
        "igr_vae_distances": draw_distances(groups),
        "igr_vae_images": draw_images(runs, images),
    }
    paths = [common.save_figure(figure, settings.output, name) for name, figure in figures.items()]
    title = (
        f"Discrete VAEs, {VARIABLES} x {CLASSES}, {settings.dataset}, {settings.architecture}, "
        f"{len(experiment.train):,} training images, {settings.epochs} epochs"
    )
    paths.append(
        common.write_table(
            settings.output / "igr_vae.md", title, HEADER, [table_row(run) for run in runs], NOTE
        )
    )
    print("wrote " + ", ".join(str(path) for path in paths))
    print(
        "look at: the table, where the latents at temperatures by vertices are the fair "
        "comparison; igr_vae_distances.png, whether their samples after training are equally "
        "near to the vertices; igr_vae_images.png"
    )


if __name__ == "__main__":
    main()
