"""n-ary units as corners of the hypercube {-1, 1}^log2(n) (Concrete, Appendix D.2)."""

import numpy as np
import tensorflow as tf

from tfconcrete._checks import check_count, check_floating, invalid_value
from tfconcrete._typing import TensorLike


def check_power_of_two(num_classes, name="num_classes"):
    """A power of two of at least 2."""
    num_classes = check_count(num_classes, name, minimum=2)
    if num_classes & (num_classes - 1):
        raise invalid_value(name, "a power of two", num_classes)
    return num_classes


def hypercube_corners(num_classes: int) -> np.ndarray:
    """The corner of each class: row k is k in binary, first bit first, 0 as -1.

    Args:
        num_classes: A power of two.

    Returns:
        float32 array `[num_classes, log2(num_classes)]`.

    Example:

    >>> tfc.relaxations.hypercube_corners(4)
    array([[-1., -1.],
           [-1.,  1.],
           [ 1., -1.],
           [ 1.,  1.]], dtype=float32)
    """
    num_classes = check_power_of_two(num_classes)
    bits = num_classes.bit_length() - 1
    shifts = np.arange(bits - 1, -1, -1)
    digits = (np.arange(num_classes)[:, None] >> shifts) & 1
    return (2 * digits - 1).astype(np.float32)


def hypercube_code(x: TensorLike) -> tf.Tensor:
    """Maps simplex samples to the hypercube, Y = C X, relaxed or discrete alike.

    Args:
        x: float tensor `[..., groups, num_classes]`; `num_classes` a power of two.

    Returns:
        Tensor `[..., groups * log2(num_classes)]` in [-1, 1].

    Example:

    >>> one_hot = tf.one_hot([[0, 3]], 4)
    >>> tfc.relaxations.hypercube_code(one_hot).numpy()
    array([[-1., -1.,  1.,  1.]], dtype=float32)
    """
    check_floating(x, "x")
    x = tf.convert_to_tensor(x)
    if x.shape.rank is None or x.shape.rank < 2 or x.shape[-1] is None:
        raise invalid_value("x", "known shape [..., groups, num_classes]", x)
    corners = tf.cast(hypercube_corners(x.shape[-1]), x.dtype)
    bits = corners.shape[-1]
    groups = x.shape[-2]
    code = tf.matmul(x, corners)
    width = -1 if groups is None else groups * bits
    shape = tf.concat([tf.shape(x)[:-2], [width]], 0)
    code = tf.reshape(code, shape)
    code.set_shape(x.shape[:-2].concatenate([None if groups is None else width]))
    return code
