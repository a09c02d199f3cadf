"""The Invertible Gaussian Reparameterization: Gaussians mapped onto the simplex."""

import math

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfconcrete._checks import (
    check_broadcast,
    check_choice,
    check_count,
    check_positive,
    check_temperature,
    invalid_type,
    invalid_value,
    static_value,
)
from tfconcrete._seeds import as_seed
from tfconcrete.bijectors import Interpolation, SoftmaxPlusPlus, StickBreakingSoftmax
from tfconcrete.bijectors.parameters import as_parameter, is_reference
from tfconcrete.distributions.parameters import (
    ParameterProperties,
    assert_sum,
    check_batch_temperature,
    check_free_parameter,
    common_dtype,
    positive_assertions,
    positive_property,
)
from tfconcrete.noise import normal
from tfconcrete.relaxations.diag_normal import diag_normal_kl
from tfconcrete.relaxations.discretize import discretize
from tfconcrete.relaxations.gaussian_argmax import gaussian_argmax_probs
from tfconcrete.relaxations.igr import TRANSFORMS
from tfconcrete.relaxations.interpolation import check_unit_temperature
from tfconcrete.relaxations.masking import float_at_least_32
from tfconcrete.relaxations.truncation import (
    check_precision,
    truncated_inverse,
    truncated_log_det,
    truncated_stick_breaking,
)

tfb = tfp.bijectors
tfd = tfp.distributions

_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


def check_transform(transform):
    """One of the names in `TRANSFORMS`, or a bijector."""
    if isinstance(transform, tfb.Bijector):
        return transform
    if not isinstance(transform, str):
        names = ", ".join(f'"{name}"' for name in TRANSFORMS)
        raise invalid_type("transform", f"one of {names} or a bijector", transform)
    return check_choice(transform, "transform", TRANSFORMS)


def transform_bijector(transform, temperature, delta, num_free, validate_args=False):
    """The whole map from R^(K-1) onto the simplex as one bijector.

    A bijector from R^(K-1) to itself, a normalizing flow say, is followed by softmax++;
    one that arrives on the simplex is taken as it is.
    """
    if transform == "softmax++":
        return SoftmaxPlusPlus(temperature, delta, validate_args)
    if transform == "stick_breaking":
        return StickBreakingSoftmax(temperature, delta, validate_args)
    if transform == "interpolation":
        return Interpolation(temperature, validate_args)
    if num_free is None:
        raise ValueError(
            "Invalid value received for argument `loc`. Expected a known last dimension "
            "where `transform` is a bijector. Received: an unknown one"
        )
    shape = transform.forward_event_shape([num_free])
    if shape == [num_free]:
        return tfb.Chain([SoftmaxPlusPlus(temperature, delta, validate_args), transform])
    if shape == [num_free + 1]:
        return transform
    raise invalid_value(
        "transform", f"a bijector from {num_free} to {num_free} or {num_free + 1} numbers",
        transform,
    )


class IGR(tfd.AutoCompositeTensorDistribution):
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
            or a bijector. One from R^(K-1) to itself (`tfc.bijectors.PlanarFlow`) is
            followed by softmax++; one onto the simplex, `[..., K]`, is the whole map,
            and `temperature` and `delta` then have no effect.
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
        loc,
        scale_diag,
        temperature,
        transform="softmax++",
        delta=1.0,
        precision=None,
        validate_args=False,
        allow_nan_stats=True,
        name="IGR",
    ):
        parameters = dict(locals())
        self._transform = check_transform(transform)
        if self._transform == "interpolation":
            check_unit_temperature(temperature)
        else:
            check_temperature(temperature)
        check_positive(delta, "delta")
        check_free_parameter(loc, "loc")
        check_free_parameter(scale_diag, "scale_diag")
        dtype = common_dtype(loc, scale_diag, temperature, delta)
        self._loc = as_parameter(loc, "loc", dtype)
        self._scale_diag = as_parameter(scale_diag, "scale_diag", dtype)
        self._temperature = as_parameter(temperature, "temperature", dtype)
        self._delta = as_parameter(delta, "delta", dtype)
        self._precision = self._checked_precision(precision)
        check_broadcast(self._scale_diag.shape, "scale_diag", self._loc.shape, "loc")
        check_batch_temperature(self._temperature, self._loc, "loc")
        check_batch_temperature(self._temperature, self._scale_diag, "scale_diag")
        if isinstance(self._transform, tfb.Bijector):
            self._bijector_for(self._temperature, self._delta)
        super().__init__(
            dtype=dtype,
            reparameterization_type=tfd.FULLY_REPARAMETERIZED,
            validate_args=validate_args,
            allow_nan_stats=allow_nan_stats,
            parameters=parameters,
            name=name,
        )

    def _checked_precision(self, precision):
        if precision is None:
            return None
        if self._transform != "stick_breaking":
            raise invalid_value(
                "precision", 'None, or `transform="stick_breaking"` with it', precision
            )
        return check_precision(precision)

    @classmethod
    def _parameter_properties(cls, dtype, num_classes=None):
        def free(shape):
            shape = tf.convert_to_tensor(shape, tf.int32)
            return tf.concat([shape[:-1], shape[-1:] - 1], 0)

        return {
            "loc": ParameterProperties(event_ndims=1, shape_fn=free),
            "scale_diag": positive_property(dtype, event_ndims=1, shape_fn=free),
            "temperature": positive_property(dtype, shape_fn=lambda shape: shape[:-1]),
            "delta": positive_property(
                dtype, shape_fn=lambda shape: shape[:-1], is_preferred=False
            ),
        }

    @property
    def loc(self):
        """The location of the Gaussians, `[..., K-1]`."""
        return self._loc

    @property
    def scale_diag(self):
        """The standard deviations of the Gaussians, `[..., K-1]`."""
        return self._scale_diag

    @property
    def temperature(self):
        """The temperature, of the batch's shape or one that broadcasts to it."""
        return self._temperature

    @property
    def transform(self):
        """The name of the map onto the simplex, or the bijector."""
        return self._transform

    @property
    def delta(self):
        """The weight of the remainder class in softmax++."""
        return self._delta

    @property
    def precision(self):
        """rho, where samples are truncated, or None."""
        return self._precision

    @property
    def bijector(self):
        """The whole map from R^(K-1) onto the simplex (without truncation)."""
        return self._bijector_for(self._temperature, self._delta)

    def _bijector_for(self, temperature, delta):
        num_free = self._event_shape()[0]
        num_free = None if num_free is None else num_free - 1
        return transform_bijector(self._transform, temperature, delta, num_free)

    def _event_shape(self):
        free = tf.broadcast_static_shape(self._loc.shape[-1:], self._scale_diag.shape[-1:])
        if free.rank is None or free[0] is None:
            return tf.TensorShape([None])
        return tf.TensorShape([free[0] + 1])

    def _event_shape_tensor(self):
        return 1 + tf.broadcast_dynamic_shape(
            tf.shape(self._loc)[-1:], tf.shape(self._scale_diag)[-1:]
        )

    def _working_parameters(self):
        """loc and scale in the dtype to compute in, temperature and delta with them."""
        dtype = float_at_least_32(self.dtype)
        return [
            tf.cast(tf.convert_to_tensor(value), dtype)
            for value in (self._loc, self._scale_diag, self._temperature, self._delta)
        ]

    def _latent(self, sample_shape, seed):
        """`(y, noise)`: a draw of the Gaussians (Eq. 16) and the noise behind it."""
        loc, scale, _, _ = self._working_parameters()
        shape = tf.concat(
            [sample_shape, self.batch_shape_tensor(), self.event_shape_tensor() - 1], 0
        )
        noise = tf.cast(normal(shape, as_seed(seed)), loc.dtype)
        return loc + scale * noise, noise

    def _log_normal(self, noise):
        """The log density of loc + scale * noise, for each coordinate."""
        _, scale, _, _ = self._working_parameters()
        return -0.5 * tf.square(noise) - tf.math.log(scale) - _HALF_LOG_2_PI

    def _truncated(self, y):
        _, _, temperature, delta = self._working_parameters()
        return truncated_stick_breaking(
            y, temperature[..., tf.newaxis], delta[..., tf.newaxis], self._precision
        )

    def _map(self, y):
        """g(y, temperature), truncated where `precision` says so."""
        if self._precision is not None:
            return tf.cast(self._truncated(y)[0], self.dtype)
        _, _, temperature, delta = self._working_parameters()
        return tf.cast(self._bijector_for(temperature, delta).forward(y), self.dtype)

    def _sample_n(self, n, seed=None):
        return self._map(self._latent([n], seed)[0])

    def _sample_and_log_prob(self, sample_shape, seed=None):
        y, noise = self._latent(sample_shape, seed)
        log_normal = self._log_normal(noise)
        if self._precision is not None:
            z, truncation = self._truncated(y)
            log_prob = self._truncated_log_prob(y, log_normal, truncation.kept)
        else:
            _, _, temperature, delta = self._working_parameters()
            bijector = self._bijector_for(temperature, delta)
            z = bijector.forward(y)
            log_det = bijector.forward_log_det_jacobian(y, event_ndims=1)
            log_prob = tf.reduce_sum(log_normal, -1) - log_det
        z = self._set_sample_static_shape(tf.cast(z, self.dtype), sample_shape)
        return z, tf.cast(log_prob, self.dtype)

    def _log_prob(self, z):
        loc, scale, temperature, delta = self._working_parameters()
        # A fresh tensor: the cache of a bijector would answer for one of its own images
        # with what it put in, and hide what the sample has lost.
        z = tf.identity(tf.cast(z, loc.dtype))
        if self._precision is not None:
            kept = z[..., :-1] > 0.0
            y = truncated_inverse(
                z, kept, temperature[..., tf.newaxis], delta[..., tf.newaxis]
            )
            log_prob = self._truncated_log_prob(y, self._log_normal((y - loc) / scale), kept)
        else:
            bijector = self._bijector_for(temperature, delta)
            y = bijector.inverse(z)
            log_prob = tf.reduce_sum(self._log_normal((y - loc) / scale), -1)
            log_prob += bijector.inverse_log_det_jacobian(z, event_ndims=1)
        return tf.cast(log_prob, self.dtype)

    def _truncated_log_prob(self, y, log_normal, kept):
        _, _, temperature, delta = self._working_parameters()
        log_det = truncated_log_det(
            y, kept, temperature[..., tf.newaxis], delta[..., tf.newaxis]
        )
        return tf.reduce_sum(tf.where(kept, log_normal, 0.0), -1) - log_det

    def sample_with_truncation(self, sample_shape=(), seed=None, name="truncated_sample"):
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
        if self._precision is None:
            raise ValueError(
                "Invalid call of `sample_with_truncation`. Expected a distribution with "
                "`precision`. Received: precision=None"
            )
        with self._name_and_control_scope(name):
            sample_shape = tf.reshape(tf.cast(sample_shape, tf.int32), [-1])
            z, truncation = self._truncated(self._latent(sample_shape, seed)[0])
            return tf.cast(z, self.dtype), truncation

    def _mode(self):
        raise NotImplementedError(
            "The mode of `IGR` has no closed form. Use `discrete().mode()` for the most "
            "probable class."
        )

    def discrete(self, num_samples=10_000, seed=None, name="discrete"):
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
            loc, scale, temperature, delta = self._working_parameters()
            bijector = self._bijector_for(temperature, delta)
            if isinstance(bijector, SoftmaxPlusPlus):
                temperature = tf.cast(bijector.temperature, loc.dtype)
                delta = tf.cast(bijector.delta, loc.dtype)
                probs = gaussian_argmax_probs(loc, scale, temperature * tf.math.log(delta))
            else:
                samples = self._sample_n(num_samples, seed)
                probs = tf.reduce_mean(tf.cast(discretize(samples), loc.dtype), 0)
            return tfd.OneHotCategorical(
                probs=tf.cast(probs, self.dtype), dtype=self.dtype
            )

    def _default_event_space_bijector(self):
        return self.bijector

    def _sample_control_dependencies(self, z):
        if not self.validate_args:
            return []
        return [
            tf.debugging.assert_non_negative(z, "A sample must not be negative."),
            assert_sum(z, "A sample must sum to 1."),
        ]

    def _parameter_control_dependencies(self, is_init):
        if not self.validate_args:
            return []
        assertions = [
            assertion
            for name in ("temperature", "scale_diag", "delta")
            for assertion in positive_assertions(getattr(self, name), name, is_init)
        ]
        if self._transform == "interpolation" and is_init != is_reference(self._temperature):
            temperature = tf.convert_to_tensor(self._temperature)
            assertions.append(
                tf.debugging.assert_less_equal(
                    temperature,
                    tf.ones([], temperature.dtype),
                    "Argument `temperature` must be at most 1 for the interpolation.",
                )
            )
        return assertions


@tfd.RegisterKL(IGR, IGR)
def _kl_igr_igr(a, b, name=None):
    """KL(a, b) of the Gaussians, Eq. 19: an invertible map that both share cancels.

    Args:
        a, b: `IGR` distributions with the same transform, temperature, delta and
            precision. Where these are known to differ this raises; where they turn out
            to differ at run time the result is NaN.
        name: Name of the ops.

    Returns:
        Tensor of the common batch shape.
    """
    with tf.name_scope(name or "kl_igr_igr"):
        agree = _agreement(a, b)
        loc, scale, _, _ = a._working_parameters()
        prior_loc, prior_scale, _, _ = b._working_parameters()
        kl = tf.reduce_sum(diag_normal_kl(loc, scale, prior_loc, prior_scale), -1)
        for condition in agree:
            kl = tf.where(condition, kl, tf.cast(float("nan"), kl.dtype))
        return tf.cast(kl, a.dtype)


def _agreement(a, b):
    """What remains to be compared at run time for two distributions to share their map."""
    if a.precision != b.precision:
        raise _different("precision", a.precision, b.precision)
    if isinstance(a.transform, str) or isinstance(b.transform, str):
        if not (isinstance(b.transform, type(a.transform)) and a.transform == b.transform):
            raise _different("transform", a.transform, b.transform)
        conditions = []
    else:
        conditions = _same_bijector(a.transform, b.transform)
        if a.bijector is a.transform and b.bijector is b.transform:  # temperature unused
            return conditions
    names = ["temperature"] if a.transform == "interpolation" else ["temperature", "delta"]
    for name in names:
        conditions += _same(getattr(a, name), getattr(b, name), name)
    return conditions


def _same_bijector(a, b, name="transform"):
    if a is b:
        return []
    if type(a) is not type(b) or set(a.parameters) != set(b.parameters):
        raise _different(name, a, b)
    conditions = []
    for key, value in a.parameters.items():
        if key in ("name", "validate_args", "self"):
            continue
        other = b.parameters[key]
        pairs = [(value, other)]
        if isinstance(value, (list, tuple)) and len(value) == len(other):
            pairs = list(zip(value, other, strict=True))
        for left, right in pairs:
            if isinstance(left, tfb.Bijector):
                conditions += _same_bijector(left, right, name)
            else:
                # A parameter of the bijector, of any shape: all of it, for all the batch.
                found = _same(left, right, f"{key}` of `{name}")
                conditions += [tf.reduce_all(condition) for condition in found]
    return conditions


def _same(a, b, name):
    """[] if two values are known to agree, else what decides it at run time."""
    if a is b:
        return []
    try:
        known, other = static_value(a), static_value(b)
        if known is not None and other is not None:
            if not np.array_equal(*np.broadcast_arrays(known, other)):
                raise _different(name, a, b)
            return []
        return [tf.equal(*map(tf.convert_to_tensor, (a, b)))]
    except (TypeError, ValueError):
        raise _different(name, a, b) from None


def _different(name, a, b):
    return ValueError(
        f"Invalid value received for argument `{name}`. Expected two `IGR` distributions "
        "with the same transform, temperature, delta and precision: only then does the "
        "KL divergence have a closed form (estimate it from samples otherwise). "
        f"Received: {a} and {b}"
    )
