"""How evenly the classes of a discrete variable are used."""

import collections

import tensorflow as tf

from tfconcrete._checks import check_count, invalid_type
from tfconcrete._typing import TensorLike
from tfconcrete.relaxations import codes as codes_of
from tfconcrete.relaxations import one_hot

CategoryUsage = collections.namedtuple(
    "CategoryUsage", ["frequencies", "perplexity", "dead_classes"]
)


def category_usage(
    samples: TensorLike, num_classes: int | None = None, axis: int = -1
) -> CategoryUsage:
    """Class frequencies over a batch, their perplexity, and the classes never used.

    Args:
        samples: int codes `[batch, ...]`, or float samples (one-hot or relaxed, which are
            rounded) `[batch, ..., num_classes]` with the classes along `axis`.
        num_classes: The number of classes, needed for codes only.
        axis: The class axis of float samples.

    Returns:
        `CategoryUsage`, a named tuple of tensors:
        `frequencies` `[..., num_classes]`, over the batch; `perplexity` `[...]`, exp of
        their entropy, from 1 (one class) to num_classes (all alike); `dead_classes`
        `[...]`, int32, how many classes never occur.

    Example:

    >>> usage = tfc.diagnostics.category_usage(tf.constant([0, 0, 1, 1]), num_classes=3)
    >>> round(float(usage.perplexity), 4), int(usage.dead_classes)
    (2.0, 1)
    """
    samples = tf.convert_to_tensor(samples)
    if samples.dtype.is_floating:
        num_classes = samples.shape[axis] if num_classes is None else num_classes
        samples = codes_of(samples, axis)
    elif not samples.dtype.is_integer:
        raise invalid_type("samples", "int codes or float samples", samples)
    num_classes = check_count(num_classes, "num_classes")
    frequencies = tf.reduce_mean(one_hot(samples, num_classes), axis=0)
    entropy = -tf.reduce_sum(tf.math.xlogy(frequencies, frequencies), axis=-1)
    dead = tf.reduce_sum(tf.cast(frequencies == 0.0, tf.int32), axis=-1)
    return CategoryUsage(frequencies, tf.exp(entropy), dead)
