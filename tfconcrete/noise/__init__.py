"""Noise on the open interval: a shape and a seed in, float32 out (stage 1)."""

from tfconcrete.noise.gumbel import gumbel, gumbel_given_winner
from tfconcrete.noise.logistic import logistic
from tfconcrete.noise.normal import normal
from tfconcrete.noise.tails import NoiseTail, noise_tail
from tfconcrete.noise.uniform import uniform

__all__ = [
    "NoiseTail",
    "gumbel",
    "gumbel_given_winner",
    "logistic",
    "noise_tail",
    "normal",
    "uniform",
]
