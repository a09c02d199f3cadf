"""The main job: train a discrete VAE, export it, serve the export, show what it did.

Title: From pixels to codes and back
Reference: Maddison, Mnih & Teh (2017), sections 3.3 and 5.2.

A variational autoencoder squeezes every digit into 16 variables of 8 classes each, 48 bits.
It trains with `fit` on relaxed samples at the paper's 8-ary temperature, with the discrete
KL (Eq. 22), and every epoch ends with the discrete bound, so that the gap between the two
is in sight. Then the model is exported with argmaxes in place of all randomness, and
the export is loaded by TensorFlow's C++ loader, as TF Serving does, in another process that
knows neither Keras nor this package. What that process encodes and decodes is on the page
that this script leaves behind.
"""

import pathlib
import subprocess
import sys

import keras
import matplotlib.pyplot as plt
import numpy as np

import tfconcrete as tfc
from keras_examples import common, datasets
from tfconcrete.export import c_loader

VARIABLES, CLASSES = 16, 8


def build_model(mean_image, seed):
    """Two dense layers each way; the output starts at the data's base rate (D.3)."""
    encoder = keras.Sequential(
        [
            keras.Input([28, 28], name="image"),
            keras.layers.Flatten(),
            keras.layers.Dense(512, "relu"),
            keras.layers.Dense(256, "relu"),
            keras.layers.Dense(VARIABLES * CLASSES),
            keras.layers.Reshape([VARIABLES, CLASSES]),
        ],
        name="encoder",
    )
    rate = np.clip(mean_image, 0.001, 0.999)
    bias = keras.initializers.Constant(np.log(rate / (1 - rate)).ravel())
    decoder = keras.Sequential(
        [
            keras.Input([VARIABLES, CLASSES], name="codes"),
            keras.layers.Flatten(),
            keras.layers.Dense(256, "relu"),
            keras.layers.Dense(512, "relu"),
            keras.layers.Dense(28 * 28, bias_initializer=bias),
            keras.layers.Reshape([28, 28]),
        ],
        name="decoder",
    )
    temperature = tfc.calibration.suggest_temperature(CLASSES).posterior
    latent = tfc.ConcreteSample(temperature, seed=seed, name="z")
    return tfc.models.DiscreteVAE(encoder, decoder, latent, kl="analytic", name="digits")


def serve(version, requests, folder):
    """Runs requests through the C++ loader in a process of its own.

    Args:
        version: folder of the exported model.
        requests: dict from `<request>/<signature>/<input>` to an array.
        folder: where the files of the exchange go.

    Returns:
        dict from `<request>/<output>` to an array.
    """
    asked, answered = folder / "requests.npz", folder / "answers.npz"
    np.savez(asked, **requests)
    script = pathlib.Path(c_loader.__file__)
    subprocess.run([sys.executable, script, version, asked, answered], check=True)
    with np.load(answered) as arrays:
        return {name: arrays[name] for name in arrays.files}


def only(answers, request):
    """The one output of a request."""
    [value] = [value for name, value in answers.items() if name.startswith(request + "/")]
    return value


def serve_everything(version, images, folder):
    """Encodes and decodes digits, varies two codes, and draws new digits, all served."""
    codes = only(serve(version, {"digits/encode/image": images}, folder), "digits")
    # Every class of every variable of the first digit's code, to see what each one does.
    probes = np.repeat(codes[:1], VARIABLES * CLASSES, axis=0)
    probes[np.arange(len(probes)), np.repeat(np.arange(VARIABLES), CLASSES)] = np.tile(
        np.arange(CLASSES), VARIABLES
    )
    effects = only(serve(version, {"probes/decode/codes": probes}, folder), "probes")
    effects = effects.reshape([VARIABLES, CLASSES, -1]).var(1).sum(-1)
    first, second = np.argsort(effects)[::-1][:2]
    # And every pair of classes of the two that do most.
    grid = np.repeat(codes[:1], CLASSES * CLASSES, axis=0)
    grid[:, first] = np.repeat(np.arange(CLASSES), CLASSES)
    grid[:, second] = np.tile(np.arange(CLASSES), CLASSES)
    seeds = np.stack([np.arange(40), np.zeros(40)], -1).astype(np.int32)
    answers = serve(
        version,
        {"decoded/decode/codes": codes, "grid/decode/codes": grid, "new/generate/seeds": seeds},
        folder,
    )
    varied = only(answers, "grid").reshape([CLASSES, CLASSES, 28, 28])
    return {
        "codes": codes,
        "decoded": only(answers, "decoded"),
        "grid": varied,
        "grid_variables": (int(first), int(second)),
        "new": only(answers, "new"),
    }


def draw_page(history, images, served, shares, summary):
    """Everything on one page."""
    figure = plt.figure(figsize=(13, 13.5), layout="constrained")
    figure.suptitle(summary, fontsize=11)
    panels = figure.subplot_mosaic(
        [["digits", "digits"], ["grid", "new"], ["curve", "gap"], ["usage", "codes"]],
        height_ratios=[0.55, 1.5, 0.8, 0.8],
    )
    tfc.plots.reconstructions(
        images[:20],
        served["decoded"][:20],
        panels["digits"],
        "test digits, and what the served model decodes from their 48 bits",
    )
    first, second = served["grid_variables"]
    tfc.plots.code_grid(
        served["grid"],
        panels["grid"],
        "one code, two of its variables varied",
        f"class of variable {first}",
        f"class of variable {second}",
    )
    tfc.plots.image_grid(served["new"], 8, panels["new"], "new digits from random codes")
    epochs = np.arange(1, len(history["loss"]) + 1)
    tfc.plots.curves(
        {
            "relaxed, train": (epochs, history["loss"]),
            "discrete, test": (epochs, history["val_loss"]),
        },
        panels["curve"],
        "negative bound",
        ylabel="nats",
    )
    tfc.plots.curves(
        {"discrete less relaxed, test": (epochs, history["val_discretization_gap"])},
        panels["gap"],
        "discretization gap",
        ylabel="nats",
    )
    tfc.plots.category_usage(shares, panels["usage"])
    panels["codes"].imshow(served["codes"][:20], cmap="tab10", vmin=0, vmax=9, aspect="auto")
    panels["codes"].set(title="codes of the digits above", xlabel="variable", ylabel="digit")
    return figure


def main(arguments=None):
    options = common.parser(__doc__, epochs=40, data=True)
    settings = common.parse(options, arguments)
    keras.utils.set_random_seed(settings.seed)
    (x, _), (x_test, _) = datasets.load_images(
        "binarized_mnist",
        data_dir=datasets.data_directory(settings.data_dir),
        smoke=settings.smoke,
    )

    model = build_model(x.mean(0), settings.seed)
    model.compile(keras.optimizers.Adam(1e-3), jit_compile=True)
    epochs = 2 if settings.smoke else settings.epochs
    history = model.fit(x, batch_size=64, epochs=epochs, validation_data=(x_test, None), verbose=2)

    samples = 20 if settings.smoke else 500
    likelihood = model.log_likelihood(x_test, num_samples=samples, seed=settings.seed)
    final = model.evaluate(x_test, verbose=0, return_dict=True)
    version = tfc.export.save_discrete(model, settings.output / "served")
    print(tfc.export.inspect(version))

    served = serve_everything(version, x_test[:1000], settings.output)
    same = np.array_equal(served["codes"], model.encode(x_test[:1000]))
    print(f"codes of the served model equal the Keras model's: {'yes' if same else 'NO'}")
    usage = tfc.diagnostics.category_usage(keras.utils.to_categorical(served["codes"], CLASSES))
    shares = usage.frequencies.numpy()
    summary = (
        f"{len(x):,} digits, {epochs} epochs: discrete bound {final['loss']:.1f} nats, gap "
        f"{final['discretization_gap']:.2f}, test NLL {-likelihood.mean():.1f} (L_{samples})"
    )
    print(summary)
    page = settings.output / "discrete_vae.png"
    figure = draw_page(history.history, x_test, served, shares, summary)
    figure.savefig(page, dpi=100)
    plt.close(figure)
    print(
        f"mean perplexity {np.mean(usage.perplexity):.1f} of {CLASSES} classes, "
        f"{int(np.sum(usage.dead_classes))} of {shares.size} never used"
    )
    print(f"open {page}; the model is served from {version}")
    print(
        "next: keras_examples/export_and_serve.py puts it behind TF Serving, and "
        "keras_examples/temperature_study.py shows what the temperature does"
    )


if __name__ == "__main__":
    main()
