"""Sampling and training side by side with PyTorch, where torch is installed."""

import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from benchmarks.report import Figure
from benchmarks.sampling import SEED, with_gradient
from benchmarks.torch_peer import interleaved_with

SHAPES = ((200, 32, 64), (256, 1, 1000), (32, 1, 32000))


def sampling(peer, shapes=SHAPES):
    """Relaxed sample, forward and backward, XLA against torch.compile(F.gumbel_softmax)."""
    for shape in shapes:
        what = f"relaxed sample against torch.compile, {shape}"
        if peer is None:
            yield Figure(what, None, 0.9, note="no torch here: set TORCH_PYTHON")
            continue
        rng = np.random.default_rng(0)
        logits = tf.constant(rng.normal(size=shape), tf.float32)
        weight = tf.constant(rng.normal(size=shape), tf.float32)
        ours = tf.function(
            with_gradient(lambda x, seed: tfc.relaxations.concrete(x, 0.5, seed=seed), weight),
            jit_compile=True,
        )
        peer.make("gumbel_softmax", shape, True)
        yield Figure(what, interleaved_with(peer, lambda: ours(logits, SEED)), 0.9)  # noqa: B023
