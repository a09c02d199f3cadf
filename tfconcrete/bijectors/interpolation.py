"""Stick-breaking and interpolation to the nearest vertex as a TFP bijector."""

import tensorflow_probability as tfp

from tfconcrete._typing import TensorLike
from tfconcrete.bijectors.simplex import SimplexBijector
from tfconcrete.relaxations.interpolation import InterpolationTransform


class Interpolation(SimplexBijector):
    """w = stick-breaking of y, then z = t w + (1 - t) P(w), P the nearest vertex.

    For t < 1 the image is K separate pieces of the simplex, one around each vertex.
    Outside them the inverse log determinant is -inf: no density. A stick below 1e-30
    counts as 1e-30 in the inverse.

    Args:
        temperature: number or float tensor `[...]` in (0, 1], one for each member of the
            batch. Above 1 the map would leave the simplex.
        validate_args: Whether to check at run time what is only known then.
        name: Name of the bijector.

    Example:

    >>> bijector = tfc.bijectors.Interpolation(temperature=0.5)
    >>> bijector.forward(tf.zeros([2])).numpy()
    array([0.75 , 0.125, 0.125], dtype=float32)

    Reference:
        Potapczynski, Loaiza-Ganem & Cunningham (2020), "Invertible Gaussian
        Reparameterization", Eq. 23.
    """

    def __init__(
        self, temperature: TensorLike, validate_args: bool = False, name: str = "interpolation"
    ) -> None:
        super().__init__(
            InterpolationTransform(), temperature, 1.0, validate_args, dict(locals()), name
        )

    @classmethod
    def _parameter_properties(cls, dtype):
        return {
            "temperature": tfp.util.ParameterProperties(
                shape_fn=lambda shape: shape[:-1],
                default_constraining_bijector_fn=tfp.bijectors.Sigmoid,
            )
        }
