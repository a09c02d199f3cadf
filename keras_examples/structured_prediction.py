"""The lower half of a digit from its upper half, through layers of discrete units.

Title: Structured prediction
Reference: Maddison, Mnih & Teh (2017), section 5.3 and Figure 4; Potapczynski,
Loaiza-Ganem & Cunningham (2020), Appendix B.

A 7 without its lower half may be a 9: the prediction has several answers, and the network
takes one by sampling layers of discrete units between the halves. There is no posterior and
no KL, only L_m^SP = E[log (1/m) sum_i p(lower | z_i)], so what differs between models is how
gradients pass the units. Units are binary, or n-ary: pairs or triples of them sampled
together as a corner of a hypercube (Appendix D.2). Training is relaxed, at the temperature
that the paper found best for that arity, or on exact draws by NVIL (one sample) or VIMCO
(several), the paper's baselines; the evaluation is discrete, L_100^SP.

Figure 4 asks what the temperature of training does: with binary units above temperature 1
the relaxed network learns to send real numbers between -1 and 1, and the discrete network,
which cannot, falls behind. That is the integrality gap.
"""

import math

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from keras_examples import common, datasets
from keras_examples.units import Units

ROWS = 14
PIXELS = ROWS * 28
# Appendix B of the IGR paper: high temperatures by validation, low ones by vertices.
PAIRED = (("igr", 0.5), ("concrete", 2 / 3), ("igr", 0.1), ("concrete", 0.25))
TEMPERATURES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
SHOWN, DRAWS = 10, 5


def build_model(units, width, depth, bias, num_samples, seed, estimator=None):
    """392V-240H-...-392V: `depth` layers of units, linear maps between all layers.

    Args:
        units: the `Units` of every hidden layer.
        width: units in a layer.
        depth: number of hidden layers.
        bias: array `[392]`, what the outputs start at (Appendix D.3).
        num_samples: m of the training objective.
        seed: seed of the noise.
        estimator: of `ScoreFunctionPredictor`, None for relaxed units.
    """
    context = keras.Input([PIXELS], name="upper")
    encoders = [keras.Model(context, units.parameters(context, width))]
    for _ in range(depth - 1):
        inputs, values = units.sample_input(width)
        encoders.append(keras.Model(inputs, units.parameters(values, width)))
    inputs, values = units.sample_input(width)
    outputs = keras.layers.Dense(PIXELS, bias_initializer=lambda shape, dtype: bias)(values)
    decoder = keras.Model(inputs, outputs)
    latents = [units.latent(seed + level) for level in range(depth)]
    if estimator is not None:
        return tfc.models.ScoreFunctionPredictor(
            encoders, decoder, latents, num_samples=num_samples, estimator=estimator
        )
    return tfc.models.StructuredPredictor(encoders, decoder, latents, num_samples=num_samples)


def label(units, estimator=None):
    """How a kind of network is called in the table."""
    return units.label if estimator is None else f"{estimator.upper()} {units.arity}"


def load(settings):
    """Binarized upper and lower halves `[n, 392]` for training and testing."""
    data_dir = datasets.data_directory(settings.data_dir)
    name = "mnist" if settings.binarization == "threshold" else "binarized_mnist"
    pairs = datasets.load_images(name, data_dir=data_dir, smoke=settings.smoke)
    halves = []
    for images, _ in pairs:
        flat = np.float32(images >= 0.5).reshape([len(images), -1])
        halves.append((flat[:, :PIXELS], flat[:, PIXELS:]))
    return halves


class Experiment:
    """The halves, and how every model is trained on them."""

    def __init__(self, settings):
        self.settings = settings
        self.train, self.test = load(settings)
        self.bias = tfc.objectives.base_rate_bias(self.train[1])

    def fit(self, units, depth, epochs, callbacks=None, estimator=None, **options):
        """A trained model; `estimator` as in `build_model`, further options those of `fit`."""
        settings = self.settings
        keras.utils.set_random_seed(settings.seed)
        sizes = settings.width, depth
        model = build_model(
            units, *sizes, self.bias, settings.num_samples, settings.seed, estimator
        )
        optimizer = keras.optimizers.AdamW(
            settings.learning_rate, weight_decay=settings.weight_decay
        )
        model.compile(optimizer, jit_compile=not settings.smoke, steps_per_execution=50)
        if callbacks is None:
            callbacks = [common.RunProgress(f"{label(units, estimator)}, {depth} layers")]
        model.fit(
            *self.train, batch_size=64, epochs=epochs, verbose=0, callbacks=callbacks, **options
        )
        return model

    def likelihood(self, model, halves):
        """The discrete -L_100^SP of a model, the mean over examples."""
        limit = 16 if self.settings.smoke else 1_000
        upper, lower = (half[:limit] for half in halves)
        bound = model.log_likelihood(upper, lower, num_samples=100, verbose=0, seed=0)
        return -float(np.mean(bound))

    def compare(self, kinds, epochs):
        """Rows of the table of `(units, estimator)`, and the first model."""
        rows, first = [], None
        for units, estimator in kinds:
            model = self.fit(units, self.settings.depth, epochs, estimator=estimator)
            losses = model.evaluate(*self.test, batch_size=500, verbose=0, return_dict=True)
            rows.append(
                (
                    label(units, estimator),
                    self.likelihood(model, self.test),
                    self.likelihood(model, self.train),
                    losses["loss"],
                    losses["discretization_gap"],
                )
            )
            first = first or model
        return rows, first

    def sweep(self, temperatures, epochs):
        """Relaxed and discrete test loss of binary networks by training temperature."""
        relaxed, discrete = [], []
        for temperature in temperatures:
            model = self.fit(Units("concrete", 2, temperature), self.settings.gap_depth, epochs)
            losses = model.evaluate(*self.test, batch_size=500, verbose=0, return_dict=True)
            discrete.append(losses["loss"])
            relaxed.append(losses["loss"] - losses["discretization_gap"])
        return np.array(relaxed), np.array(discrete)


def draw_gap(temperatures, relaxed, discrete):
    """The integrality gap (Figure 4, right)."""
    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    lines = {
        "relaxed network": (temperatures, relaxed),
        "discrete network": (temperatures, discrete),
    }
    tfc.plots.curves(
        lines,
        ax,
        "binary units, trained at each temperature",
        "temperature",
        "test loss -L_1, nats",
    )
    ax.set_xscale("log", base=2)
    ax.set_xticks(temperatures, [f"{t:.2g}" for t in temperatures])
    ax.minorticks_off()
    left, right = ax.get_xlim()
    if right > 1:
        ax.axvspan(max(1, left), right, color="0.9", zorder=0)
        ax.text(right, ax.get_ylim()[1], "modes inside (-1, 1) ", ha="right", va="top", fontsize=8)
    ax.set_xlim(left, right)
    ax.fill_between(temperatures, relaxed, discrete, alpha=0.12, color="C1", linewidth=0)
    return figure


def draw_predictions(model, halves, seed):
    """Test digits, what the network sees, its most probable answer and some sampled ones."""
    upper, lower = (half[:SHOWN] for half in halves)

    def digits(bottom):
        return np.concatenate([upper, bottom], -1).reshape([SHOWN, 28, 28])

    rows = {"digit": digits(lower), "given": digits(np.zeros_like(lower))}
    rows["argmax"] = digits(model.predict(upper, verbose=0))
    for draw in range(DRAWS):
        rows[f"sample {draw + 1}"] = digits(model.generate(upper, seed=seed + draw))
    figure = tfc.plots.code_grid(
        np.stack(list(rows.values())),
        title="lower halves, predicted",
        row_label="",
        column_label="",
    )
    ax = figure.axes[0]
    ax.set_xticks([])
    ax.set_yticks(ax.get_yticks(), rows)
    return figure


HEADER = ("units (temperature)", "test NLL", "train NLL", "test -L_1", "integrality gap")
NOTE = """\
Nats, lower is better. NLL: the discrete -L_100^SP, of up to 1,000 examples. -L_1: with one
discrete draw for each test example; the gap is what it exceeds the relaxed network's by."""


def parse(arguments):
    options = common.parser(__doc__, epochs=20, data=True)
    options.add_argument(
        "--classes",
        type=int,
        nargs="+",
        default=[2, 4, 8],
        help="arities of the Concrete units, powers of two",
    )
    options.add_argument("--width", type=int, default=240, help="units in a layer")
    options.add_argument("--depth", type=int, default=2, help="layers of units in the table")
    options.add_argument("--gap-depth", type=int, default=3, help="layers of units in Figure 4")
    options.add_argument("--num-samples", type=int, default=1, help="m of the training objective")
    options.add_argument(
        "--learning-rate",
        type=common.positive,
        default=1e-3,
        help="the paper's long runs have 3e-4",
    )
    options.add_argument(
        "--weight-decay", type=common.not_negative, default=1e-3, help="of Adam; 0 for none"
    )
    options.add_argument(
        "--binarization",
        choices=["fixed", "threshold"],
        default="fixed",
        help="of the digits: the fixed sample of the literature, or cut at 0.5",
    )
    options.add_argument(
        "--temperatures",
        type=common.positive,
        nargs="+",
        default=TEMPERATURES,
        help="training temperatures of Figure 4",
    )
    settings = common.parse(options, arguments)
    for name in ("width", "depth", "gap_depth", "num_samples"):
        if getattr(settings, name) < 1:
            common.fail(f"--{name.replace('_', '-')} must be at least 1")
    for classes in settings.classes:
        if classes < 2 or classes & (classes - 1):
            common.fail(f"--classes must be powers of two, not {classes}")
        if settings.width % int(math.log2(classes)):
            common.fail(f"--width {settings.width} is no multiple of the bits of {classes} classes")
    return settings


def main(arguments=None):
    settings = parse(arguments)
    epochs = settings.epochs
    temperatures = sorted(set(settings.temperatures))
    kinds = [
        Units("concrete", classes, tfc.calibration.suggest_temperature(classes).posterior)
        for classes in dict.fromkeys(settings.classes)
    ]
    kinds += [Units(name, 2, temperature) for name, temperature in PAIRED]
    kinds = [(units, None) for units in dict.fromkeys(kinds)]
    # The units' temperature does nothing where they are drawn exactly.
    kinds.append((Units("concrete", 2, 1.0), "nvil" if settings.num_samples == 1 else "vimco"))
    if settings.smoke:
        epochs, temperatures, kinds = 1, temperatures[-1:], [kinds[0], kinds[-3], kinds[-1]]
    tf.get_logger().setLevel("ERROR")  # many models, many traces: no advice on that
    experiment = Experiment(settings)
    rows, model = experiment.compare(kinds, epochs)
    relaxed, discrete = experiment.sweep(temperatures, epochs)

    paths = [
        common.save_figure(figure, settings.output, name)
        for name, figure in (
            ("structured_prediction_gap", draw_gap(temperatures, relaxed, discrete)),
            (
                "structured_prediction_halves",
                draw_predictions(model, experiment.test, settings.seed),
            ),
        )
    ]
    title = (
        f"Lower halves of digits, {settings.depth} layers of {settings.width} units, "
        f"m = {settings.num_samples}, {len(experiment.train[0]):,} images, {epochs} epochs"
    )
    path = settings.output / "structured_prediction.md"
    paths.append(common.write_table(path, title, HEADER, rows, NOTE))
    print("wrote " + ", ".join(str(path) for path in paths))
    print(
        "look at: structured_prediction_gap.png, where the two losses part above temperature 1; "
        "structured_prediction_halves.png for answers that differ where the upper half is "
        "ambiguous; the table for arities, and for IGR and the score function against Concrete"
    )


if __name__ == "__main__":
    main()
