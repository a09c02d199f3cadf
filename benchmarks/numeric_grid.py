"""Where log densities of relaxed samples, and their gradients, are finite.

A cell is one temperature, number of classes, scale of the logits, dtype and form. It
counts as finite where every draw, the log density of that draw as a plain tensor, and
the gradients of both with respect to logits and temperature are finite.

    python -m benchmarks.numeric_grid

prints a Markdown table with a column for tfconcrete and for each installed peer:
TensorFlow Probability, and PyTorch where it can be imported.
"""

import functools
import importlib.util
import itertools

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc

TEMPERATURES = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 10.0)
NUM_CLASSES = (2, 10, 100, 1000)
SCALES = (0.0, 1.0, 10.0, 100.0)
DTYPES = ("float32", "float64")
FORMS = ("simplex", "log", "binary")
NUM_DRAWS = 20

TFCONCRETE = {
    "simplex": tfc.distributions.Concrete,
    "log": tfc.distributions.ExpConcrete,
    "binary": tfc.distributions.BinConcrete,
}
TFP = {
    "simplex": tfp.distributions.RelaxedOneHotCategorical,
    "log": tfp.distributions.ExpRelaxedOneHotCategorical,
    "binary": tfp.distributions.RelaxedBernoulli,
}


def standard_logits(num_classes):
    """The logits at scale 1, the same for every cell with these classes."""
    return np.random.default_rng(num_classes).standard_normal(num_classes)


def evaluate(make, form, temperatures, logits, num_draws=NUM_DRAWS, seed=(0, 0)):
    """Whether each cell of a batch is finite.

    Args:
        make: From a temperature and logits to a TFP distribution.
        form: One of `FORMS`; "binary" takes the classes as independent elements.
        temperatures: float tensor `[...]`.
        logits: float tensor `[..., num_classes]`.
        num_draws: Draws in each cell.
        seed: Two ints.

    Returns:
        Boolean tensor `[...]`.
    """
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([temperatures, logits])
        binary = form == "binary"
        distribution = make(temperatures[..., tf.newaxis] if binary else temperatures, logits)
        sample = distribution.sample(num_draws, seed=tf.constant(seed))
        # A plain tensor: no cache of a bijector recognises it.
        log_prob = distribution.log_prob(tf.identity(sample))
        if binary:
            log_prob = tf.reduce_sum(log_prob, -1)
        # Fixed weights, since the gradient of a simplex point's plain sum is zero.
        weights = tf.cast(tf.linspace(-1.0, 1.0, logits.shape[-1]), sample.dtype)
        weighted = tf.reduce_sum(weights * sample)
    finite = _all_finite(sample, [0, -1]) & _all_finite(log_prob, [0])
    for target in (log_prob, weighted):
        by_temperature, by_logits = tape.gradient(target, [temperatures, logits])
        finite &= tf.math.is_finite(by_temperature) & _all_finite(by_logits, [-1])
    return finite


def _all_finite(value, axis):
    return tf.reduce_all(tf.math.is_finite(value), axis)


def tensorflow_column(families, num_draws=NUM_DRAWS, jit_compile=False, **subset):
    """The finite cells of a family of TFP distributions, as `{cell: bool}`.

    A cell is `(form, dtype, temperature, num_classes, scale)`. Temperatures and scales
    are one batch.
    """
    temperatures = subset.get("temperatures", TEMPERATURES)
    scales = subset.get("scales", SCALES)
    column = {}
    for form, dtype, num_classes in itertools.product(
        subset.get("forms", FORMS),
        subset.get("dtypes", DTYPES),
        subset.get("num_classes", NUM_CLASSES),
    ):
        batch = [len(temperatures), len(scales)]
        logits = np.array(scales)[:, np.newaxis] * standard_logits(num_classes)
        run = functools.partial(evaluate, families[form], form, num_draws=num_draws)
        if jit_compile:
            run = tf.function(run, jit_compile=True)
        finite = run(
            tf.constant(np.broadcast_to(np.array(temperatures)[:, None], batch), dtype),
            tf.constant(np.broadcast_to(logits, [*batch, num_classes]), dtype),
        ).numpy()
        for (i, temperature), (j, scale) in itertools.product(
            enumerate(temperatures), enumerate(scales)
        ):
            column[form, dtype, temperature, num_classes, scale] = bool(finite[i, j])
    return column


def torch_column(num_draws=NUM_DRAWS):
    """The finite cells of PyTorch's distributions, one cell at a time."""
    import torch
    from torch.distributions import relaxed_bernoulli, relaxed_categorical

    families = {
        "simplex": relaxed_categorical.RelaxedOneHotCategorical,
        "log": relaxed_categorical.ExpRelaxedCategorical,
        "binary": relaxed_bernoulli.RelaxedBernoulli,
    }
    torch.manual_seed(0)
    column = {}
    for cell in itertools.product(FORMS, DTYPES, TEMPERATURES, NUM_CLASSES, SCALES):
        form, dtype, temperature, num_classes, scale = cell
        dtype = getattr(torch, dtype)
        temperature = torch.tensor(temperature, dtype=dtype, requires_grad=True)
        logits = torch.tensor(scale * standard_logits(num_classes), dtype=dtype, requires_grad=True)
        distribution = families[form](temperature, logits=logits, validate_args=False)
        sample = distribution.rsample((num_draws,))
        log_prob = distribution.log_prob(sample.clone())
        weights = torch.linspace(-1.0, 1.0, num_classes, dtype=dtype)
        values = [sample, log_prob]
        for target in (log_prob.sum(), (weights * sample).sum()):
            values += torch.autograd.grad(target, [temperature, logits], retain_graph=True)
        column[cell] = all(bool(torch.isfinite(value).all()) for value in values)
    return column


def columns():
    """The column of each installed library, ours first."""
    found = {
        f"tfconcrete {tfc.__version__}": tensorflow_column(TFCONCRETE),
        f"TFP {tfp.__version__}": tensorflow_column(TFP),
    }
    if importlib.util.find_spec("torch") is not None:
        import torch

        found[f"PyTorch {torch.__version__}"] = torch_column()
    return found


def markdown(table):
    """The table of finite cells, one row for each form, dtype and temperature."""
    names = list(table)
    lines = [
        "| form | dtype | temperature | cells | " + " | ".join(names) + " |",
        "|---|---|---|---|" + "---|" * len(names),
    ]

    def row(label, keep):
        cells = [cell for cell in table[names[0]] if keep(cell)]
        counts = [sum(table[name][cell] for cell in cells) for name in names]
        lines.append(f"| {label} | {len(cells)} | " + " | ".join(map(str, counts)) + " |")

    for key in itertools.product(FORMS, DTYPES, TEMPERATURES):
        row(" | ".join(map(str, key)), lambda cell, key=key: cell[:3] == key)
    row("all | all | all", lambda cell: True)
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown(columns()))
