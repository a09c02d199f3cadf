"""Prior logits as arrays that fit one example's parameters."""

import numpy as np


def broadcast_prior(values, params_shape):
    """`values` as a float32 array `[1, ...]` of the parameters' shape for one example.

    Along a dimension of unknown size there is one value.
    """
    shape = [1 if size is None else size for size in params_shape[1:]]
    values = np.asarray(values, np.float32)
    try:
        return np.broadcast_to(values, shape)[np.newaxis].copy()
    except ValueError:
        raise ValueError(
            "Invalid value received for argument `prior_logits`. Expected a number or an "
            f"array that broadcasts to {tuple(params_shape[1:])}, the latent's parameters for "
            f"one example. Received: prior_logits of shape {values.shape}"
        ) from None
