"""Stick-breaking, alone and with softmax++ after it, as TFP bijectors."""

from tfconcrete._typing import TensorLike
from tfconcrete.bijectors.simplex import SimplexBijector
from tfconcrete.relaxations.stick_breaking import StickBreakingTransform, SticksTransform


class StickBreaking(SimplexBijector):
    """R^(K-1) to the simplex of K classes, w_k = u_k prod_{i<k} (1 - u_i), u = sigmoid(y).

    The last class is the remainder. Log determinants are with respect to the first K-1
    coordinates of the simplex point. A coordinate below 1e-30 counts as 1e-30 in the
    inverse.

    Args:
        validate_args: Has no effect: every real vector is valid.
        name: Name of the bijector.

    Example:

    >>> tfc.bijectors.StickBreaking().forward(tf.zeros([2])).numpy()
    array([0.5 , 0.25, 0.25], dtype=float32)

    Reference:
        Potapczynski, Loaiza-Ganem & Cunningham (2020), "Invertible Gaussian
        Reparameterization", Eq. 22.
    """

    def __init__(self, validate_args: bool = False, name: str = "stick_breaking") -> None:
        super().__init__(SticksTransform(), 1.0, 1.0, validate_args, dict(locals()), name)

    @classmethod
    def _parameter_properties(cls, dtype):
        return {}


class StickBreakingSoftmax(SimplexBijector):
    """Stick-breaking, then softmax++ of the sticks: z = softmax++(w / t).

    Sticks lie in (0, 1) and sum to less than 1, so the image is a part of the simplex
    only. Outside it the inverse log determinant is -inf: no density.

    The inverse reads the sticks off the ratios z_k / z_K, which gives them to about the
    machine epsilon times the temperature. A stick below the epsilon (1.2e-7 in float32)
    counts as the epsilon, and a coordinate of z below 1e-30 as 1e-30: for many classes,
    or low temperatures, evaluate densities on the forward side, in `y`.

    Args:
        temperature: positive number or float tensor `[...]`, one for each member of the
            batch.
        delta: positive number or float tensor `[...]`, the weight of the remainder.
        validate_args: Whether to check at run time what is only known then.
        name: Name of the bijector.

    Example:

    >>> bijector = tfc.bijectors.StickBreakingSoftmax(temperature=0.5)
    >>> bijector.forward(tf.zeros([2])).numpy().round(3)
    array([0.506, 0.307, 0.186], dtype=float32)

    Reference:
        Potapczynski, Loaiza-Ganem & Cunningham (2020), "Invertible Gaussian
        Reparameterization", Eq. 24.
    """

    def __init__(
        self,
        temperature: TensorLike,
        delta: TensorLike = 1.0,
        validate_args: bool = False,
        name: str = "stick_breaking_softmax",
    ) -> None:
        super().__init__(
            StickBreakingTransform(), temperature, delta, validate_args, dict(locals()), name
        )
