"""Division by a temperature."""

import tensorflow as tf

from tfconcrete._checks import check_temperature, shape_of
from tfconcrete._dtypes import cast
from tfconcrete._floors import FILL


def match_temperature(temperature, logits, name="temperature"):
    """Checks a temperature, and that it broadcasts to the logits and not beyond.

    Args:
        temperature: positive number or tensor.
        logits: float tensor.
        name: What the argument is called.

    Returns:
        The temperature, at the shape of `logits` where the shapes known now do not say
        that it broadcasts to them.
    """
    check_temperature(temperature, logits.shape, name)
    shape, wanted = tf.TensorShape(shape_of(temperature)), logits.shape
    if shape.rank == 0:
        return temperature
    if shape.is_fully_defined() and wanted.rank is not None:
        own = [1] * (wanted.rank - shape.rank) + shape.as_list()
        if all(size in (1, other) for size, other in zip(own, wanted.as_list(), strict=True)):
            return temperature
    return tf.broadcast_to(cast(temperature, logits.dtype), tf.shape(logits))


def cool(scores, temperature, mask=None):
    """`scores / temperature`, as a product with the inverse.

    Eager TensorFlow computes both gradients of a quotient, also the one that nobody asks
    for, which is three more passes over the scores.

    Args:
        scores: float tensor.
        temperature: positive number or tensor that broadcasts against `scores`.
        mask: boolean of the shape of `scores`, or None; what it masks is `FILL` at any
            temperature.

    Returns:
        Tensor of the dtype of `scores`.
    """
    scores = scores * (1.0 / cast(temperature, scores.dtype))
    return scores if mask is None else tf.where(mask, scores, tf.cast(FILL, scores.dtype))
