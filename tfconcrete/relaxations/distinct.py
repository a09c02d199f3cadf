"""Several choices from one set of classes, no class twice.

Row j of the scores belongs to the j-th choice. Choices are made in order, each among the
classes that the earlier ones have left.
"""

import math

import tensorflow as tf

from tfconcrete._checks import check_flag, check_temperature, invalid_value
from tfconcrete._dtypes import float_at_least_32
from tfconcrete._softmax import softmax
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.noise import gumbel
from tfconcrete.relaxations.cooling import cool
from tfconcrete.relaxations.discretize import discretize
from tfconcrete.relaxations.masking import prepare_logits, zero_masked


def distinct_argmax(logits: TensorLike) -> tf.Tensor:
    """Each row's largest entry among those that no earlier row has taken, one-hot.

    A NaN makes its row NaN, which takes nothing from the others.

    Args:
        logits: float tensor `[k, num_classes]`, k at most `num_classes`.

    Returns:
        One-hot rows of the shape and dtype of `logits`, no two alike.

    Example:

    >>> tfc.relaxations.distinct_argmax(tf.constant([[0.0, 2.0, 1.0], [0.0, 2.0, 1.0]])).numpy()
    array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    logits = _checked(logits)
    return tf.cast(_take_in_order(logits, tf.zeros_like(logits, tf.float32))[0], logits.dtype)


def distinct_concrete(
    logits: TensorLike, temperature: TensorLike, hard: bool = False, seed: Seed = None
) -> tf.Tensor:
    """Concrete samples for each row, among the classes that no earlier row has drawn.

    Forward: row j is softmax((logits_j + Gumbel) / temperature) over the classes that are
    left when the rows before it have drawn theirs, the argmax of the same noise; with
    `hard=True` its own draw, one-hot.
    Backward: the gradient of the relaxed rows, for given draws of the others.

    Args:
        logits: float tensor `[k, num_classes]`, k at most `num_classes`.
        temperature: positive number or scalar tensor.
        hard: Whether the forward value is one-hot.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        Tensor of the shape and dtype of `logits`; the rows' largest entries are distinct.

    Example:

    >>> rows = tfc.relaxations.distinct_concrete(tf.zeros([3, 3]), 0.5, hard=True, seed=0)
    >>> tf.reduce_sum(rows, 0).numpy()
    array([1., 1., 1.], dtype=float32)
    """
    logits = _checked(logits)
    check_flag(hard, "hard")
    check_temperature(temperature, logits.shape)
    noise = gumbel(logits.shape, seed)
    drawn, is_left = _take_in_order(logits, noise)
    working, is_left = prepare_logits(logits, is_left)
    scores = cool(working + tf.cast(noise, working.dtype), temperature, is_left)
    soft = zero_masked(softmax(scores), is_left)
    soft = tf.where(tf.math.is_nan(drawn), drawn, soft)
    rows = tf.stop_gradient(drawn - soft) + soft if hard else soft
    return tf.cast(rows, logits.dtype)


def _checked(logits):
    logits = tf.convert_to_tensor(logits)
    shape = logits.shape
    if shape.rank != 2 or None in shape.as_list() or shape[0] > shape[1]:
        raise invalid_value(
            "logits", "shape [k, num_classes] with k at most num_classes", tuple(shape)
        )
    return logits


def _take_in_order(logits, noise):
    """One-hot rows, and for each row which classes the earlier ones have left.

    A row with a NaN is a row of NaN and takes nothing. The noise is added to a row when it
    is known what is left, to logits whose largest is 0: it keeps its digits.
    """
    logits = tf.stop_gradient(logits)
    is_known = tf.reduce_all(tf.equal(logits, logits), axis=-1, keepdims=True)
    logits = tf.where(is_known, logits, tf.zeros_like(logits))
    dtype = float_at_least_32(logits.dtype)
    noise = tf.cast(noise, dtype)
    takes = tf.cast(is_known, dtype)
    num_rows, num_classes = logits.shape
    drawn, left = (tf.TensorArray(dtype, num_rows, element_shape=[num_classes]) for _ in range(2))

    def take(i, is_left, drawn, left):
        row, mask = prepare_logits(logits[i], is_left > 0.0)
        hot = zero_masked(discretize(row + noise[i]), mask)
        return i + 1, is_left - takes[i] * hot, drawn.write(i, hot), left.write(i, is_left)

    _, _, drawn, left = tf.while_loop(
        lambda i, *_: i < num_rows,
        take,
        (0, tf.ones([num_classes], dtype), drawn, left),
        maximum_iterations=num_rows,
    )
    drawn = tf.where(is_known, drawn.stack(), tf.constant(math.nan, dtype))
    return drawn, left.stack() > 0.0
