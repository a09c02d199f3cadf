"""Sampling, densities and training side by side with PyTorch and JAX, under XLA."""

import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from benchmarks.peers.process import PEERS, in_turns
from benchmarks.report import Figure
from benchmarks.sampling import SEED, SHAPES, with_gradient
from benchmarks.training import BATCH, EXECUTIONS, STEPS, fitter

_SAMPLES = {
    "relaxed": lambda x, seed: tfc.relaxations.concrete(x, 0.5, seed=seed),
    "stgs": lambda x, seed: tfc.estimators.straight_through_gumbel_softmax(x, 0.5, seed=seed),
    "gst": lambda x, seed: tfc.estimators.gapped_straight_through(x, 0.5, seed=seed),
}
_LATENTS = {
    "stgs": lambda: tfc.ConcreteSample(0.5, hard=True, seed=0),
    "gst": lambda: tfc.GapStraightThrough(0.5, seed=0),
}
LARGE = 250_000


def _figure(what, peers, name, make, ours, goal=None, **turns):
    """One comparison, or what is missing for it; `make` are a peer's maker and arguments."""
    what = f"{what}, against {name}"
    if name not in peers:
        return Figure(what, None, goal, note=f"no {name} here: set {PEERS[name]}")
    peers[name].make(*make)
    mine, theirs = in_turns(peers[name], ours, **turns)
    rounds = theirs / mine
    spread = np.quantile(rounds, [0.25, 0.75])
    note = f"{np.median(mine) * 1e3:.3g} ms, quarters {spread[0]:.2f} to {spread[1]:.2f}"
    return Figure(what, float(np.median(theirs) / np.median(mine)), goal, note=note)


def _inputs(shape):
    rng = np.random.default_rng(0)
    return [tf.constant(rng.normal(size=shape), tf.float32) for _ in range(2)]


def _compiled(function, logits):
    run = tf.function(function, jit_compile=True)
    return lambda: run(logits, SEED)


def _goal(shape):
    return 1.2 if np.prod(shape) >= LARGE else 1.0


def sampling(peers, shapes=SHAPES):
    """Samples with their gradient: soft, hard (STGS) and GST."""
    for kind, function in _SAMPLES.items():
        for shape in shapes:
            logits, weight = _inputs(shape)
            ours = _compiled(with_gradient(function, weight), logits)
            what = f"{kind} sample with gradient, XLA, {shape}"
            yield _figure(what, peers, "jax", ("sample", shape, kind), ours, _goal(shape))
            if kind == "relaxed" and np.prod(shape) >= LARGE:
                yield _figure(what, peers, "torch", ("sample", shape), ours, 0.9)


def forward(peers, shapes=SHAPES):
    """Hard draws, and log samples with their log density, forward alone."""
    for shape in shapes:
        logits, _ = _inputs(shape)
        draw = _compiled(lambda x, seed: tfc.relaxations.categorical(x, seed=seed), logits)
        yield _figure(f"hard draw, XLA, {shape}", peers, "jax", ("draw", shape), draw)

        def density(x, seed):
            law = tfc.distributions.ExpConcrete(0.5, logits=x)
            return law.experimental_sample_and_log_prob(seed=seed)

        what = f"sample and log density, XLA, {shape}"
        yield _figure(what, peers, "jax", ("log_density", shape), _compiled(density, logits))


def training(peers):
    """`DiscreteVAE.fit` against JAX's scan and steps, and against PyTorch's steps."""
    epoch = {"seconds": 30.0, "min_rounds": 5}
    steps = STEPS * EXECUTIONS
    for estimator, latent in _LATENTS.items():
        ours = fitter(latent(), jit_compile=True, executions=EXECUTIONS)
        what = f"DiscreteVAE.fit, {estimator}, XLA, {steps} steps"
        for maker in ("vae_scan", "vae_steps"):
            make = (maker, BATCH, estimator, STEPS)
            turns = {**epoch, "times": EXECUTIONS}
            yield _figure(f"{what}, {maker}", peers, "jax", make, ours, 1.0, **turns)
        make = ("vae_step", BATCH, estimator)
        yield _figure(what, peers, "torch", make, ours, 1.5, times=steps, **epoch)
    ours = fitter(_LATENTS["stgs"](), jit_compile=False, executions=EXECUTIONS)
    make = ("vae_step", BATCH, "stgs")
    what = f"DiscreteVAE.fit, stgs, graph, {steps} steps"
    yield _figure(what, peers, "torch", make, ours, 1.05, times=steps, **epoch)
