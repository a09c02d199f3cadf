"""The prior of a discrete latent: uniform, given, or learned."""

import numpy as np

from tfconcrete._checks import invalid_type, invalid_value, is_number

_EXPECTED = 'a number, an array or "trainable"'


def check_prior(prior_logits):
    """None, a finite number, an array of them, or "trainable"; arrays become float32."""
    if prior_logits is None:
        return None
    if isinstance(prior_logits, str):
        if prior_logits != "trainable":
            raise invalid_value("prior_logits", _EXPECTED, prior_logits)
        return prior_logits
    if hasattr(prior_logits, "assign"):
        expected = _EXPECTED + " (a variable would be read once)"
        raise invalid_type("prior_logits", expected, prior_logits)
    try:
        values = np.asarray(prior_logits, np.float32)
    except (TypeError, ValueError):
        raise invalid_type("prior_logits", _EXPECTED, prior_logits) from None
    if not np.isfinite(values).all():
        raise invalid_value("prior_logits", _EXPECTED + ", finite", prior_logits)
    return float(values) if is_number(prior_logits) else values


def make_prior(latent, prior_logits, add_weight, fit):
    """The prior's parameters, in the structure of the latent's.

    Args:
        latent: The `Latent` that the prior is on.
        prior_logits: As `check_prior` returns it.
        add_weight: `add_weight` of the model, for a learned prior.
        fit: `tfc.calibration.fit_igr_prior`, for parameters that are no logits.

    Returns:
        Arrays or weights `[1, ...]`; along a dimension of unknown size there is one value.
    """
    variable, params_shape = latent.variable, latent.params_shape
    if isinstance(prior_logits, str):
        several = variable.num_params > 1
        shapes = params_shape if several else [params_shape]
        weights = [_add_prior_weight(add_weight, shape) for shape in shapes]
        return weights if several else weights[0]
    temperature = float(latent.layer.temperature.numpy())
    return variable.prior_params(prior_logits, params_shape, temperature, fit)


def _add_prior_weight(add_weight, shape):
    if None in shape[1:]:
        raise invalid_value(
            "prior_logits", f"a fixed prior for parameters of shape {shape}", "trainable"
        )
    return add_weight(
        name="prior", shape=(1, *shape[1:]), initializer="zeros", dtype="float32", autocast=False
    )
