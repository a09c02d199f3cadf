"""How far relaxed samples are from the vertices of the simplex."""

import tensorflow as tf

from tfconcrete._checks import check_axis, check_floating, check_num_classes
from tfconcrete._dtypes import float_at_least_32
from tfconcrete._typing import TensorLike
from tfconcrete.relaxations.discretize import discretize


def vertex_distance(sample: TensorLike, axis: int = -1) -> tf.Tensor:
    """The Euclidean distance of each sample to the nearest vertex of the simplex.

    Args:
        sample: float tensor `[..., K]` on the simplex along `axis`.
        axis: The class axis.

    Returns:
        Tensor of the shape of `sample` without `axis`, from 0 (one-hot) to
        sqrt(1 - 1 / K) (uniform).

    Reference:
        Potapczynski, Loaiza-Ganem & Cunningham (2020), Figures 1, 5 and 12.

    Example:

    >>> sample = tf.constant([[1.0, 0.0], [0.5, 0.5]])
    >>> tfc.calibration.vertex_distance(sample).numpy().round(4)
    array([0.    , 0.7071], dtype=float32)
    """
    check_floating(sample, "sample")
    sample = tf.convert_to_tensor(sample)
    check_axis(axis, sample.shape.rank)
    check_num_classes(sample.shape, axis, "sample")
    sample = tf.cast(sample, float_at_least_32(sample.dtype))
    return tf.norm(sample - discretize(sample, axis), axis=axis)
