"""Output biases from the data's base rate (Concrete, Appendix D.3)."""

from typing import Any

import numpy as np

from tfconcrete._checks import invalid_value


def base_rate_bias(data: Any) -> np.ndarray:
    """The logit of how often each unit is on, for the bias of a decoder's last layer.

    Args:
        data: array `[examples, ...]` in [0, 1], the training data.

    Returns:
        float32 array `[...]`. Each rate counts one example more on and one more off, so
        that a pixel which is never on has a finite bias.

    Example:

    >>> bias = tfc.objectives.base_rate_bias(np.array([[0.0, 1.0], [0.0, 1.0]]))
    >>> bias.round(4)
    array([-1.0986,  1.0986], dtype=float32)
    >>> start = keras.initializers.Constant(bias)
    >>> layer = keras.layers.Dense(2, bias_initializer=start)
    """
    data = np.asarray(data)
    if data.ndim < 2 or not len(data):
        raise invalid_value("data", "shape [examples, ...], at least one example", data.shape)
    total = data.sum(axis=0, dtype=np.float64)
    if not (np.isfinite(total).all() and data.min() >= 0 and data.max() <= 1):
        raise ValueError(
            "Invalid value received for argument `data`. Expected finite values in [0, 1]. "
            f"Received: data from {data.min()} to {data.max()}"
        )
    rate = (total + 1.0) / (len(data) + 2.0)
    return np.log(rate / (1.0 - rate)).astype(np.float32)
