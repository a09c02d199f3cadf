"""The closed-form KL divergence of two `IGR` distributions (IGR, Eq. 19)."""

import numpy as np
import tensorflow as tf
from tensorflow_probability import bijectors as tfb
from tensorflow_probability import distributions as tfd

from tfconcrete._checks import static_value
from tfconcrete.distributions.igr import IGR
from tfconcrete.relaxations.diag_normal import diag_normal_kl
from tfconcrete.relaxations.transforms import BijectorTransform


@tfd.RegisterKL(IGR, IGR)
def kl_igr_igr(a, b, name=None):
    """KL(a, b) of the Gaussians, Eq. 19: an invertible map that both share cancels.

    Args:
        a, b: `IGR` distributions with the same transform, temperature, delta and
            precision. Where these are known to differ this raises; where they turn out
            to differ at run time the result is NaN.
        name: Name of the ops.

    Returns:
        Tensor of the common batch shape.
    """
    with tf.name_scope(name or "kl_igr_igr"):
        agree = _agreement(a, b)
        kl = tf.reduce_sum(diag_normal_kl(*a.gaussians(), *b.gaussians()), -1)
        for condition in agree:
            kl = tf.where(condition, kl, tf.cast(float("nan"), kl.dtype))
        return tf.cast(kl, a.dtype)


def _agreement(a, b):
    """What remains to be compared at run time for two distributions to share their map."""
    if a.precision != b.precision:
        raise _different("precision", a.precision, b.precision)
    mine, other, conditions = a.simplex_transform, b.simplex_transform, []
    if isinstance(mine, BijectorTransform) and isinstance(other, BijectorTransform):
        conditions = _same_bijector(mine.bijector, other.bijector)
    elif mine != other:
        raise _different("transform", a.transform, b.transform)
    size = a.event_shape[0]
    for name in mine.parameters(None if size is None else size - 1):
        conditions += _same(getattr(a, name), getattr(b, name), name)
    return conditions


def _same_bijector(a, b, name="transform"):
    if a is b:
        return []
    if type(a) is not type(b) or set(a.parameters) != set(b.parameters):
        raise _different(name, a, b)
    conditions = []
    for key, value in a.parameters.items():
        if key in ("name", "validate_args", "self"):
            continue
        other = b.parameters[key]
        pairs = [(value, other)]
        if isinstance(value, (list, tuple)) and len(value) == len(other):
            pairs = list(zip(value, other, strict=True))
        for left, right in pairs:
            if isinstance(left, tfb.Bijector):
                conditions += _same_bijector(left, right, name)
            else:
                # A parameter of the bijector, of any shape: all of it, for all the batch.
                found = _same(left, right, f"{key}` of `{name}")
                conditions += [tf.reduce_all(condition) for condition in found]
    return conditions


def _same(a, b, name):
    """[] if two values are known to agree, else what decides it at run time."""
    if a is b:
        return []
    try:
        known, other = static_value(a), static_value(b)
        if known is not None and other is not None:
            if not np.array_equal(*np.broadcast_arrays(known, other)):
                raise _different(name, a, b)
            return []
        return [tf.equal(*map(tf.convert_to_tensor, (a, b)))]
    except (TypeError, ValueError):
        raise _different(name, a, b) from None


def _different(name, a, b):
    return ValueError(
        f"Invalid value received for argument `{name}`. Expected two `IGR` distributions "
        "with the same transform, temperature, delta and precision: only then does the "
        "KL divergence have a closed form (estimate it from samples otherwise). "
        f"Received: {a} and {b}"
    )
