"""The prior of a discrete latent: uniform, given, or learned."""

import numpy as np
import tensorflow as tf

from tfconcrete._checks import invalid_type, invalid_value, is_number
from tfconcrete.calibration.prior import fit_igr_prior
from tfconcrete.objectives.latents import GaussianLatent, SoftmaxPlusPlusLatent

_EXPECTED = 'a number, an array or "trainable"'


def check_prior(prior_logits):
    """None, a finite number, an array of them, or "trainable"; arrays become float32."""
    if prior_logits is None:
        return None
    if isinstance(prior_logits, str):
        if prior_logits != "trainable":
            raise invalid_value("prior_logits", _EXPECTED, prior_logits)
        return prior_logits
    try:
        values = np.asarray(prior_logits, np.float32)
    except (TypeError, ValueError):
        raise invalid_type("prior_logits", _EXPECTED, prior_logits) from None
    if not np.isfinite(values).all():
        raise invalid_value("prior_logits", _EXPECTED + ", finite", prior_logits)
    return float(values) if is_number(prior_logits) else values


def make_prior(latent, prior_logits, add_weight):
    """The prior's parameters, in the structure of the latent's.

    Args:
        latent: The `Latent` that the prior is on.
        prior_logits: As `check_prior` returns it.
        add_weight: `add_weight` of the model, for a learned prior.

    Returns:
        Arrays or weights `[1, ...]`; along a dimension of unknown size there is one value.
    """
    params_shape = latent.params_shape
    is_gaussian = isinstance(latent, GaussianLatent)
    if isinstance(prior_logits, str):
        shapes = params_shape if is_gaussian else [params_shape]
        weights = [_add_prior_weight(add_weight, shape) for shape in shapes]
        return weights if is_gaussian else weights[0]
    if not is_gaussian:
        return _broadcast(0.0 if prior_logits is None else prior_logits, params_shape)
    gaussians = _igr_prior(latent, prior_logits, params_shape[0])
    shapes = zip(gaussians, params_shape, strict=True)
    return [_broadcast(value, shape) for value, shape in shapes]


def _add_prior_weight(add_weight, shape):
    if None in shape[1:]:
        raise invalid_value(
            "prior_logits", f"a fixed prior for parameters of shape {shape}", "trainable"
        )
    return add_weight(
        name="prior", shape=(1, *shape[1:]), initializer="zeros", dtype="float32", autocast=False
    )


def _broadcast(values, params_shape):
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


def _igr_prior(latent, prior_logits, loc_shape):
    """`(loc, log_scale)` of an IGR prior.

    Without logits: the layer's own prior; else for softmax++ the Gaussians whose rounding
    is uniform, and for the other transforms, which need not reach every class, standard
    ones. With logits: Gaussians of scale 1 that match their class probabilities, by
    rounding for softmax++, in the mean for the others (IGR, Eq. 20).
    """
    layer = latent.layer
    is_exact = isinstance(latent, SoftmaxPlusPlusLatent)
    if prior_logits is None and layer._prior is not None:
        loc, scale = (layer._on_axis(value) for value in layer._prior)
        return loc, np.log(scale)
    if prior_logits is None and not is_exact:
        return 0.0, 0.0
    axis = layer.axis % len(loc_shape)
    shape = [*loc_shape]
    shape[axis] = latent.num_states
    logits = _broadcast(0.0 if prior_logits is None else prior_logits, shape)[0]
    logits = np.moveaxis(logits, axis - 1, -1)
    rows, where = np.unique(logits.reshape(-1, logits.shape[-1]), axis=0, return_inverse=True)
    temperature = float(layer.temperature.numpy())
    match = "discrete" if is_exact else "mean"
    locs = [
        fit_igr_prior(
            probs, temperature, layer.transform, match=match, delta=layer.delta
        ).loc.numpy()
        for probs in tf.nn.softmax(tf.constant(rows, tf.float64)).numpy()
    ]
    loc = np.stack(locs)[where.reshape(-1)].reshape(*logits.shape[:-1], -1)
    return np.moveaxis(loc, -1, axis - 1), 0.0
