"""How near to the vertices, and with what gradients: IGR against Concrete variables.

Title: Comparable temperatures, and the gradients they leave
Reference: Potapczynski, Loaiza-Ganem & Cunningham (2020), Figures 1, 4, 5 and 12, App. A.

A temperature means different things for different relaxations. `--study temperatures`
finds, for ten uniform classes, the ones at which 75% of the samples are within 0.2 of a
vertex, and draws how the distances are distributed: for 50-class Concrete variables
(Figure 1), at the paired temperatures (in place of Figure 5's trained posteriors: the
uniform distribution and 200 random peaked ones), and over a range of temperatures for both
(Figure 12). `--study gradients` reports the share of exactly-zero entries of dz/dalpha
(dz/dloc for IGR) and the variance of gradients at the paired temperatures (Figure 4's
statement). `--study all` does both.

What comes out: about 0.162 and 0.081. Figure 4's statement, fewer vanishing gradients for
IGR, holds at Appendix F's pair (0.15, 0.1), but not at the calibrated one, where IGR has
1.0% zeros against 0.4%, nor at the tables' (0.25, 0.1). Single-sample gradients of IGR
have the larger variance in its own units, and about the same relative to their mean.
"""

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from keras_examples import common

NUM_CLASSES = 10
PAPER_PAIRS = ((0.15, 0.1), (0.25, 0.1), (0.67, 0.5))  # Appendix F; Tables 1 and 2


def uniform_igr_loc():
    """The location at which an IGR of scale 1 rounds to ten uniform classes."""
    uniform = np.full(NUM_CLASSES, 1 / NUM_CLASSES)
    return tfc.calibration.fit_igr_prior(uniform, temperature=0.1).loc


def concrete(temperature, logits=None):
    logits = tf.zeros([NUM_CLASSES]) if logits is None else logits
    return tfc.distributions.Concrete(temperature, logits=logits)


def igr(loc, scale=1.0):
    return lambda temperature: tfc.distributions.IGR(
        loc, tf.fill(tf.shape(loc)[-1:], scale), temperature
    )


def distances(law, samples, seed):
    return tfc.calibration.vertex_distance(law.sample(samples, seed=seed)).numpy().ravel()


def violins(ax, columns, labels, title):
    """One distribution of distances above each label, and the line at 0.2."""
    parts = ax.violinplot(columns, showextrema=False, widths=0.85, points=200)
    for body in parts["bodies"]:
        body.set_facecolor("#6baed6")
        body.set_alpha(0.9)
    for position, column in enumerate(columns, start=1):
        ax.plot([position - 0.2, position + 0.2], [np.quantile(column, 0.75)] * 2, color="#08306b")
    ax.axhline(0.2, color="#cb181d", linewidth=0.8, linestyle="--")
    ax.set_xticks(np.arange(1, len(labels) + 1), labels)
    ax.set(ylim=(0, 1), title=title, xlabel="temperature", ylabel="distance to a vertex")
    ax.spines[["top", "right"]].set_visible(False)


def figure_1(samples, seed):
    """50-class Concrete variables at the temperatures in use."""
    figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
    temperatures = (0.05, 0.1, 0.25, 0.5, 2 / 3, 1.0)
    logits = tf.zeros([50])
    columns = [distances(concrete(t, logits), samples, seed) for t in temperatures]
    violins(ax, columns, [f"{t:.2f}" for t in temperatures], "Concrete, 50 uniform classes")
    return figure


def figure_5(pair, loc, samples, seed):
    """The calibrated pair, for the uniform distribution and for peaked ones."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharey=True)
    gs, gaussian = pair
    rng = np.random.default_rng(seed)
    logits = tf.constant(2.0 * rng.normal(size=[200, NUM_CLASSES]), tf.float32)
    locations = logits[:, :-1] - logits[:, -1:]
    columns = [
        [distances(concrete(gs), samples, seed), distances(igr(loc)(gaussian), samples, seed)],
        [
            distances(concrete(gs, logits), samples // 200 + 1, seed),
            distances(igr(locations, 0.5)(gaussian), samples // 200 + 1, seed),
        ],
    ]
    labels = [f"Concrete {gs:.3f}", f"IGR {gaussian:.3f}"]
    for ax, column, title in zip(axes, columns, ("uniform", "200 peaked ones"), strict=True):
        violins(ax, column, labels, title)
    return figure


def figure_12(loc, samples, seed):
    """Both families over a range of temperatures."""
    figure, axes = plt.subplots(2, 1, figsize=(7, 6.4), layout="constrained")
    temperatures = (0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5)
    labels = [f"{t:g}" for t in temperatures]
    for ax, make, title in zip(
        axes,
        (concrete, igr(loc)),
        ("Concrete, ten classes", "IGR of scale 1, ten classes"),
        strict=True,
    ):
        violins(ax, [distances(make(t), samples, seed) for t in temperatures], labels, title)
    return figure


def calibrate(loc, samples, seed):
    options = {"num_samples": samples, "seed": seed}
    return (
        tfc.calibration.calibrate_temperature(concrete, **options),
        tfc.calibration.calibrate_temperature(igr(loc), **options),
    )


def study_temperatures(pair, loc, samples, settings):
    share = [
        np.mean(distances(law, samples, settings.seed + 1) <= 0.2)
        for law in (concrete(pair[0]), igr(loc)(pair[1]))
    ]
    print("| family | temperature | within 0.2 of a vertex |\n|---|---|---|")
    for family, temperature, near in zip(("Concrete", "IGR, scale 1"), pair, share, strict=True):
        print(f"| {family} | {temperature:.4f} | {near:.3f} |")
    figures = {
        "distances_figure_1": lambda: figure_1(samples, settings.seed),
        "distances_figure_5": lambda: figure_5(pair, loc, samples, settings.seed),
        "distances_figure_12": lambda: figure_12(loc, samples, settings.seed),
    }
    for name, draw in figures.items():
        path = settings.output / f"{name}.png"
        figure = draw()
        figure.savefig(path, dpi=110)
        plt.close(figure)
        print(f"wrote {path}")


def study_gradients(pair, loc, samples, settings):
    rows = tfc.diagnostics.compare_relaxations(
        [pair, *PAPER_PAIRS], NUM_CLASSES, loc, num_samples=samples, seed=settings.seed
    )
    lines = [
        "| pair | family | temperature | zeros in dz/dalpha | gradient variance | over mean^2 |",
        "|---|---|---|---|---|---|",
    ]
    names = ["calibrated", "Appendix F", "tables, low", "tables, high"]
    for name, row in zip(names, rows, strict=True):
        for result in row:
            lines.append(
                f"| {name} | {result.family} | {result.temperature:.3f} | "
                f"{result.vanishing:.5f} | {result.variance:.4f} | {result.noise:.2f} |"
            )
    print("\n".join(lines))
    path = settings.output / "relaxation_gradients.md"
    path.write_text("\n".join(lines) + "\n")
    print(f"wrote {path}")


def main(arguments=None):
    options = common.parser(__doc__)
    options.add_argument(
        "--study", choices=("all", "temperatures", "gradients"), default="all", help="what to do"
    )
    options.add_argument("--samples", type=int, default=20_000, help="samples of each law")
    settings = common.parse(options, arguments)
    if settings.samples < 100:
        common.fail(f"--samples must be at least 100, not {settings.samples}")
    samples = 1_000 if settings.smoke else settings.samples
    loc = uniform_igr_loc()
    pair = calibrate(loc, 5 * samples, settings.seed)
    if settings.study != "gradients":
        study_temperatures(pair, loc, samples, settings)
    if settings.study != "temperatures":
        study_gradients(pair, loc, samples, settings)


if __name__ == "__main__":
    main()
