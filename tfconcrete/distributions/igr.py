"""The Invertible Gaussian Reparameterization: Gaussians mapped onto the simplex."""

import tensorflow as tf
from tensorflow_probability import bijectors as tfb
from tensorflow_probability import distributions as tfd

from tfconcrete._checks import check_count
from tfconcrete._floors import SMALLEST, clip
from tfconcrete._typing import Seed, ShapeLike, TensorLike
from tfconcrete.bijectors import SoftmaxPlusPlus, TransformBijector
from tfconcrete.distributions.gaussian_simplex import GaussianSimplex
from tfconcrete.distributions.parameters import log_or_fill, positive_property
from tfconcrete.distributions.rounding import one_hot_categorical
from tfconcrete.relaxations.discretize import discretize
from tfconcrete.relaxations.simplex_transform import SimplexTransform
from tfconcrete.relaxations.transforms import get_transform
from tfconcrete.relaxations.truncation import Truncation


class IGR(GaussianSimplex):
    """g(y, temperature) on the simplex, with y ~ Normal(loc, scale_diag) (Eq. 16, 17).

    K-1 Gaussians become a relaxed one-hot variable of K classes, the last of which is
    the remainder. Which class a sample is near has no direct reading in the parameters
    (see `discrete()`, and `tfc.calibration.fit_igr_prior` for the way back), but the KL
    divergence of two such distributions with the same map is that of their Gaussians,
    in closed form (Eq. 19).

    The density (Eq. 18) is with respect to Lebesgue measure on the first K-1
    coordinates. `log_prob` counts a coordinate below 1e-30 as 1e-30, since the sample
    has lost its logarithm there. With `"stick_breaking"` it has to recover the sticks,
    which a float32 sample holds to 1e-7 only: a smaller one counts as that.
    `experimental_sample_and_log_prob` is exact in all cases. `"stick_breaking"` and
    `"interpolation"` reach a part of the simplex only; elsewhere the density is 0.

    With `precision` (rho) the support is countably infinite: each sample keeps the
    classes up to the one that takes the sum of its sticks over rho, and is exactly zero
    beyond, except for the remainder. K-1 is then the largest number of classes. The
    density is with respect to Lebesgue measure on the kept coordinates, and the KL
    divergence remains that of all the Gaussians, an upper bound on that of the
    truncated samples and exact for the latent `y`.

    Args:
        loc: float tensor `[..., K-1]`.
        scale_diag: positive float tensor `[..., K-1]`, the standard deviations.
        temperature: positive number or float tensor `[...]`, of the batch's shape; at
            most 1 for `"interpolation"`.
        transform: `"softmax++"` (Eq. 21), `"stick_breaking"` (then softmax++, Eq. 24),
            `"interpolation"` (stick-breaking, then towards the nearest vertex, Eq. 23),
            a `tfc.relaxations.SimplexTransform`, or a bijector. One from R^(K-1) to itself
            (`tfc.bijectors.PlanarFlow`) is followed by softmax++; one onto the simplex,
            `[..., K]`, is the whole map, and `temperature` and `delta` then have no effect.
        delta: positive number or float tensor `[...]`, the weight of the remainder class
            in softmax++. With any other than 1 the probabilities of the classes depend
            on the temperature. With `"stick_breaking"` and delta <= 1 the remainder is
            never the largest class.
        precision: None, or with `"stick_breaking"` a number in (0, 1).
        validate_args: Whether to check at run time what is only known then.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Events are `[K]`.

    Example:

    >>> d = tfc.distributions.IGR(tf.zeros([3]), tf.ones([3]), temperature=0.5)
    >>> d.sample(2, seed=0).shape
    TensorShape([2, 4])
    >>> d.discrete().probs_parameter().numpy().round(4)
    array([0.2917, 0.2917, 0.2917, 0.125 ], dtype=float32)
    >>> import tensorflow_probability as tfp
    >>> prior = tfc.distributions.IGR(tf.ones([3]), tf.ones([3]), temperature=0.5)
    >>> float(tfp.distributions.kl_divergence(d, prior))
    1.5

    Reference:
        Potapczynski, Loaiza-Ganem & Cunningham (2020), "Invertible Gaussian
        Reparameterization: Revisiting the Gumbel-Softmax".
    """

    def __init__(
        self,
        loc: TensorLike,
        scale_diag: TensorLike | None,
        temperature: TensorLike,
        transform: str | SimplexTransform = "softmax++",
        delta: TensorLike = 1.0,
        precision: float | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "IGR",
    ) -> None:
        parameters = dict(locals())
        self._transform = transform
        self._precision = precision
        super().__init__(
            get_transform(transform, precision),
            loc,
            scale_diag,
            temperature,
            delta,
            validate_args,
            allow_nan_stats,
            parameters,
            name,
        )
        self.simplex_transform.check_num_free(self._num_free())

    @classmethod
    def _parameter_properties(cls, dtype, num_classes=None):
        delta = positive_property(dtype, shape_fn=lambda shape: shape[:-1], is_preferred=False)
        return {**super()._parameter_properties(dtype, num_classes), "delta": delta}

    @property
    def transform(self) -> str | SimplexTransform:
        """The map onto the simplex, as it was given: a name, a bijector, a transform."""
        return self._transform

    @property
    def delta(self) -> tf.Tensor:
        """The weight of the remainder class in softmax++."""
        return self._delta

    @property
    def precision(self) -> float | None:
        """rho, where samples are truncated, or None."""
        return self._precision

    @property
    def bijector(self) -> tfb.Bijector:
        """The whole map from R^(K-1) onto the simplex (without truncation)."""
        if not isinstance(self._transform, tfb.Bijector):
            return TransformBijector(self._transform, self._temperature, self._delta)
        if not self.simplex_transform.parameters(self._num_free()):
            return self._transform
        softmax = SoftmaxPlusPlus(self._temperature, self._delta)
        return tfb.Chain([softmax, self._transform])

    def _num_free(self):
        size = self._event_shape()[0]
        return None if size is None else size - 1

    def sample_with_truncation(
        self, sample_shape: ShapeLike = (), seed: Seed = None, name: str = "truncated_sample"
    ) -> tuple[tf.Tensor, Truncation]:
        """Samples, with where each was cut and what that cost.

        Args:
            sample_shape: Shape of the sample.
            seed: As in `sample`.
            name: Name of the ops.

        Returns:
            `(sample, truncation)`: the tensor that `sample` gives for the same arguments,
            and a `tfc.relaxations.Truncation` with `kept [..., K-1]`, the truncated
            `mass [...]` and the effective number of classes, `num_classes [...]`.

        Example:

        >>> d = tfc.distributions.IGR(
        ...     tf.zeros([20]), tf.ones([20]), 0.1, "stick_breaking", precision=0.99)
        >>> sample, truncation = d.sample_with_truncation(5, seed=0)
        >>> bool(tf.reduce_all(truncation.mass < 0.01))
        True
        """
        with self._name_and_control_scope(name):
            sample_shape = tf.reshape(tf.cast(sample_shape, tf.int32), [-1])
            y, _ = self._latent(sample_shape, seed)
            truncation = self.simplex_transform.truncation(y)
            if truncation is None:
                raise ValueError(
                    "Invalid call of `sample_with_truncation`. Expected a distribution with "
                    "`precision`. Received: precision=None"
                )
            return self._forward(y), truncation

    def discrete(
        self, num_samples: int = 10_000, seed: Seed = None, name: str = "discrete"
    ) -> tfd.OneHotCategorical:
        """The discrete distribution that rounding to the nearest vertex gives.

        For softmax++ these are exact probabilities (to 1e-5, by one-dimensional
        quadrature; no sampling), differentiable in `loc`, `scale_diag`, `temperature`
        and `delta`. For the other transforms they are the frequencies among
        `num_samples` rounded samples, with a standard error of at most
        0.5 / sqrt(num_samples) and no gradient.

        Args:
            num_samples: Number of samples, for transforms other than softmax++.
            seed: As in `sample`; not read for softmax++.
            name: Name of the ops.

        Returns:
            `tfd.OneHotCategorical` of this distribution's batch shape and dtype.
        """
        num_samples = check_count(num_samples, "num_samples")
        with self._name_and_control_scope(name):
            transform, parameters = self.simplex_transform, self._map_parameters()
            if transform.has_exact_probs:
                probs = transform.probs(*self.gaussians(), *parameters)
                # With a probability of 0 TFP's log mass of every class is NaN.
                smallest = 2.0**-14 if self.dtype == tf.float16 else SMALLEST[probs.dtype]
                probs = tf.cast(clip(probs, smallest, 1.0), self.dtype)
                return tfd.OneHotCategorical(probs=probs, dtype=self.dtype)
            y, _ = self._latent([num_samples], seed)
            probs = tf.reduce_mean(discretize(transform.scores(y, *parameters)), 0)
            return one_hot_categorical(log_or_fill(probs), self.dtype)

    def _default_event_space_bijector(self):
        return self.bijector
