"""A discrete and a continuous code side by side: what kind of digit, and how it is drawn.

Title: JointVAE with IGR
Reference: Potapczynski, Loaiza-Ganem & Cunningham (2020), sections 2.4 and 5.3, Appendix D.2;
the objective is that of Dupont (2018).

One discrete variable of ten classes and a Gaussian of ten dimensions explain an image
together. Left to itself such a model puts everything into the Gaussian. So each code is held
to a capacity, a number of nats that grows over the training steps:

    -log p(x | z_d, z_c) + gamma |KL(z_d) - C_d| + gamma |KL(z_c) - C_c|.

Nobody tells the model about labels; whether its classes come to mean digits is read off the
traversals, and counted: how often the majority digit of a test image's class is right. IGR-SB
has no fixed number of classes, at most 50 (each sample is cut where its sticks sum to 0.99).
"""

import dataclasses

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from keras_examples import common, datasets, igr_architectures


@dataclasses.dataclass(frozen=True)
class Protocol:
    """What Appendix D.2 sets for a data set; a likelihood is a name or an object."""

    architecture: str
    likelihood: str | tfc.objectives.Likelihood
    gamma: float
    discrete_capacity: float
    continuous_capacity: float
    capacity_steps: int
    continuous_dims: int = 10


PROTOCOLS = {
    "mnist": Protocol("conv1", "bernoulli", 30.0, 5.0, 5.0, 25_000),
    "fashion_mnist": Protocol("conv1", "gaussian", 100.0, 5.0, 10.0, 50_000),
    "celeb_a": Protocol("conv2", "gaussian", 100.0, 50.0, 10.0, 100_000, continuous_dims=32),
}
# The paper's temperatures, paired by vertex distance, and numbers of classes.
LATENTS = {
    "igr": ("IGR", 0.1, 10),
    "igr_sb": ("IGR-SB", 0.1, 50),
    "concrete": ("Concrete", 0.25, 10),
}
PRECISION = 0.99
SCALE = 0.3  # of a Gaussian decoder, which the paper does not give
STEPS_ACROSS = 10


def build_model(
    name,
    temperature,
    image_shape,
    protocol,
    capacity_steps,
    seed,
    prior=None,
    kind=tfc.models.JointVAE,
):
    """Convolutions to the parameters of both codes, and from both codes to pixels.

    `prior` is an IGR's, location and scale of its Gaussians; `kind` is the model's class.
    """
    keras.utils.set_random_seed(seed)
    classes, dims = LATENTS[name][2], protocol.continuous_dims
    heads = [*igr_architectures.head_shapes(name, 1, classes), [dims], [dims]]
    precision = PRECISION if name == "igr_sb" else None
    likelihood = protocol.likelihood
    if likelihood == "gaussian":
        likelihood = tfc.objectives.Gaussian(SCALE)
    likelihood = tfc.objectives.get_likelihood(likelihood)
    outputs = likelihood.params_shape((None, *image_shape))[1:]
    return kind(
        igr_architectures.build_encoder(protocol.architecture, image_shape, heads),
        igr_architectures.build_decoder(protocol.architecture, outputs, [[1, classes], [dims]]),
        igr_architectures.build_latent(
            name, temperature, classes, precision=precision, prior=prior, seed=seed
        ),
        likelihood,
        gamma=protocol.gamma,
        discrete_capacity=(0.0, protocol.discrete_capacity, capacity_steps),
        continuous_capacity=(0.0, protocol.continuous_capacity, capacity_steps),
        seed=seed,
    )


def majority_share(codes, labels):
    """How often an image has the label that most images of its class have."""
    right = sum(np.bincount(labels[codes == code]).max() for code in np.unique(codes))
    return right / len(labels)


def continuous_code(model, images):
    """Mean and nats of each continuous dimension, `[n, dims]` each."""
    *_, loc, log_scale = model.encoder.predict(images, verbose=0)
    nats = 0.5 * (loc**2 + np.exp(2 * log_scale) - 1) - log_scale
    return loc, nats


def traverse(model, images):
    """Images of a grid over classes, and of a grid over continuous dimensions.

    Returns:
        `(by_class [rows, columns, ...], classes [rows])`, the classes used most, along the
        continuous dimension with most nats; `(by_dimension, dimensions, nats)`, the most
        informative dimensions of one image, whose class stays as it is.
    """
    codes = model.encode(images)[:, 0]
    loc, nats = continuous_code(model, images)
    nats = nats.mean(0)
    used, counts = np.unique(codes, return_counts=True)
    classes = np.sort(used[np.argsort(-counts)][:10])
    dimensions = np.argsort(-nats)[:10]
    values = np.linspace(-2, 2, STEPS_ACROSS, dtype="float32")

    def decoded(rows):
        points = [(code, point) for row in rows for code, point in row]
        images = model.decode(
            np.array([[code] for code, _ in points]), np.array([point for _, point in points])
        )
        return images.reshape([len(rows), STEPS_ACROSS, *images.shape[1:]])

    def along(point, dimension):
        points = np.repeat(point[np.newaxis], STEPS_ACROSS, 0)
        points[:, dimension] = values
        return points

    origin = np.zeros(loc.shape[-1], "float32")
    first = along(origin, dimensions[0])
    by_class = decoded([[(code, point) for point in first] for code in classes])
    by_dimension = decoded(
        [[(codes[0], point) for point in along(loc[0], dim)] for dim in dimensions]
    )
    return (by_class, classes), (by_dimension, dimensions, nats[dimensions])


def draw_traversals(title, discrete, continuous):
    """Left: one row for each class; right: one row for each continuous dimension."""
    by_class, classes = discrete
    by_dimension, _, nats = continuous
    figure, axes = plt.subplots(1, 2, figsize=(12, 6.4), layout="constrained")
    tfc.plots.code_grid(
        by_class, axes[0], "discrete code by row", "class", "strongest continuous dimension"
    )
    axes[0].set_yticks(axes[0].get_yticks(), classes)
    tfc.plots.code_grid(
        by_dimension,
        axes[1],
        "continuous code of one test image, a dimension in each row",
        "nats of the dimension",
        "value",
    )
    axes[1].set_yticks(axes[1].get_yticks(), [f"{value:.1f}" for value in nats])
    for ax in axes:
        ax.set_xticks(ax.get_xticks()[[0, -1]], ["-2", "2"])
    figure.suptitle(title)
    return figure


def draw_capacities(histories, protocol, capacity_steps, steps_per_epoch):
    """Both KLs in training against the capacities they are held to."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
    epochs = np.arange(1, 1 + len(next(iter(histories.values()))["kl"]))
    # An epoch's mean KL belongs to its middle.
    share = np.minimum((epochs - 0.5) * steps_per_epoch / capacity_steps, 1.0)
    for ax, term, title, final in (
        (axes[0], "kl", "discrete code", protocol.discrete_capacity),
        (axes[1], "continuous_kl", "continuous code", protocol.continuous_capacity),
    ):
        lines = {name: history[term] for name, history in histories.items()}
        tfc.plots.curves(lines, ax, title, ylabel="KL in training, nats")
        ax.plot(epochs, share * final, "--", color="0.4", linewidth=1.0, label="capacity")
        ax.legend(frameon=False, fontsize=8)
    return figure


HEADER = (
    "latent (temperature)",
    "ELBO, discrete",
    "ELBO, relaxed",
    "reconstruction",
    "discrete KL",
    "continuous KL",
    "classes used",
    "majority digit right",
)
NOTE = """\
Nats per test image, higher ELBO is better; it counts both KLs once, without gamma and
capacities. reconstruction: its first term, with exact draws. discrete KL: of the classes
(IGR-SB: of the Gaussians behind them); it can stay far below the capacity, which a relaxed code
also meets by moving away from the prior for all images alike. classes used: by the argmax on the
test images. The last column needs labels: how often the commonest label of an image's class is
its own; one class for all would be right for about 11% of the digits."""


def parse(arguments):
    options = common.parser(__doc__, epochs=25, data=True)
    options.add_argument("--dataset", choices=PROTOCOLS, default="mnist", help="data to explain")
    options.add_argument(
        "--architecture",
        choices=igr_architectures.ARCHITECTURES,
        default=None,
        help="networks of Appendix D; the paper's for the data set where not given",
    )
    options.add_argument(
        "--latents",
        choices=LATENTS,
        nargs="+",
        default=list(LATENTS),
        help="which discrete latents to compare",
    )
    options.add_argument(
        "--temperature",
        type=common.positive,
        default=None,
        help="of every latent; where not given 0.1 for IGR and 0.25 for Concrete",
    )
    options.add_argument(
        "--gamma", type=common.positive, default=None, help="weight of the capacities; the paper's"
    )
    options.add_argument(
        "--discrete-capacity", type=common.positive, default=None, help="in nats; the paper's"
    )
    options.add_argument(
        "--continuous-capacity", type=common.positive, default=None, help="in nats; the paper's"
    )
    options.add_argument(
        "--capacity-steps",
        type=int,
        default=None,
        help="steps to full capacity; the paper's, but at most half of the training",
    )
    options.add_argument("--images", type=int, default=None, help="training images, at most")
    settings = common.parse(options, arguments)
    for name in ("capacity_steps", "images"):
        value = getattr(settings, name)
        if value is not None and value < 1:
            common.fail(f"--{name.replace('_', '-')} must be at least 1, not {value}")
    if settings.smoke:
        settings.epochs, settings.latents = 1, settings.latents[:2]
    return settings


def main(arguments=None):
    settings = parse(arguments)
    tf.get_logger().setLevel("ERROR")  # many models, many traces: no advice on that
    given = {
        field: getattr(settings, field)
        for field in (
            "architecture",
            "gamma",
            "discrete_capacity",
            "continuous_capacity",
            "capacity_steps",
        )
        if getattr(settings, field) is not None
    }
    protocol = dataclasses.replace(PROTOCOLS[settings.dataset], **given)
    *splits, labels = datasets.load_splits(
        settings.dataset,
        datasets.data_directory(settings.data_dir),
        settings.smoke,
        settings.images,
    )
    train, test = (igr_architectures.fit_images(x, protocol.architecture) for x in splits)
    test = np.concatenate(list(datasets.image_batches(test).as_numpy_iterator()))
    steps_per_epoch = -(-len(train) // 64)
    capacity_steps = protocol.capacity_steps
    if settings.capacity_steps is None:
        capacity_steps = min(capacity_steps, max(1, settings.epochs * steps_per_epoch // 2))
    binarize = protocol.likelihood == "bernoulli"
    if binarize:
        test = np.float32(np.random.default_rng(settings.seed).random(test.shape) < test)

    histories, rows, figures = {}, [], {}
    for name in dict.fromkeys(settings.latents):
        title, temperature, _ = LATENTS[name]
        temperature = settings.temperature or temperature
        label = f"{title} ({temperature:g})"
        model = build_model(
            name, temperature, test.shape[1:], protocol, capacity_steps, settings.seed
        )
        model.compile(keras.optimizers.Adam(5e-4), steps_per_execution=5)
        histories[label] = model.fit(
            datasets.image_batches(train, binarize, settings.seed),
            epochs=settings.epochs,
            shuffle=False,
            verbose=0,
            callbacks=[common.RunProgress(label)],
        ).history
        losses = model.evaluate(test, batch_size=100, verbose=0, return_dict=True)
        codes = model.encode(test)[:, 0]
        share = "-" if labels is None else f"{majority_share(codes, labels):.0%}"
        rows.append(
            (
                label,
                -losses["loss"],
                losses["discretization_gap"] - losses["loss"],
                -losses["reconstruction"],
                losses["kl"],
                losses["continuous_kl"],
                len(np.unique(codes)),
                share,
            )
        )
        figures[f"joint_vae_{name}"] = draw_traversals(label, *traverse(model, test[:500]))

    figures["joint_vae_capacities"] = draw_capacities(
        histories, protocol, capacity_steps, steps_per_epoch
    )
    paths = [common.save_figure(figure, settings.output, name) for name, figure in figures.items()]
    heading = (
        f"JointVAE, {settings.dataset}, {protocol.architecture}, {len(train):,} training images, "
        f"{settings.epochs} epochs, "
        f"gamma {protocol.gamma:g}, capacities {protocol.discrete_capacity:g} and "
        f"{protocol.continuous_capacity:g} after {capacity_steps:,} steps"
    )
    path = settings.output / "joint_vae.md"
    paths.append(common.write_table(path, heading, HEADER, rows, NOTE))
    print("wrote " + ", ".join(str(path) for path in paths))
    print(
        "look at: joint_vae_igr.png and the other traversals, whether rows on the left are kinds "
        "of images and rows on the right ways to draw one; joint_vae_capacities.png, whether the "
        "KLs follow; the table"
    )


if __name__ == "__main__":
    main()
