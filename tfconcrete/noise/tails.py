"""Where noise ends: 32 bits reach so far into a tail and no further."""

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfconcrete._checks import check_choice
from tfconcrete.noise.gumbel import gumbel_of
from tfconcrete.noise.logistic import logistic_of
from tfconcrete.noise.normal import normal_of
from tfconcrete.noise.uniform import open_interval

# From the law's name to noise from words, and to its distribution function and survivals.
_LAWS = {
    "gumbel": (
        gumbel_of,
        lambda x: math.exp(-math.exp(-x)),
        lambda x: -math.expm1(-math.exp(-x)),
    ),
    "logistic": (
        logistic_of,
        lambda x: 1.0 / (1.0 + math.exp(-x)),
        lambda x: 1.0 / (1.0 + math.exp(x)),
    ),
    "normal": (
        normal_of,
        lambda x: math.erfc(-x / math.sqrt(2.0)) / 2.0,
        lambda x: math.erfc(x / math.sqrt(2.0)) / 2.0,
    ),
    "uniform": (open_interval, lambda x: x, lambda x: 1.0 - x),
}
# Where the conversions of unsigned and of signed words have their ends.
_ENDS = np.array([0, 2**31 - 1, 2**31, 2**32 - 1], np.uint32)


class NoiseTail(NamedTuple):
    """The range of a law's noise, and what of the law lies outside it.

    Fields:
        law: `"gumbel"`, `"logistic"`, `"normal"` or `"uniform"`.
        low: The smallest value that can be drawn.
        high: The largest value that can be drawn.
        below: The probability that the exact law gives to values below `low`.
        above: The probability that it gives to values above `high`.
    """

    law: str
    low: float
    high: float
    below: float
    above: float

    def cut(self, num_draws: int) -> float:
        """The chance that one of `num_draws` exact draws would lie outside the range."""
        return -math.expm1(num_draws * math.log1p(-(self.below + self.above)))


def noise_tail(law: str) -> NoiseTail:
    """How far the noise of a law reaches, from the words at the ends of its conversion.

    Args:
        law: `"gumbel"`, `"logistic"`, `"normal"` or `"uniform"`.

    Returns:
        A `NoiseTail`.

    Example:

    >>> tail = tfc.noise.noise_tail("gumbel")
    >>> round(tail.low, 2), round(tail.high, 2)
    (-2.81, 22.87)
    >>> f"{tail.above:.1e}"
    '1.2e-10'
    """
    of_words, below, above = _LAWS[check_choice(law, "law", tuple(_LAWS))]
    values = of_words(tf.constant(_ENDS)).numpy().astype(np.float64)
    low, high = float(values.min()), float(values.max())
    return NoiseTail(law, low, high, below(low), above(high))
