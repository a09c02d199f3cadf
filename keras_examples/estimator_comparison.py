"""Gradient estimators for discrete VAEs, side by side: bounds, variances, entropies.

Title: Which estimator?
Reference: Fan, Chi, Rudnicky & Ramadge (2022), Tables 2, 3, 4 and 7, Figure 3, section 5.1.2.

Every estimator is an object that is passed in: a sampling layer for the straight-through
family, the name of a score-function estimator for the others. One loop trains the paper's
VAE with each of them, evaluates the discrete bound after every epoch, and measures two
things that explain it: the variance of the encoder's gradient over repeated draws, and the
entropy of the surrogate that is differentiated in place of the one-hot sample (a surrogate
without entropy passes no gradient on).

`--table 3` takes estimators and temperatures from a table of the paper: 2 is the ablation,
3 the comparison, 4 the larger latent with RLOO and DisARM-Tree, 7 mixed-temperature training
(Appendix A.3: every 20th step at the low temperature, the others at 0.5). The paper trains on
all of MNIST for 40 epochs with ten seeds: `--data-dir <tfds> --epochs 40 --seeds 10`.
"""

import collections
import csv
import dataclasses
import functools
import itertools
from collections.abc import Callable

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from keras_examples import architectures, common, datasets


class UnstoppedGap(tfc.GapStraightThrough):
    """NZ-GST of Table 1: the gradient also passes through the perturbation of the logits."""

    def relax(self, logits, temperature, class_mask=None, seed=None):
        return tfc.estimators.gapped_straight_through(
            logits,
            temperature,
            self.gap,
            class_mask=class_mask,
            axis=self.axis,
            seed=seed,
            perturbation_gradient=True,
        )


@dataclasses.dataclass(frozen=True)
class StraightThroughFamily:
    """One-hot draws whose gradient is that of a surrogate.

    Attributes:
        layer: makes the sampling layer, from `temperature`, `seed` and `name`.
        surrogate: from `(logits, temperature, seed=)` to what is differentiated, a point of
            the simplex; None where there is no such point.
    """

    layer: Callable
    surrogate: Callable | None = None

    def make_model(self, encoder, decoder, temperature, seed):
        latent = self.layer(temperature=temperature, seed=seed, name="z")
        return tfc.models.DiscreteVAE(encoder, decoder, latent)

    def loss(self, model, x, temperature):
        """The negative bound that training differentiates, with the analytic KL."""
        logits = model.encoder(x)
        kl = tf.reduce_sum(tfc.objectives.categorical_kl(logits, tf.zeros_like(logits)), -1)
        latent = model.latent
        outputs = model.decoder(latent.relax(logits, temperature, seed=latent.seed_generator))
        return tf.reduce_mean(kl - model.likelihood.log_prob(x, outputs))


@dataclasses.dataclass(frozen=True)
class ScoreFunction:
    """Unbiased gradients without any surrogate; the temperature plays no part.

    Attributes:
        name: one of `ScoreFunctionVAE`.
        estimate: the function of `tfc.estimators` behind it.
    """

    name: str
    estimate: Callable
    surrogate = None

    def make_model(self, encoder, decoder, temperature, seed):
        latent = tfc.layers.StraightThrough(seed=seed, name="z")  # says: categorical variables
        return tfc.models.ScoreFunctionVAE(encoder, decoder, latent, estimator=self.name)

    def loss(self, model, x, temperature=None):
        """The negative bound over two draws an image."""
        logits = model.encoder(x)
        variables, classes = logits.shape[1:]

        def bound(sample, log_q):
            rows = tf.reshape(sample, [-1, variables, classes])
            outputs = tf.reshape(model.decoder(rows), [-1, *x.shape])
            log_ratio = tf.stop_gradient(log_q) + variables * np.log(classes)
            return model.likelihood.log_prob(x, outputs) - log_ratio

        seed = model.latent.seed_generator
        return -tf.reduce_mean(self.estimate(bound, logits, num_samples=2, seed=seed))


def tempered(logits, temperature, seed=None):
    """The surrogate of plain straight-through."""
    return tf.nn.softmax(logits / temperature)


def gumbel_rao_surrogate(logits, temperature, seed=None, num_samples=100):
    """The mean of relaxed samples given the draw (Eq. 11)."""
    draw = tfc.estimators.straight_through(logits, temperature, seed=seed)
    perturbed = tfc.noise.gumbel_given_winner(logits, draw, num_samples=num_samples, seed=seed)
    return tf.reduce_mean(tf.nn.softmax(perturbed / temperature), 0)


def gst(gap, layer=tfc.GapStraightThrough):
    soft = functools.partial(tfc.estimators.gapped_straight_through, gap=gap, hard=False)
    return StraightThroughFamily(functools.partial(layer, gap=gap), soft)


ESTIMATORS = {
    "st": StraightThroughFamily(tfc.layers.StraightThrough, tempered),
    "reinmax": StraightThroughFamily(tfc.layers.ReinMax),
    "stgs": StraightThroughFamily(
        functools.partial(tfc.ConcreteSample, hard=True), tfc.relaxations.concrete
    ),
    "gr-mc100": StraightThroughFamily(
        functools.partial(tfc.layers.GumbelRao, num_samples=100), gumbel_rao_surrogate
    ),
    "gst-0.0": gst(0.0),
    "gst-0.8": gst(0.8),
    "gst-1.0": gst(1.0),
    "gst-1.2": gst(1.2),
    "gst-pi": gst("pi"),
    "nz-gst-0.0": gst(0.0, UnstoppedGap),
    "nz-gst-1.0": gst(1.0, UnstoppedGap),
    "rloo": ScoreFunction("rloo", tfc.estimators.rloo),
    "disarm-tree": ScoreFunction("disarm_tree", tfc.estimators.disarm_tree),
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """A latent size with its networks and data."""

    networks: Callable
    batch_size: int
    binarized: bool


SETTINGS = {
    "30x10": Setting(architectures.gst_pair, 100, binarized=False),
    "32x64": Setting(architectures.gst_large_pair, 200, binarized=True),
}


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a table compares; `paper` holds its negative bounds, by temperature."""

    estimators: tuple
    temperatures: tuple = (0.5,)
    setting: str = "30x10"
    mixed: bool = False
    paper: dict = dataclasses.field(default_factory=dict)


_FAMILY = ("stgs", "gr-mc100", "gst-0.8", "gst-1.0", "gst-1.2", "gst-pi")
PLANS = {
    "2": Plan(
        ("st", "nz-gst-0.0", "nz-gst-1.0", "gst-0.0", "gst-1.0"),
        (1.0, 0.5),
        paper={
            1.0: {
                "st": 123.35,
                "nz-gst-0.0": 128.45,
                "nz-gst-1.0": 205.88,
                "gst-0.0": 115.48,
                "gst-1.0": 113.63,
            },
            0.5: {
                "st": 133.84,
                "nz-gst-0.0": 139.02,
                "nz-gst-1.0": 205.90,
                "gst-0.0": 119.10,
                "gst-1.0": 108.43,
            },
        },
    ),
    "3": Plan(
        _FAMILY,
        (1.0, 0.5, 0.1, 0.01),
        paper={
            1.0: dict(zip(_FAMILY, (122.96, 120.65, 113.61, 113.63, 112.58, 112.72), strict=True)),
            0.5: dict(zip(_FAMILY, (118.96, 117.88, 111.54, 108.43, 107.33, 109.42), strict=True)),
            0.1: {"stgs": 127.70, "gr-mc100": 123.23},
            0.01: {"stgs": 141.61, "gr-mc100": 130.04},
        },
    ),
    "4": Plan(
        ("rloo", "disarm-tree", "stgs", "gr-mc100", "gst-1.0", "gst-1.2"),
        setting="32x64",
        paper={
            0.5: {
                "rloo": 104.03,
                "disarm-tree": 103.10,
                "stgs": 97.32,
                "gr-mc100": 110.74,
                "gst-1.0": 96.09,
                "gst-1.2": 96.16,
            }
        },
    ),
    "7": Plan(
        _FAMILY,
        (0.1, 0.01),
        mixed=True,
        paper={
            0.1: dict(zip(_FAMILY, (119.38, 117.70, 111.33, 107.73, 107.36, 109.47), strict=True)),
            0.01: dict(zip(_FAMILY, (121.75, 117.69, 110.82, 107.90, 107.86, 109.08), strict=True)),
        },
    ),
}
DEFAULT = Plan(("gst-1.0", "gst-pi", "gr-mc100", "stgs", "st", "reinmax"))
SMOKE = ("gst-1.0", "stgs", "rloo")


def published(plan, name, temperature):
    """The paper's negative bound where it has one for this setting, else an empty cell."""
    for other in PLANS.values():
        if (other.setting, other.mixed) == (plan.setting, plan.mixed):
            value = other.paper.get(temperature, {}).get(name)
            if value is not None:
                return value
    return ""


class GradientStatistics(keras.callbacks.Callback):
    """Logs the variance of the encoder's gradient and the entropy of the surrogate.

    As in Figure 3: the loss on one batch of test images is differentiated again and again,
    with new noise, and the variance is averaged over the encoder's weights.

    Args:
        estimator: object of `ESTIMATORS`.
        temperature: at which to measure; a schedule of the layer stands still.
        images: the batch.
        draws: how many gradients.
    """

    def __init__(self, estimator, temperature, images, draws):
        super().__init__()
        self.estimator = estimator
        self.temperature = temperature
        self.images = tf.constant(images)
        self.draws = draws

    def on_train_begin(self, logs=None):
        self._gradients = tf.function(self._draw_gradients, autograph=False)
        self._entropy = tf.function(self._draw_entropy, autograph=False)
        self.initial = self.measure()

    def on_epoch_end(self, epoch, logs=None):
        logs.update(self.measure())

    def measure(self):
        """`{"variance": ..., "entropy": ...}` of the model as it is now."""
        with tfc.layers.preserved_state(self.model):
            gradients = [self._gradients() for _ in range(self.draws)]
            entropy = self._entropy()
        stacked = [tf.stack(values) for values in zip(*gradients, strict=True)]
        variance = tfc.diagnostics.gradient_variance(stacked)
        return {"variance": float(variance), "entropy": float(entropy)}

    def _draw_gradients(self):
        with tf.GradientTape() as tape:
            loss = self.estimator.loss(self.model, self.images, self.temperature)
        return tape.gradient(loss, self.model.encoder.trainable_variables)

    def _draw_entropy(self):
        if self.estimator.surrogate is None:
            return np.nan
        logits = self.model.encoder(self.images)
        seed = self.model.latent.seed_generator
        soft = self.estimator.surrogate(logits, self.temperature, seed=seed)
        return tf.reduce_mean(-tf.reduce_sum(tf.math.xlogy(soft, soft), -1))


@dataclasses.dataclass
class Run:
    """What is kept of one training run; values by epoch start before training."""

    bound: float
    history: dict
    shared_variance: float


class Comparison:
    """The loop: one estimator and temperature after another, everything else the same."""

    def __init__(self, setting, train, test, epochs, draws, mixed, jit_compile):
        self.setting, self.epochs, self.draws = setting, epochs, draws
        self.mixed, self.jit_compile = mixed, jit_compile
        self.train, self.test = train, test
        if setting.binarized:
            self.test = (np.random.default_rng(0).random(test.shape) < test).astype("float32")

    def run(self, name, temperature, seed, shared=None, callbacks=None):
        """Trains with one estimator.

        Args:
            name: key of `ESTIMATORS`.
            temperature: of the layer; with mixed training the low one.
            seed: of weights, order and noise.
            shared: weights of an encoder and a decoder on which the variance is measured
                once more, so that estimators are compared on the same networks.
            callbacks: of `fit` instead of a progress bar.

        Returns:
            A `Run`, and the weights of its networks.
        """
        keras.utils.set_random_seed(seed)
        encoder, decoder = self.setting.networks()
        schedule = temperature
        if self.mixed:
            schedule = tfc.schedules.MixedTemperature(low=temperature, mid=0.5, every=20)
        estimator = ESTIMATORS[name]
        model = estimator.make_model(encoder, decoder, schedule, seed)
        model.compile(
            keras.optimizers.Adam(1e-3), jit_compile=self.jit_compile, steps_per_execution=50
        )
        statistics = GradientStatistics(estimator, temperature, self.test[:200], self.draws)
        if callbacks is None:
            callbacks = [common.RunProgress(f"{name} at {temperature:g}, seed {seed}")]
        history = model.fit(
            **self._data(seed),
            epochs=self.epochs,
            validation_data=(self.test,),
            validation_batch_size=500,
            verbose=0,
            callbacks=[statistics, *callbacks],
        ).history
        for key, value in statistics.initial.items():
            history[key] = [value, *history[key]]
        weights = encoder.get_weights(), decoder.get_weights()
        encoder_weights, decoder_weights = shared or weights
        encoder.set_weights(encoder_weights)
        decoder.set_weights(decoder_weights)
        shared_variance = statistics.measure()["variance"]
        return Run(history["val_loss"][-1], history, shared_variance), weights

    def _data(self, seed):
        size = self.setting.batch_size
        if self.setting.binarized:
            batches = datasets.image_batches(self.train, binarize=True, seed=seed, batch_size=size)
            return {"x": batches, "shuffle": False}
        return {"x": self.train, "batch_size": size}


def mean_history(runs, key):
    return np.mean([run.history[key] for run in runs], axis=0)


def draw(results, temperatures, epochs):
    """For each temperature: bounds, variances (Figure 3) and entropies, by epoch."""
    figure, axes = plt.subplots(
        len(temperatures),
        3,
        figsize=(14.5, 4 * len(temperatures)),
        layout="constrained",
        squeeze=False,
    )
    after, before = np.arange(1, epochs + 1), np.arange(epochs + 1)
    for row, temperature in zip(axes, temperatures, strict=True):
        runs = {name: found for (name, t), found in results.items() if t == temperature}
        tfc.plots.curves(
            {name: (after, mean_history(found, "val_loss")) for name, found in runs.items()},
            row[0],
            f"negative bound, discrete, test (temperature {temperature:g})",
            ylabel="nats",
        )
        tfc.plots.gradient_variance(
            {name: (before, mean_history(found, "variance")) for name, found in runs.items()},
            row[1],
            "variance of the encoder's gradient",
        )
        # All estimators are drawn, so that each has its colour in every panel.
        entropies = {
            name if ESTIMATORS[name].surrogate else f"{name} (no surrogate)": (
                before,
                mean_history(found, "entropy"),
            )
            for name, found in runs.items()
        }
        tfc.plots.curves(
            entropies, row[2], "entropy of the surrogate", ylabel="nats", logarithmic=True
        )
        # The first epochs are far above the rest, and every line would look the same.
        finals = [mean_history(found, "val_loss") for found in runs.values()]
        top = max(line[-1] for line in finals) + 0.35 * max(line[0] - line[-1] for line in finals)
        row[0].set_ylim(top=top if epochs > 5 else None)
    return figure


HEADER = (
    "temperature",
    "estimator",
    "negative bound",
    "std",
    "paper",
    "variance, first epoch",
    "variance, last",
    "variance, same network",
    "entropy, start",
    "entropy, last",
)


def table_rows(results, plan):
    for (name, temperature), runs in results.items():
        bounds = [run.bound for run in runs]
        variances, entropies = mean_history(runs, "variance"), mean_history(runs, "entropy")
        shared = np.mean([run.shared_variance for run in runs])
        yield (
            f"{temperature:g}",
            name,
            float(np.mean(bounds)),
            float(np.std(bounds, ddof=1)) if len(bounds) > 1 else "",
            published(plan, name, temperature),
            *(f"{value:.3g}" for value in (variances[1], variances[-1], shared)),
            *("" if np.isnan(value) else f"{value:.3g}" for value in entropies[[0, -1]]),
        )


def write_history(path, results, first_seed):
    """Every number of every epoch."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ("estimator", "temperature", "seed", "epoch", "val_loss", "variance", "entropy")
        )
        for (name, temperature), runs in results.items():
            for seed, run in enumerate(runs, start=first_seed):
                lines = zip(
                    ["", *run.history["val_loss"]],
                    run.history["variance"],
                    run.history["entropy"],
                    strict=True,
                )
                for epoch, values in enumerate(lines):
                    writer.writerow((name, temperature, seed, epoch, *values))
    return path


def choose(settings):
    """The plan of `--table`, with what other options change in it; a piece of it for --smoke."""
    plan = DEFAULT if settings.table is None else PLANS[settings.table]
    if settings.smoke and settings.table is None:
        plan = dataclasses.replace(plan, estimators=SMOKE)
    changes = {
        "estimators": tuple(settings.estimators or ()),
        "temperatures": tuple(settings.temperatures or ()),
        "setting": settings.latents,
        "mixed": settings.mixed,
    }
    plan = dataclasses.replace(plan, **{name: value for name, value in changes.items() if value})
    for name in plan.estimators:
        if name not in ESTIMATORS:
            common.fail(f"--estimators {name} is not one of {', '.join(ESTIMATORS)}")
    if settings.seeds < 1:
        common.fail(f"--seeds must be at least 1, not {settings.seeds}")
    if settings.draws < 2:
        common.fail(f"--draws must be at least 2, not {settings.draws}")
    if settings.smoke:
        settings.epochs, settings.draws, settings.seeds = 1, 2, 1
        few = {"estimators": plan.estimators[:3], "temperatures": plan.temperatures[:1]}
        plan = dataclasses.replace(plan, **few)
    return plan


def main(arguments=None):
    options = common.parser(__doc__, epochs=20, data=True)
    options.add_argument("--table", choices=PLANS, help="a table of the paper (default: a sample)")
    options.add_argument("--estimators", nargs="+", help=f"from {', '.join(ESTIMATORS)}")
    options.add_argument(
        "--temperatures", type=common.positive, nargs="+", help="temperatures to train at"
    )
    options.add_argument("--latents", choices=SETTINGS, help="size of the latent, and its networks")
    options.add_argument("--mixed", action="store_true", help="mixed-temperature training (A.3)")
    options.add_argument("--seeds", type=int, default=1, help="runs of each, from --seed upwards")
    options.add_argument("--draws", type=int, default=10, help="gradients for each variance")
    settings = common.parse(options, arguments)
    plan = choose(settings)
    # Every estimator compiles a step of its own; TensorFlow takes that for retracing.
    tf.get_logger().setLevel("ERROR")
    data_dir = datasets.data_directory(settings.data_dir)
    (train, _), (test, _) = datasets.load_images("mnist", data_dir=data_dir, smoke=settings.smoke)
    comparison = Comparison(
        SETTINGS[plan.setting],
        train,
        test,
        settings.epochs,
        settings.draws,
        plan.mixed,
        jit_compile=not settings.smoke,
    )

    results = collections.defaultdict(list)
    for temperature, seed in itertools.product(plan.temperatures, range(settings.seeds)):
        shared = None
        for name in plan.estimators:
            run, weights = comparison.run(name, temperature, settings.seed + seed, shared)
            results[name, temperature].append(run)
            shared = shared or weights

    figure = draw(results, plan.temperatures, comparison.epochs)
    picture = common.save_figure(figure, settings.output, "estimator_comparison")
    history = write_history(settings.output / "estimator_comparison.csv", results, settings.seed)
    mixed = ", mixed-temperature training" if plan.mixed else ""
    table = common.write_table(
        settings.output / "estimator_comparison.md",
        f"Estimators on {plan.setting} latents, {comparison.epochs} epochs{mixed}",
        HEADER,
        list(table_rows(results, plan)),
        "negative bound: discrete, test, after the last epoch, in nats; paper: on all of MNIST, "
        "after 40 epochs (Table 4: 500,000 steps). variance: of the gradient of the mean loss over "
        "200 test images, averaged over the encoder's weights; same network: all estimators on the "
        f"networks that {plan.estimators[0]} trained. entropy: of the surrogate, per variable.",
    )
    print(f"wrote {picture}, {history}, {table}")
    print(
        "look at: the order of the bounds, and whether it follows the variances (the paper finds "
        "GST lowest in both; after few steps the order can be another); at low temperatures, "
        "entropies near 0 from the start, a run that stays where it began: --table 7 has the remedy"
    )


if __name__ == "__main__":
    main()
