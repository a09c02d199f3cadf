"""Invertible Gaussian Reparameterization as a layer."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfconcrete._checks import (
    check_axis,
    check_broadcast,
    check_mask,
    check_number,
    invalid_type,
    invalid_value,
    static_value,
)
from tfconcrete._dtypes import working
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.layers.base import SamplingLayer, check_tensor
from tfconcrete.layers.bijector_config import (
    deserialize_bijector,
    replace_variables,
    serialize_bijector,
)
from tfconcrete.relaxations.diag_normal import gaussian_kl
from tfconcrete.relaxations.igr import check_igr, igr, igr_and_truncation
from tfconcrete.relaxations.simplex_transform import SimplexTransform
from tfconcrete.relaxations.transforms import get_transform
from tfconcrete.schedules.schedule import Schedule
from tfconcrete.variables import GaussianSimplex


@keras.saving.register_keras_serializable(package="tfconcrete")
class IGRSample(SamplingLayer):
    """A relaxed one-hot sample of K classes from K-1 Gaussians, with a closed-form KL.

    Forward: g(loc + exp(log_scale) * Normal, temperature), on the simplex.
    Backward: its gradient.
    Bias: none for the relaxed objective, which differs from the discrete one.

    Outside training the output is the one-hot of the noise-free point's largest class
    (`"argmax"`), of a rounded draw (`"sample"`), or the probability of each class to be
    the largest (`"probs"`: exact for softmax++, else the frequencies among 1,000 draws).

    The KL divergence between two such variables is that of their Gaussians: `kl_loss`
    returns it, and `kl_weight` adds it to the losses of any model that holds the layer.

    With `precision` the metrics `<name>_truncated_mass` and `<name>_effective_classes`
    report, with those of the model, what the cut took away and how many classes a
    sample keeps.

    Args:
        transform: `"softmax++"` (Eq. 21), `"stick_breaking"` (Eq. 24),
            `"interpolation"` (Eq. 23; temperature at most 1), or a bijector. One from
            R^(K-1) to itself (`tfc.bijectors.PlanarFlow.create(...)`) is followed by
            softmax++, and its variables are trained with the layer.
        temperature: A positive number or a schedule.
        delta: positive number, the weight of the remainder class in softmax++. With any
            other than 1 the class probabilities depend on the temperature; with
            `"stick_breaking"` and delta <= 1 the remainder never is the largest class.
        precision: None, or with `"stick_breaking"` the rho in (0, 1) at which each
            sample is cut: a countably infinite support, K-1 the largest number of
            classes (Eq. 25, on the sticks).
        prior: What the KL is measured against: None for standard Gaussians, a pair
            `(loc, scale)` of numbers or arrays `[..., K-1]`, or a
            `tfc.distributions.IGR` with this layer's transform, temperature and delta
            (`tfc.calibration.fit_igr_prior` makes one).
        kl_weight: If not 0, every call adds `kl_weight` times the KL (summed over all
            variables of an example, averaged over the batch) to the losses.
        axis: The class axis.
        inference: `"argmax"`, `"sample"` or `"probs"`, the output outside training.
        seed: An int, None, or a `keras.random.SeedGenerator`.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        params: A list `[loc, log_scale]` of float tensors `[..., K-1]`.
        class_mask: boolean, broadcast against the result `[..., K]`; True keeps the
            class.
        training: Whether to sample relaxed, or as `inference` says.

    Returns:
        Tensor `[..., K]`; the last class is the remainder.

    Reference:
        Potapczynski, Loaiza-Ganem & Cunningham (2020), "Invertible Gaussian
        Reparameterization: Revisiting the Gumbel-Softmax".

    Example:

    >>> layer = tfc.IGRSample(temperature=0.5, seed=0)
    >>> loc, log_scale = tf.constant([[1.0, 2.0]]), tf.zeros([1, 2])
    >>> layer([loc, log_scale]).numpy()
    array([[0., 1., 0.]], dtype=float32)
    >>> layer([loc, log_scale], training=True).shape
    TensorShape([1, 3])
    >>> layer.kl_loss([loc, log_scale]).numpy()
    array([2.5], dtype=float32)

    A functional VAE gets its KL term from the layer:

    >>> x = keras.Input([784])
    >>> hidden = keras.layers.Dense(32, activation="relu")(x)
    >>> parameters = [keras.layers.Dense(9)(hidden), keras.layers.Dense(9)(hidden)]
    >>> z = tfc.IGRSample(temperature=0.1, kl_weight=1.0)(parameters)
    >>> vae = keras.Model(x, keras.layers.Dense(784)(z))
    >>> _ = vae(tf.zeros([4, 784]))
    >>> len(vae.losses)
    1
    """

    _params_name = "params"

    def __init__(
        self,
        transform: str | SimplexTransform = "softmax++",
        temperature: TensorLike | Schedule = 0.5,
        delta: TensorLike = 1.0,
        precision: float | None = None,
        prior: Any = None,
        kl_weight: float = 0.0,
        axis: int = -1,
        inference: str = "argmax",
        seed: Seed = None,
        **kwargs,
    ) -> None:
        if isinstance(transform, dict):
            transform = deserialize_bijector(transform)
        self.transform = transform
        check_igr(0.5, transform, delta, precision)
        super().__init__(temperature, axis=axis, inference=inference, seed=seed, **kwargs)
        self.delta = check_number(delta, "delta", "a positive number")
        self.precision = precision
        self.kl_weight = check_number(kl_weight, "kl_weight", "a non-negative number", minimum=0.0)
        self._prior = self._checked_prior(prior)
        self._flow_weights = []
        if not isinstance(transform, str):
            replace_variables(transform, self._add_flow_weight)
        if precision is not None:
            self.truncated_mass = keras.metrics.Mean(f"{self.name}_truncated_mass")
            self.effective_classes = keras.metrics.Mean(f"{self.name}_effective_classes")

    def check_temperature(self, value: TensorLike) -> None:
        super().check_temperature(value)
        check_igr(value, self.transform, 1.0, None)

    @property
    def variable(self) -> GaussianSimplex:
        return GaussianSimplex(
            self._num_states,
            self.axis,
            transform=self._current_transform(),
            delta=self.delta,
            precision=self.precision,
            prior=self._prior,
        )

    def _add_flow_weight(self, variable):
        value = variable.numpy()
        weight = self.add_weight(
            name=f"transform_{len(self._flow_weights)}",
            shape=value.shape,
            dtype=value.dtype.name,
            initializer=lambda shape, dtype: tf.constant(value, dtype),
            trainable=variable.trainable,
            autocast=False,
        )
        self._flow_weights.append(weight)
        return variable

    def _current_transform(self):
        """The transform, its variables replaced by the layer's weights."""
        if not self._flow_weights:
            return self.transform
        weights = iter(self._flow_weights)
        return replace_variables(self.transform, lambda _: tf.convert_to_tensor(next(weights)))

    def _checked_prior(self, prior):
        expected = "None, a pair (loc, scale) or a `tfc.distributions.IGR`"
        if prior is None:
            return None
        if hasattr(prior, "scale_diag"):
            self._check_same_map(prior)
            prior = (prior.loc, prior.scale_diag)
        if not isinstance(prior, (list, tuple)) or len(prior) != 2:
            raise invalid_type("prior", expected, prior)
        loc, scale = (np.asarray(value, np.float64) for value in prior)
        if not (np.all(np.isfinite(loc)) and np.all(np.isfinite(scale) & (scale > 0))):
            raise invalid_value("prior", "a finite loc and a positive scale", prior)
        check_broadcast(scale.shape, "prior", loc.shape, "prior[0]")
        return loc, scale

    def _check_same_map(self, prior):
        same = get_transform(prior.transform) == get_transform(self.transform)
        pairs = [(prior.delta, self.delta)]
        if self.schedule is None:
            pairs.append((prior.temperature, self._initial_temperature))
        for value, own in pairs:
            known = static_value(value)
            same = same and (known is None or np.allclose(known, own, rtol=1e-6, atol=0.0))
        if not same:
            raise invalid_value(
                "prior",
                "an `IGR` with the transform, temperature and delta of the layer: only "
                "then is the KL divergence that of the Gaussians",
                prior,
            )

    def call(
        self, params: Any, class_mask: TensorLike | None = None, training: bool | None = None
    ) -> tf.Tensor:
        sample = super().call(params, class_mask=class_mask, training=training)
        if self.kl_weight and not self.is_serving:
            kl = self.kl_loss(params, class_mask=self._with_sequence_mask(params, class_mask))
            if kl.shape.rank:
                kl = tf.reduce_mean(tf.reduce_sum(kl, axis=list(range(1, kl.shape.rank))))
            self.add_loss(self.kl_weight * kl)
        return sample

    def kl_loss(
        self, params: Any, prior: Any = None, class_mask: TensorLike | None = None
    ) -> tf.Tensor:
        """KL(Normal(loc, scale) || prior), the KL of the relaxed variables too (Eq. 19).

        Args:
            params: `[loc, log_scale]`, as the layer is called on.
            prior: As in the layer; None uses the layer's own.
            class_mask: As in `call`; masked classes do not count.

        Returns:
            Tensor `[...]`: one number for each variable, summed over its K-1 Gaussians,
            in float32 at least.
        """
        loc, log_scale = working(list(params))
        prior = self._prior if prior is None else self._checked_prior(prior)
        mask = None
        if class_mask is not None:
            mask = self._free_mask(class_mask, loc)
            loc = tf.where(mask, loc, tf.zeros_like(loc))
            log_scale = tf.where(mask, log_scale, tf.zeros_like(loc))
        prior_loc, prior_scale = (0.0, 1.0) if prior is None else map(self.variable.on_axis, prior)
        kl = gaussian_kl(loc, log_scale, prior_loc, np.log(prior_scale))
        if mask is not None:
            kl = tf.where(mask, kl, tf.zeros_like(kl))
        return tf.reduce_sum(kl, self.axis)

    def _free_mask(self, class_mask, loc):
        """The mask of the K-1 coordinates, without the remainder."""
        mask = tf.convert_to_tensor(class_mask)
        rank = loc.shape.rank
        missing = rank - mask.shape.rank
        mask = tf.reshape(mask, tf.concat([tf.ones([missing], tf.int32), tf.shape(mask)], 0))
        size = tf.shape(loc)[self.axis]
        if mask.shape[self.axis] != 1:
            mask = tf.gather(mask, tf.range(size), axis=self.axis)
        return mask | tf.zeros(tf.shape(loc), tf.bool)

    def relax(
        self,
        params: Any,
        temperature: TensorLike,
        class_mask: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        loc, log_scale = params
        return igr(loc, log_scale, temperature, seed=seed, **self.variable.options(class_mask))

    def relax_node(
        self,
        params: Any,
        temperature: TensorLike,
        class_mask: TensorLike | None = None,
        seed: Seed = None,
    ) -> Any:
        sample = self.relax(params, temperature, class_mask=class_mask, seed=seed)
        return self.variable.node(sample, params, seed)

    def observe(
        self, params: Any, temperature: TensorLike, class_mask: TensorLike | None, seed: Seed
    ) -> None:
        if self.precision is None:
            return
        loc, log_scale = params
        _, truncation = igr_and_truncation(
            loc, log_scale, temperature, seed=seed, **self.variable.options(class_mask)
        )
        self.truncated_mass.update_state(truncation.mass)
        self.effective_classes.update_state(truncation.num_classes)

    def _hide_masked(self, params, class_mask):
        return params

    def _with_sequence_mask(self, params, class_mask):
        mask = super()._with_sequence_mask(params[0], None)
        if mask is None:
            return class_mask
        # The remainder is a class beside the time steps.
        mask = tf.concat([mask, tf.ones_like(mask[:, :1])], 1)
        return mask if class_mask is None else tf.logical_and(class_mask, mask)

    def _check_shape(self, params_shape):
        if (
            not isinstance(params_shape, (list, tuple))
            or len(params_shape) != 2
            or (params_shape[0] is None or isinstance(params_shape[0], int))
        ):
            raise invalid_value("params", "a list [loc, log_scale]", params_shape)
        loc_shape, scale_shape = map(tf.TensorShape, params_shape)
        if loc_shape.rank is None:
            return
        if loc_shape.rank == 0:
            raise invalid_value("params", "loc and log_scale of shape [..., K-1]", loc_shape)
        axis = check_axis(self.axis, loc_shape.rank)
        common = check_broadcast(scale_shape, "log_scale", loc_shape, "loc")
        if loc_shape[axis] == 0 or not common.is_compatible_with(loc_shape):
            raise invalid_value(
                "params",
                "loc and log_scale of one shape [..., K-1], K at least 2",
                params_shape,
            )

    def _check_inputs(self, params, class_mask):
        if not isinstance(params, (list, tuple)) or len(params) != 2:
            raise invalid_type("params", "a list [loc, log_scale]", params)
        for value, name in zip(params, ("loc", "log_scale"), strict=True):
            check_tensor(value, name)
        self._check_shape([value.shape for value in params])
        if class_mask is not None:
            shape = self.compute_output_shape([value.shape for value in params])
            check_mask(class_mask, shape, self.axis)

    def compute_output_shape(self, params_shape: Any, class_mask_shape: Any = None) -> tuple:
        self._check_shape(params_shape)
        shape = list(params_shape[0])
        if shape[self.axis] is not None:
            shape[self.axis] += 1
        return tuple(shape)

    def build(self, params_shape: Any, class_mask_shape: Any = None) -> None:
        super().build(params_shape)

    def compute_output_spec(
        self, params: Any, class_mask: TensorLike | None = None, training: bool | None = None
    ) -> Any:
        return super().compute_output_spec(params, class_mask, training)

    def get_config(self) -> dict[str, Any]:
        transform = self.transform
        if not isinstance(transform, str):
            transform = serialize_bijector(transform)
        prior = self._prior
        if prior is not None:
            prior = [value.tolist() for value in prior]
        return {
            **super().get_config(),
            "transform": transform,
            "delta": self.delta,
            "precision": self.precision,
            "prior": prior,
            "kl_weight": self.kl_weight,
        }
