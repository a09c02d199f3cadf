"""How well discrete latent variables model binarized digits: the Concrete paper's Table 1.

Title: Density estimation
Reference: Maddison, Mnih & Teh (2017), section 5.2, Appendix D and E.

A model is written as a string, read in the order of sampling: `200H~784V` samples 200 hidden
units from their prior, then the 784 visible pixels given them; `-` is a linear map, `~` one
with two tanh layers of the preceding layer's size. The inference network has the same maps
the other way round. Units are binary, or n-ary: pairs or triples of them sampled together as
a corner of a hypercube. The prior is learned, output biases start at the base rate of each
pixel, and activities are centred on their way up.

Training maximises the relaxed L_m (or with VIMCO and NVIL the discrete one, early stopped);
the table reports -L_1000, or any other number of samples, of the discrete model.
"""

import json
import math
import re

import keras
import numpy as np

import tfconcrete as tfc
from keras_examples import common, datasets
from keras_examples.units import Units

# Test and train NLL of Tables 1 and 2: {string: {estimator: {(classes, m): (test, train)}}}.
# After 10^7 steps, by L_50,000; for one sample the score-function estimator is NVIL.
PAPER = {
    "200H-784V": {
        "concrete": {(2, 1): (107.3, 107.5), (2, 5): (104.9, 104.9), (2, 50): (104.3, 104.2)},
        "score": {(2, 1): (104.4, 104.2), (2, 5): (101.9, 101.5), (2, 50): (98.8, 98.3)},
    },
    "200H-200H-784V": {
        "concrete": {(2, 1): (102.1, 102.3), (2, 5): (99.9, 100.0), (2, 50): (99.5, 99.4)},
        "score": {(2, 1): (92.9, 91.7), (2, 5): (91.7, 90.8), (2, 50): (90.7, 89.7)},
    },
    "200H~784V": {
        "concrete": {(2, 1): (92.1, 91.2), (2, 5): (89.5, 88.1), (2, 50): (88.5, 86.4)},
        "score": {(2, 1): (93.8, 91.5), (2, 5): (91.4, 88.6), (2, 50): (89.3, 86.5)},
    },
    "200H~200H~784V": {
        "concrete": {(2, 1): (87.9, 86.5), (2, 5): (86.3, 84.1), (2, 50): (85.7, 83.1)},
        "score": {(2, 1): (88.4, 85.8), (2, 5): (86.4, 82.5), (2, 50): (85.5, 81.8)},
    },
    "240H~784V": {
        "concrete": {
            (2, 1): (91.9, 90.7),
            (2, 5): (89.0, 87.1),
            (2, 50): (88.4, 85.7),
            (4, 1): (91.4, 89.7),
            (4, 5): (89.4, 87.0),
            (4, 50): (89.7, 86.5),
            (8, 1): (92.5, 89.9),
            (8, 5): (90.5, 87.0),
        },
        "score": {},
    },
}
ESTIMATORS = ("concrete", "logistic_normal", "vimco", "nvil")


def read_layers(text):
    """`"200H~100H-784V"` to the sizes [200, 100] and the maps ["~", "-"] after each."""
    if not re.fullmatch(r"(\d+H[-~])+784V", text):
        common.fail(
            f'--model {text} is no layer string: hidden layers, "-" or "~" after each, then the '
            "784 pixels, such as 200H~784V or 200H-200H-784V"
        )
    sizes = [int(size) for size in re.findall(r"(\d+)H", text)]
    if 0 in sizes:
        common.fail(f"--model {text} has a layer without units")
    return sizes, re.findall(r"[-~]", text)


def apply_map(kind, values, size):
    """ "-" leaves a layer's units as they are, "~" adds two tanh layers of `size`."""
    for _ in range({"-": 0, "~": 2}[kind]):
        values = keras.layers.Dense(size, "tanh")(values)
    return values


def build_networks(units, sizes, maps, bias):
    """Encoders and decoders, those next to the pixels first.

    Args:
        units: the kind of units.
        sizes: of the hidden layers, in the order of sampling.
        maps: the map after each.
        bias: array `[784]`, what the pixels' logits start at (Appendix D.3).
    """
    sizes, maps = sizes[::-1], maps[::-1]
    pixels = keras.Input([784], name="pixels")
    hidden = apply_map(maps[0], pixels, sizes[0])
    encoders = [keras.Model(pixels, units.parameters(hidden, sizes[0]))]
    for below, above, kind in zip(sizes, sizes[1:], maps[1:], strict=False):
        inputs, values = units.sample_input(below)
        hidden = apply_map(kind, tfc.layers.Centering(0.9)(values), below)
        encoders.append(keras.Model(inputs, units.parameters(hidden, above)))
    decoders = []
    for level, (size, kind) in enumerate(zip(sizes, maps, strict=True)):
        inputs, values = units.sample_input(size)
        hidden = apply_map(kind, values, size)
        if level == 0:
            start = keras.initializers.Constant(bias)
            outputs = keras.layers.Dense(784, bias_initializer=start)(hidden)
        else:
            outputs = units.parameters(hidden, sizes[level - 1])
        decoders.append(keras.Model(inputs, outputs))
    return encoders, decoders


def build_model(settings, bias):
    sizes, maps = read_layers(settings.model)
    relaxation = "igr" if settings.estimator == "logistic_normal" else "concrete"
    suggested = tfc.calibration.suggest_temperature(settings.classes)
    units = Units(relaxation, settings.classes, settings.temperature or suggested.posterior)
    encoders, decoders = build_networks(units, sizes, maps, bias)
    latents = [units.latent(settings.seed + level) for level in range(len(sizes))]
    arguments = {"prior_logits": "trainable", "num_samples": settings.num_samples}
    if settings.estimator in ("vimco", "nvil"):
        return tfc.models.ScoreFunctionVAE(
            encoders, decoders, latents, estimator=settings.estimator, **arguments
        )
    prior = settings.prior_temperature or suggested.prior
    return tfc.models.DiscreteVAE(encoders, decoders, latents, prior_temperature=prior, **arguments)


def load(settings):
    """Binary images `[n, 784]`: training, validation and test."""
    data_dir = datasets.data_directory(settings.data_dir)
    if settings.dataset == "omniglot":
        # The two small sets of TFDS: one to train on, one to test on.
        pairs = datasets.load_images("omniglot", ("small1", "small2"), data_dir, settings.smoke)
        train, test = (datasets.omniglot_28(images) for images, _ in pairs)
        train, validation = train[len(train) // 10 :], train[: len(train) // 10]
        parts = (train, validation, test)
    else:
        splits = ("train", "validation", "test") if data_dir else ("train", "test")
        pairs = datasets.load_images("binarized_mnist", splits, data_dir, settings.smoke)
        parts = [images for images, _ in pairs]
        if len(parts) == 2:
            train, test = parts
            parts = (train[len(train) // 10 :], train[: len(train) // 10], test)
    return [part.reshape([len(part), 784]).astype(np.float32) for part in parts]


def train(model, settings, images, validation, callbacks=(), verbose=2):
    """Trains with Adam, early stopped for score-function estimators; the history."""
    callbacks = list(callbacks)
    if settings.estimator in ("vimco", "nvil"):
        # Of one sample the bound is noisy: five epochs without a better one say nothing yet.
        stop = keras.callbacks.EarlyStopping("val_loss", patience=20, restore_best_weights=True)
        callbacks.append(stop)
    steps = max(1, min(50, len(images) // 64))
    model.compile(
        keras.optimizers.Adam(settings.learning_rate),
        jit_compile=not settings.smoke,
        steps_per_execution=steps,
    )
    return model.fit(
        images,
        batch_size=64,
        epochs=settings.epochs,
        callbacks=callbacks,
        validation_data=(validation, None),
        validation_batch_size=500,
        verbose=verbose,
    ).history


def paper_values(settings):
    """`(test, train)` of the paper for this run, or None."""
    if settings.dataset != "mnist" or settings.estimator == "logistic_normal":
        return None
    kind = "concrete" if settings.estimator == "concrete" else "score"
    rows = PAPER.get(settings.model, {}).get(kind, {})
    return rows.get((settings.classes, settings.num_samples))


def parse(arguments):
    options = common.parser(__doc__, epochs=20, data=True)
    add = options.add_argument
    add("--model", default="200H~784V", help="layer string")
    add("--classes", type=int, default=2, help="arity of the units: 2, 4 or 8")
    add("--num-samples", type=int, help="m of the training objective: 1, or 5 for vimco")
    add("--estimator", choices=ESTIMATORS, default="concrete", help="how gradients pass the units")
    add(
        "--dataset",
        choices=("mnist", "omniglot"),
        default="mnist",
        help="fixed binarized MNIST, or the small sets of Omniglot",
    )
    add("--temperature", type=common.positive, help="posterior's; by default that of the paper")
    add("--prior-temperature", type=common.positive, help="by default that of the paper")
    add(
        "--learning-rate",
        type=common.positive,
        default=1e-3,
        help="the paper's long runs have 3e-4 for linear models, 1e-4 for others",
    )
    add(
        "--likelihood-samples",
        type=int,
        default=1_000,
        help="m of the reported bound; the paper has 50,000",
    )
    add(
        "--train-images",
        type=int,
        default=2_000,
        help="how many images the train NLL is averaged over",
    )
    settings = common.parse(options, arguments)
    if settings.num_samples is None:
        settings.num_samples = 5 if settings.estimator == "vimco" else 1
    for name in ("num_samples", "likelihood_samples", "train_images"):
        if getattr(settings, name) < 1:
            common.fail(f"--{name.replace('_', '-')} must be at least 1")
    if settings.estimator == "vimco" and settings.num_samples < 2:
        common.fail("--estimator vimco needs --num-samples 2 or more; of one sample, take nvil")
    if settings.classes not in (2, 4, 8):
        common.fail(f"--classes must be 2, 4 or 8, not {settings.classes}")
    sizes, _ = read_layers(settings.model)
    bits = int(math.log2(settings.classes))
    if any(size % bits for size in sizes):
        common.fail(
            f"--model {settings.model}: layers of {settings.classes}-ary units need a "
            f"multiple of {bits} units"
        )
    if settings.smoke:
        settings.epochs, settings.likelihood_samples, settings.train_images = 1, 20, 32
    return settings


HEADER = ("split", "NLL, nats", "paper, nats", "images")


def main(arguments=None):
    settings = parse(arguments)
    keras.utils.set_random_seed(settings.seed)
    images, validation, test = load(settings)
    if settings.smoke:
        test = test[:32]
    model = build_model(settings, tfc.objectives.base_rate_bias(images))
    history = train(model, settings, images, validation)

    rows, found = [], {}
    paper = paper_values(settings) or (None, None)
    parts = {"test": test, "train": images[: settings.train_images]}
    for (name, part), reference in zip(parts.items(), paper, strict=True):
        print(f"{name}: L_{settings.likelihood_samples} of {len(part):,} images")
        bounds = model.log_likelihood(part, settings.likelihood_samples, seed=settings.seed)
        found[name] = -float(np.mean(bounds))
        rows.append((name, found[name], "-" if reference is None else reference, len(part)))

    stem = settings.output / "density_estimation"
    title = (
        f"({settings.model}), {settings.classes}-ary, {settings.estimator}, "
        f"m = {settings.num_samples}: -L_{settings.likelihood_samples} after "
        f"{len(history['loss'])} epochs of {len(images):,} images"
    )
    note = (
        "Paper: Tables 1 and 2, 10^7 steps of batch 64 (12,800 epochs of 50,000 images), "
        "L_50,000, fixed binarized MNIST."
    )
    table = common.write_table(stem.with_suffix(".md"), title, HEADER, rows, note)
    results = stem.with_suffix(".json")
    results.write_text(json.dumps({"nll": found, "history": history}, indent=1) + "\n")
    path = stem.with_suffix(".keras")
    model.save(path)
    print(f"wrote {table}, {results}, {path}")
    print(
        "try next: --model 200H~200H~784V for a second layer, --num-samples 5 for a tighter "
        "bound, --classes 4, or --estimator vimco"
    )


if __name__ == "__main__":
    main()
