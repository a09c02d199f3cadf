"""A stack of planar flows as a TFP bijector."""

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability import bijectors as tfb

from tfconcrete._checks import check_count, check_floating, invalid_value
from tfconcrete._dtypes import float_at_least_32
from tfconcrete._seeds import as_seed, fold_in
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.bijectors.arguments import as_parameter
from tfconcrete.noise import normal
from tfconcrete.relaxations.planar_flow import planar_flow, planar_flow_inverse


class PlanarFlow(tfb.AutoCompositeTensorBijector):
    """A stack of n planar flows on R^d, each y + u_hat tanh(w.y + b).

    `u` is free: the flow uses u_hat, which is `u` moved along `w` so that w.u_hat > -1,
    the condition for a flow to be invertible. A flow with u = 0 is the identity. The
    inverse is a safeguarded scalar root search for each flow, to machine precision.

    Args:
        u: float tensor `[..., n, d]`.
        w: float tensor `[..., n, d]`.
        b: float tensor `[..., n]`.
        validate_args: Has no effect: every real parameter is valid.
        name: Name of the bijector.

    Example:

    >>> flow = tfc.bijectors.PlanarFlow.create(num_flows=3, num_dims=2, seed=0)
    >>> y = tf.constant([0.3, -1.2])
    >>> bool(tf.reduce_max(tf.abs(flow.inverse(tf.identity(flow.forward(y))) - y)) < 1e-6)
    True
    >>> len(flow.trainable_variables)
    3

    Reference:
        Rezende & Mohamed (2015), "Variational Inference with Normalizing Flows",
        Appendix A.1; Potapczynski, Loaiza-Ganem & Cunningham (2020), Appendix C.
    """

    def __init__(
        self,
        u: TensorLike,
        w: TensorLike,
        b: TensorLike,
        validate_args: bool = False,
        name: str = "planar_flow",
    ) -> None:
        parameters = dict(locals())
        for value, label in ((u, "u"), (w, "w"), (b, "b")):
            check_floating(value, label)
        self._u = as_parameter(u, "u")
        self._w = as_parameter(w, "w")
        self._b = as_parameter(b, "b")
        self._check_shapes()
        super().__init__(
            forward_min_event_ndims=1,
            inverse_min_event_ndims=1,
            validate_args=validate_args,
            parameters=parameters,
            name=name,
        )

    def _check_shapes(self):
        shape = self._u.shape
        if shape.rank is None or shape.rank < 2 or shape[-2] is None:
            raise invalid_value("u", "a float tensor [..., num_flows, num_dims]", self._u)
        if not self._w.shape[-2:].is_compatible_with(shape[-2:]):
            raise invalid_value("w", f"a shape ending in {tuple(shape[-2:])}, as `u`", self._w)
        if not self._b.shape[-1:].is_compatible_with(shape[-2:-1]):
            raise invalid_value("b", f"a shape ending in {tuple(shape[-2:-1])}", self._b)

    @classmethod
    def create(
        cls,
        num_flows: int,
        num_dims: int,
        scale: TensorLike = 0.1,
        seed: Seed = None,
        dtype: tf.DType | str = tf.float32,
        **kwargs,
    ) -> "PlanarFlow":
        """A trainable stack near the identity.

        Args:
            num_flows: n, the number of flows.
            num_dims: d, the size of the vectors; K-1 in front of a softmax++.
            scale: Standard deviation of the initial `u`; `w` has 1 / sqrt(d).
            seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.
            dtype: The dtype of the variables.
            **kwargs: `validate_args`, `name`.

        Returns:
            A `PlanarFlow` whose parameters are `tf.Variable`s.
        """
        num_flows = check_count(num_flows, "num_flows")
        num_dims = check_count(num_dims, "num_dims")
        seed = as_seed(seed)
        shape = [num_flows, num_dims]
        u = scale * normal(shape, fold_in(seed, 0))
        w = normal(shape, fold_in(seed, 1)) / np.sqrt(num_dims)
        return cls(
            tf.Variable(tf.cast(u, dtype), name="u"),
            tf.Variable(tf.cast(w, dtype), name="w"),
            tf.Variable(tf.zeros([num_flows], dtype), name="b"),
            **kwargs,
        )

    @classmethod
    def _parameter_properties(cls, dtype):
        return {
            "u": tfp.util.ParameterProperties(event_ndims=2),
            "w": tfp.util.ParameterProperties(event_ndims=2),
            "b": tfp.util.ParameterProperties(event_ndims=1),
        }

    @property
    def u(self) -> tf.Tensor:
        """The free directions."""
        return self._u

    @property
    def w(self) -> tf.Tensor:
        """The normals of the planes."""
        return self._w

    @property
    def b(self) -> tf.Tensor:
        """The offsets of the planes."""
        return self._b

    def _flows(self, dtype):
        """The parameters of each flow, first to last."""
        u, w, b = (tf.cast(value, dtype) for value in (self._u, self._w, self._b))
        return [(u[..., i, :], w[..., i, :], b[..., i]) for i in range(u.shape[-2])]

    def _run(self, y):
        y = tf.cast(y, float_at_least_32(y.dtype))
        total = tf.zeros(tf.shape(y)[:-1], y.dtype)
        for parameters in self._flows(y.dtype):
            y, log_det = planar_flow(y, *parameters)
            total += log_det
        return y, total

    def _forward(self, y):
        return tf.cast(self._run(y)[0], y.dtype)

    def _forward_log_det_jacobian(self, y):
        return tf.cast(self._run(y)[1], y.dtype)

    def _inverse(self, z):
        y = tf.cast(z, float_at_least_32(z.dtype))
        for parameters in reversed(self._flows(y.dtype)):
            y = planar_flow_inverse(y, *parameters)
        return tf.cast(y, z.dtype)
