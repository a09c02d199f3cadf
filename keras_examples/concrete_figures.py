"""Figures 2 and 3 of the Concrete paper, from real densities and real samples.

Title: What a relaxed discrete variable looks like
Reference: Maddison, Mnih & Teh (2017), Figures 2 and 3.

Figure 2 shows a three-class variable with alpha = (2, 0.5, 1): the discrete masses, and
the Concrete densities at temperatures 0.5, 1 and 2. Figure 3 shows a binary variable: a
noisy logit through a step, and through sigmoids of growing temperature. Each panel draws
the package's density and, over or under it, samples from the package's sampler.
"""

import matplotlib.pyplot as plt
import numpy as np

import tfconcrete as tfc
from keras_examples import common

ALPHA = (2.0, 0.5, 1.0)
TEMPERATURES = (0.5, 1.0, 2.0)
BINARY_LOGIT = 0.7


def simplex_grid(steps):
    """The centres of a triangular grid on the open simplex, `[n, 3]`."""
    i, j = np.meshgrid(np.arange(steps), np.arange(steps))
    inside = i + j < steps
    x = (np.stack([i[inside], j[inside]], -1) + 1 / 3) / steps
    return np.concatenate([x, 1 - x.sum(-1, keepdims=True)], -1)


def figure_2(samples, seed):
    """Masses at temperature 0, then density over samples at each temperature."""
    figure, axes = plt.subplots(2, 4, figsize=(12, 6), layout="constrained")
    axes[0, 0].set_ylabel("density")
    tfc.plots.simplex_masses(ALPHA, axes[0, 0], "temperature 0: the masses")
    logits = np.log(np.array(ALPHA))
    grid = simplex_grid(150)
    for column, temperature in enumerate(TEMPERATURES, start=1):
        law = tfc.distributions.Concrete(temperature, logits=logits)
        density = law.prob(grid).numpy()
        tfc.plots.simplex_density(grid, density, axes[0, column], f"density, {temperature}")
        draws = law.sample(samples, seed=seed).numpy()
        tfc.plots.simplex_points(draws, axes[1, column], f"samples, {temperature}")
    draws = law.discrete().sample(samples, seed=seed).numpy()
    tfc.plots.simplex_masses(draws.mean(0), axes[1, 0], f"shares of {samples:,} draws")
    figure.suptitle(r"Concrete variables with $\alpha$ = (2, 0.5, 1)")
    return figure


def figure_3(samples, seed):
    """The step, then the sigmoid at each temperature, with the density of its output."""
    figure, axes = plt.subplots(1, 4, figsize=(14, 3.4), layout="constrained")
    inputs = np.linspace(-6, 6, 601)
    noisy = tfc.distributions.LogitBinConcrete(1.0, logits=np.float64(BINARY_LOGIT))
    input_density = noisy.prob(inputs).numpy()
    share = float(noisy.discrete().probs_parameter())
    tfc.plots.binary_relaxation(
        inputs,
        input_density,
        [0.0, 1.0],
        [1 - share, share],
        inputs > 0,
        ax=axes[0],
        title="temperature 0: the step",
    )
    outputs = np.linspace(0.002, 0.998, 499)
    for ax, temperature in zip(axes[1:], TEMPERATURES, strict=True):
        law = tfc.distributions.BinConcrete(temperature, logits=np.float64(BINARY_LOGIT))
        tfc.plots.binary_relaxation(
            inputs,
            input_density,
            outputs,
            law.prob(outputs).numpy(),
            1 / (1 + np.exp(-inputs / temperature)),
            samples=law.sample(samples, seed=seed).numpy(),
            ax=ax,
            title=f"temperature {temperature}",
        )
    return figure


def main(arguments=None):
    options = common.parser(__doc__)
    options.add_argument("--samples", type=int, default=5_000, help="draws in each panel")
    settings = common.parse(options, arguments)
    if settings.samples < 1:
        common.fail(f"--samples must be at least 1, not {settings.samples}")
    samples = 500 if settings.smoke else settings.samples
    for name, draw in (("concrete_figure_2", figure_2), ("concrete_figure_3", figure_3)):
        path = settings.output / f"{name}.png"
        figure = draw(samples, settings.seed)
        figure.savefig(path, dpi=110)
        plt.close(figure)
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
