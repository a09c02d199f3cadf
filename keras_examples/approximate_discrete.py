"""Discrete distributions approximated by IGR and Concrete variables (IGR, Figure 2, App. E).

Title: Approximating discrete distributions, also with infinite support
Reference: Potapczynski, Loaiza-Ganem & Cunningham (2020), Section 5.1 and Appendix E.

A relaxed variable z is fitted to a discrete distribution p by matching its mean,
minimising || E[z] - p ||^2 (Eq. 20 as it is meant). Poisson(50) and a negative binomial
of mean 33.3 have infinite support: IGR with stick-breaking cuts each sample where its
sticks sum to the precision, while a Concrete variable needs a number of classes K chosen
in advance (40 and 100). Binomial(12, 0.3) and a ten-class distribution in 46ths have
finite support, and both methods.

Both methods get the same objective, the same start (equal logits, equal sticks, or the
location that rounds to uniform classes) and the same number of Adam steps. The table
gives the total variation distance between the target and what rounding the samples gives,
and between the target and the mean of the samples. What lies beyond K classes counts as
missed.

What comes out after 1,000 steps: as in the paper, a Concrete variable with K = 40 cannot
reach the right tail, and both methods fit the finite distributions. Unlike the paper's
picture, a Concrete variable with K = 100 ends nearer to both infinite targets (total
variation 0.04 and 0.03) than IGR with stick-breaking (0.12 and 0.09), which leaves the
left flank of the Poisson empty: an early stick that is rarely long is hard to learn.
"""

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc
from keras_examples import common

tfd = tfp.distributions

CONCRETE_TEMPERATURE = 0.25
IGR_TEMPERATURE, DELTA = 0.1, 0.1
MAX_CLASSES = 200  # of the infinite support
PRECISION = 0.999
FORTY_SIXTHS = np.array([10, 1, 5, 1, 10, 10, 1, 6, 1, 1]) / 46


def probabilities(law, size):
    """The mass function of a distribution on 0, 1, ..., size - 1."""
    return law.prob(np.arange(size, dtype=np.float32)).numpy().astype(np.float64)


def targets():
    """Name: probabilities, and how many classes each method gets."""
    binomial = probabilities(tfd.Binomial(12.0, probs=0.3), 13)
    poisson = probabilities(tfd.Poisson(50.0), MAX_CLASSES)
    # 50 successes at 0.6: mean 33.3 failures. TFP's `probs` is that of a failure.
    negative = probabilities(tfd.NegativeBinomial(50.0, probs=0.4), MAX_CLASSES)
    return {
        "Poisson(50)": (poisson, [("IGR-SB", None), ("Concrete", 40), ("Concrete", 100)]),
        "NegativeBinomial(50, 0.6)": (
            negative,
            [("IGR-SB", None), ("Concrete", 40), ("Concrete", 100)],
        ),
        "Binomial(12, 0.3)": (binomial, [("IGR", 13), ("Concrete", 13)]),
        "46ths": (FORTY_SIXTHS, [("IGR", 10), ("Concrete", 10)]),
    }


class Relaxation:
    """A trainable relaxed variable that starts at the uniform distribution."""

    def __init__(self, method, num_classes):
        self.method = method
        self.name = method if num_classes is None else f"{method}, K={num_classes}"
        if method == "Concrete":
            start = [np.zeros(num_classes)]
        elif method == "IGR-SB":
            # Sticks of equal length: each takes 1 / (those left) of what is left.
            left = np.arange(MAX_CLASSES, 0, -1)
            start = [-np.log(left), np.zeros(MAX_CLASSES)]
        else:
            uniform = np.full(num_classes, 1 / num_classes)
            loc = tfc.calibration.fit_igr_prior(uniform, IGR_TEMPERATURE, delta=DELTA).loc
            start = [loc, np.zeros(num_classes - 1)]
        self.variables = [keras.Variable(value, dtype="float32") for value in start]

    def distribution(self):
        if self.method == "Concrete":
            return tfc.distributions.Concrete(CONCRETE_TEMPERATURE, logits=self.variables[0])
        loc, log_scale = (tf.convert_to_tensor(v) for v in self.variables)
        if self.method == "IGR":
            return tfc.distributions.IGR(loc, tf.exp(log_scale), IGR_TEMPERATURE, delta=DELTA)
        return tfc.distributions.IGR(
            loc,
            tf.exp(log_scale),
            IGR_TEMPERATURE,
            "stick_breaking",
            delta=DELTA,
            precision=PRECISION,
        )


def aligned(probs, size):
    """`probs` with zeros appended, or with what lies beyond `size` cut off."""
    return np.pad(probs, (0, max(size - len(probs), 0)))[:size]


def fit(relaxation, target, steps, batch, rate, seed, compiled=True):
    """Adam on || mean of a batch - target ||^2."""
    size = relaxation.distribution().event_shape[0]
    goal = tf.constant(aligned(target, size), tf.float32)
    optimizer = keras.optimizers.Adam(rate)
    optimizer.build(relaxation.variables)

    @tf.function(jit_compile=compiled)
    def step(seed):
        with tf.GradientTape() as tape:
            z = relaxation.distribution().sample(batch, seed=seed)
            loss = tf.reduce_sum(tf.square(tf.reduce_mean(z, 0) - goal))
        optimizer.apply(tape.gradient(loss, [v.value for v in relaxation.variables]))
        return loss

    for index in range(steps):
        loss = step(tf.constant([seed, index], tf.int32))
    return float(loss)


def frequencies(relaxation, draws, seed):
    """What rounding gives, and the mean, from fresh samples."""
    rounded, mean, chunk = 0.0, 0.0, 5_000
    for part in range(-(-draws // chunk)):
        z = relaxation.distribution().sample(chunk, seed=tf.constant([seed, part], tf.int32))
        rounded = rounded + tf.reduce_sum(tfc.relaxations.discretize(z), 0).numpy()
        mean = mean + tf.reduce_sum(z, 0).numpy()
    return rounded / rounded.sum(), mean / mean.sum()


def total_variation(probs, target):
    """Half the L1 distance; mass of the target beyond its array counts as missed."""
    size = max(len(probs), len(target))
    probs, goal = aligned(probs, size), aligned(target, size)
    return 0.5 * (np.abs(probs - goal).sum() + max(1.0 - target.sum(), 0.0))


def draw_panels(name, target, results, path):
    """One column for each method: its start above, its end below."""
    figure, axes = plt.subplots(
        2,
        len(results),
        figsize=(4.2 * len(results), 5.2),
        layout="constrained",
        sharex=True,
        sharey="row",
        squeeze=False,
    )
    shown = min(len(target), 110)
    for column, (label, before, after, distance) in enumerate(results):
        for row, probs in enumerate((before, after)):
            ax = axes[row, column]
            ax.bar(np.arange(shown), aligned(probs, shown), width=1.0, color="#6baed6")
            ax.plot(np.arange(shown), target[:shown], color="#cb181d", linewidth=1.2)
        axes[0, column].set_title(f"{label}: start")
        axes[1, column].set_title(f"{label}: TV {distance:.3f}")
        axes[1, column].set_xlabel("value")
    axes[1, 0].set_ylim(0, 1.6 * target.max())
    figure.suptitle(f"{name}: target (line), rounded samples (bars)")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def main(arguments=None):
    options = common.parser(__doc__)
    options.add_argument("--steps", type=int, default=1_000, help="Adam steps of each fit")
    options.add_argument("--rate", type=float, default=0.02, help="Adam's learning rate")
    options.add_argument("--batch", type=int, default=1_000, help="samples in each step")
    settings = common.parse(options, arguments)
    for name in ("steps", "batch", "rate"):
        if getattr(settings, name) <= 0:
            common.fail(f"--{name} must be positive, not {getattr(settings, name)}")
    steps, batch, draws = settings.steps, settings.batch, 100_000
    if settings.smoke:
        steps, batch, draws = 20, 100, 5_000
    lines = [
        "| target | method | TV at the start | TV, rounded | TV, mean |",
        "|---|---|---|---|---|",
    ]
    for name, (target, methods) in targets().items():
        results = []
        for method, num_classes in methods:
            relaxation = Relaxation(method, num_classes)
            before, _ = frequencies(relaxation, draws, settings.seed + 1)
            fit(
                relaxation,
                target,
                steps,
                batch,
                settings.rate,
                settings.seed,
                compiled=not settings.smoke,
            )
            after, mean = frequencies(relaxation, draws, settings.seed + 2)
            distances = [total_variation(p, target) for p in (before, after, mean)]
            results.append((relaxation.name, before, after, distances[1]))
            numbers = " | ".join(f"{distance:.3f}" for distance in distances)
            lines.append(f"| {name} | {relaxation.name} | {numbers} |")
            print(lines[-1], flush=True)
        slug = "".join(c if c.isalnum() else "_" for c in name.lower()).strip("_")
        path = settings.output / f"approximate_{slug}.png"
        draw_panels(name, target, results, path)
        print(f"wrote {path}")
    table = settings.output / "approximate_discrete.md"
    table.write_text("\n".join(lines) + "\n")
    print(f"wrote {table}")


if __name__ == "__main__":
    main()
