"""IGR's transforms by name, and behind a bijector."""

from tfconcrete._checks import check_choice, invalid_type, invalid_value
from tfconcrete.relaxations.interpolation import InterpolationTransform
from tfconcrete.relaxations.masking import zero_masked
from tfconcrete.relaxations.simplex_transform import (
    SimplexTransform,
    floored_log,
    free_classes,
    on_kept_classes,
)
from tfconcrete.relaxations.softmax_plus_plus import SoftmaxTransform
from tfconcrete.relaxations.stick_breaking import StickBreakingTransform
from tfconcrete.relaxations.truncation import TruncatedTransform

_SOFTMAX = SoftmaxTransform()
_NAMED: dict[str, SimplexTransform] = {
    transform.name: transform
    for transform in (_SOFTMAX, StickBreakingTransform(), InterpolationTransform())
}
TRANSFORMS = tuple(_NAMED)


class BijectorTransform(SimplexTransform):
    """A bijector: the whole map, if it arrives on the simplex, else softmax++ follows it.

    Args:
        bijector: A `tfp.bijectors.Bijector` of vectors, from K-1 numbers to K-1 (a flow) or
            to K (on the simplex; temperature and delta then have no effect).
    """

    def __init__(self, bijector):
        self.bijector = bijector

    def _is_whole(self, num_free):
        if num_free is None:
            raise ValueError(
                "Invalid value received for argument `loc`. Expected a known last dimension "
                "where `transform` is a bijector. Received: an unknown one"
            )
        size = self.bijector.forward_event_shape([num_free])
        if size == [num_free] or size == [num_free + 1]:
            return size == [num_free + 1]
        raise invalid_value(
            "transform",
            f"a bijector from {num_free} to {num_free} or {num_free + 1} numbers",
            self.bijector,
        )

    check_num_free = _is_whole

    def parameters(self, num_free):
        return () if self._is_whole(num_free) else super().parameters(num_free)

    def forward(self, y, temperature, delta=1.0, mask=None):
        z = self.bijector.forward(zero_masked(y, free_classes(mask)))
        if not self._is_whole(y.shape[-1]):
            return _SOFTMAX.forward(z, temperature, delta, mask)
        return z if mask is None else on_kept_classes(floored_log(z), mask)

    def scores(self, y, temperature, delta=1.0, mask=None):
        if self._is_whole(y.shape[-1]):
            return super().scores(y, temperature, delta, mask)
        x = self.bijector.forward(zero_masked(y, free_classes(mask)))
        return _SOFTMAX.scores(x, temperature, delta, mask)

    @property
    def has_exact_probs(self):
        """Whether the bijector is softmax++ itself, with a temperature of its own."""
        transform = getattr(self.bijector, "transform", None)
        return isinstance(transform, SimplexTransform) and transform.has_exact_probs

    def probs(self, loc, scale, temperature, delta=1.0, mask=None):
        if not self.has_exact_probs:
            return super().probs(loc, scale, temperature, delta, mask)
        own = self.bijector.batch_parameters(loc.dtype)
        return self.bijector.transform.probs(loc, scale, *own, mask)

    def forward_log_det(self, y, temperature, delta=1.0):
        log_det = self.bijector.forward_log_det_jacobian(y, event_ndims=1)
        if self._is_whole(y.shape[-1]):
            return log_det
        x = self.bijector.forward(y)
        return log_det + _SOFTMAX.forward_log_det(x, temperature, delta)

    def inverse(self, z, temperature, delta=1.0):
        return self.bijector.inverse(self._before_softmax(z, temperature, delta))

    def inverse_log_det(self, z, temperature, delta=1.0):
        x = self._before_softmax(z, temperature, delta)
        log_det = self.bijector.inverse_log_det_jacobian(x, event_ndims=1)
        if x is z:
            return log_det
        return log_det + _SOFTMAX.inverse_log_det(z, temperature, delta)

    def _before_softmax(self, z, temperature, delta):
        size = z.shape[-1]
        if self._is_whole(None if size is None else size - 1):
            return z
        return _SOFTMAX.inverse(z, temperature, delta)

    def __eq__(self, other):
        return type(other) is BijectorTransform and self.bijector is other.bijector

    def __hash__(self):
        return id(self.bijector)


def get_transform(
    transform: str | SimplexTransform, precision: float | None = None
) -> SimplexTransform:
    """The `SimplexTransform` behind what users write for a `transform`.

    Args:
        transform: `"softmax++"`, `"stick_breaking"`, `"interpolation"`, a bijector, or a
            `SimplexTransform`.
        precision: None, or with `"stick_breaking"` the rho in (0, 1) at which each sample
            is cut.

    Returns:
        A `SimplexTransform`.

    Example:

    >>> tfc.relaxations.get_transform("softmax++").has_exact_probs
    True
    """
    if isinstance(transform, str):
        made = _NAMED[check_choice(transform, "transform", TRANSFORMS)]
    elif isinstance(transform, SimplexTransform):
        made = transform
    elif hasattr(transform, "forward_event_shape"):
        made = BijectorTransform(transform)
    else:
        names = ", ".join(f'"{name}"' for name in TRANSFORMS)
        raise invalid_type("transform", f"one of {names} or a bijector", transform)
    if precision is None:
        return made
    if made.name != StickBreakingTransform.name:
        raise invalid_value("precision", 'None, or `transform="stick_breaking"` with it', precision)
    return TruncatedTransform(precision)
