"""The softmax++ map as a TFP bijector."""

from tfconcrete._typing import TensorLike
from tfconcrete.bijectors.simplex import SimplexBijector
from tfconcrete.relaxations.softmax_plus_plus import SoftmaxTransform


class SoftmaxPlusPlus(SimplexBijector):
    """R^(K-1) to the simplex of K classes, exp(y_k / t) / (sum_j exp(y_j / t) + delta).

    The last class is the remainder. Log determinants are with respect to the first K-1
    coordinates of the simplex point; those of `tfb.SoftmaxCentered`, the same map at
    temperature and delta 1, are larger by 0.5 log K.

    A coordinate of a simplex point below 1e-30 counts as 1e-30 in the inverse.

    Args:
        temperature: positive number or float tensor `[...]`, one for each member of the
            batch.
        delta: positive number or float tensor `[...]`, the weight of the remainder.
        validate_args: Whether to check at run time what is only known then.
        name: Name of the bijector.

    Example:

    >>> bijector = tfc.bijectors.SoftmaxPlusPlus(temperature=0.5)
    >>> bijector.forward(tf.zeros([3])).numpy()
    array([0.25, 0.25, 0.25, 0.25], dtype=float32)

    Reference:
        Potapczynski, Loaiza-Ganem & Cunningham (2020), "Invertible Gaussian
        Reparameterization", Eq. 21.
    """

    def __init__(
        self,
        temperature: TensorLike,
        delta: TensorLike = 1.0,
        validate_args: bool = False,
        name: str = "softmax_plus_plus",
    ) -> None:
        super().__init__(
            SoftmaxTransform(), temperature, delta, validate_args, dict(locals()), name
        )
