"""The prior of a discrete latent: fixed, given, or learned."""

import numpy as np

from tfconcrete._checks import invalid_type, invalid_value, is_number

_EXPECTED = 'a number, an array or "trainable"'


def check_prior(prior_logits):
    """None, a finite number, an array of them, or "trainable"; arrays become float32."""
    if prior_logits is None or is_number(prior_logits):
        if prior_logits is not None and not np.isfinite(prior_logits):
            raise invalid_value("prior_logits", _EXPECTED, prior_logits)
        return prior_logits
    if isinstance(prior_logits, str):
        if prior_logits != "trainable":
            raise invalid_value("prior_logits", _EXPECTED, prior_logits)
        return prior_logits
    try:
        array = np.asarray(prior_logits, np.float32)
    except (TypeError, ValueError):
        raise invalid_type("prior_logits", _EXPECTED, prior_logits) from None
    if np.isnan(array).any():
        raise invalid_value("prior_logits", _EXPECTED + " without NaN", prior_logits)
    return array


def full_prior(prior_logits, shape):
    """Logits of a fixed prior, `[1, *shape]`, where `shape` is that of one example.

    Along a dimension of unknown size the prior is the same everywhere.
    """
    known = [1 if size is None else size for size in shape]
    values = np.zeros([], np.float32) if prior_logits is None else np.float32(prior_logits)
    try:
        return np.broadcast_to(values, known)[np.newaxis].copy()
    except ValueError:
        raise ValueError(
            "Invalid value received for argument `prior_logits`. Expected a number or an array "
            f"that broadcasts to the latent's parameters, of shape {tuple(shape)} for each "
            f"example. Received: prior_logits of shape {np.shape(values)}"
        ) from None
