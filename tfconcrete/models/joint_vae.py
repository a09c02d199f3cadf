"""`JointVAE`: a discrete and a Gaussian latent, each held to a capacity."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfconcrete._checks import check_number, check_temperature, invalid_type, invalid_value
from tfconcrete._dtypes import working
from tfconcrete._seeds import RowSeeds, fold_in
from tfconcrete._streams import Stream
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.layers.seeded import SeededLayer
from tfconcrete.models.evaluation import as_array, in_batches
from tfconcrete.models.replicas import mean_over_replicas
from tfconcrete.models.sampling import (
    DiscreteSampling,
    RelaxedSampling,
    fold_rows,
    next_seeds,
    unfold_rows,
)
from tfconcrete.models.stacks import float_spec, output_spec
from tfconcrete.models.vae import VAE
from tfconcrete.noise import normal
from tfconcrete.objectives.bounds import multi_sample_bound, streamed_bound
from tfconcrete.objectives.capacity import capacity_penalty, get_capacity
from tfconcrete.objectives.kl import gaussian_density_kl
from tfconcrete.objectives.likelihoods import Likelihood
from tfconcrete.relaxations.diag_normal import gaussian_kl


@keras.saving.register_keras_serializable(package="tfconcrete")
class JointVAE(VAE):
    """A variational autoencoder with a discrete and a Gaussian latent.

    Training minimises, with the KLs averaged over the batch (IGR, Eq. 15),

        -log p(x | z_d, z_c) + gamma |KL(z_d) - C_d| + gamma |KL(z_c) - C_c|,

    where the capacities C grow linearly with the training steps. `evaluate` and
    `log_likelihood` report the plain discrete bound, in which both KLs count once.

    Args:
        encoder: Keras model from x to a list: the discrete latent's parameters (one output,
            or two for an `IGRSample`), then location and log scale of the Gaussian.
        decoder: Keras model from `[z_d, z_c]` to the likelihood's parameters.
        latent: Sampling layer.
        likelihood, prior_logits, prior_temperature, kl: As in `DiscreteVAE`.
        gamma: Weight of the two penalties.
        discrete_capacity: C_d in nats: a number, `(initial, final, steps)` or a
            `tfc.objectives.LinearCapacity`. What exceeds the sum of log num_classes cannot
            be reached with a categorical KL.
        continuous_capacity: C_c, likewise.
        seed: An int, None, or a `keras.random.SeedGenerator`, for the Gaussian.
        **kwargs: `name`, `dtype` and the other arguments of `keras.Model`.

    Reference:
        Dupont (2018); Potapczynski et al. (2020), Eq. 15.

    Example:

    >>> x = keras.Input((6,))
    >>> encoder = keras.Model(x, [keras.layers.Dense(n)(x) for n in (3, 2, 2)])
    >>> z = [keras.Input((3,)), keras.Input((2,))]
    >>> decoder = keras.Model(z, keras.layers.Dense(6)(keras.layers.Concatenate()(z)))
    >>> model = tfc.models.JointVAE(encoder, decoder, tfc.ConcreteSample(seed=0), seed=0)
    >>> model.compile("adam")
    >>> history = model.fit(np.ones([8, 6], "float32"), verbose=0)
    >>> model.generate(4, seed=0).shape
    (4, 6)
    """

    term_names: tuple[str, ...] = ("reconstruction", "kl", "continuous_kl")

    def __init__(
        self,
        encoder: keras.Layer | Sequence,
        decoder: keras.Layer | Sequence,
        latent: keras.Layer | Sequence,
        likelihood: str | Likelihood = "bernoulli",
        prior_logits: TensorLike | None = None,
        prior_temperature: TensorLike | None = None,
        kl: str = "auto",
        gamma: float = 30.0,
        discrete_capacity: Any = (0.0, 5.0, 25_000),
        continuous_capacity: Any = (0.0, 5.0, 25_000),
        seed: Seed = None,
        **kwargs,
    ) -> None:
        self.gamma = check_number(gamma, "gamma", "a non-negative number", minimum=0.0)
        self.discrete_capacity = get_capacity(discrete_capacity, "discrete_capacity")
        self.continuous_capacity = get_capacity(continuous_capacity, "continuous_capacity")
        for name, value in (("encoder", encoder), ("decoder", decoder), ("latent", latent)):
            if isinstance(value, (list, tuple)):
                raise invalid_type(name, "one of it: a JointVAE is no stack", value)
        for name in ("num_samples", "beta"):
            if name in kwargs:
                raise ValueError(
                    f"Unrecognized keyword argument `{name}`: the objective of a JointVAE (IGR, "
                    "Eq. 15) has one sample and the weight `gamma`. Received: "
                    f"{name}={kwargs[name]}"
                )
        super().__init__(encoder, decoder, latent, likelihood, prior_logits, **kwargs)
        if prior_temperature is not None:
            check_temperature(prior_temperature, name="prior_temperature")
        self.prior_temperature = prior_temperature
        self.kl = kl
        self._kl_option()
        self.continuous = SeededLayer(seed=seed, name="continuous")
        self.continuous.built = True
        self._step = self.add_weight(
            name="step",
            initializer="zeros",
            dtype="int64",
            trainable=False,
            autocast=False,
            aggregation="only_first_replica",
        )
        self.build_known()

    def _kl_option(self):
        return self._latents[0].kl_option(self.kl, num_samples=1)

    def _build_from(self, x):
        outputs = output_spec(self.encoder, x, "encoder", "the data")
        params, loc, log_scale = self._split(outputs)
        if tuple(loc.shape) != tuple(log_scale.shape):
            raise invalid_value(
                "encoder",
                "location and log scale of one shape as its last two outputs",
                [tuple(loc.shape), tuple(log_scale.shape)],
            )
        self._continuous_shape = tuple(loc.shape[1:])
        value = float_spec([self._latents[0].build(params), loc])
        outputs = output_spec(self.decoder, value, "decoder", "[z_d, z_c]")
        self._check_outputs(x, outputs)
        self._make_prior()

    def _split(self, outputs):
        """The encoder's outputs as the discrete parameters, location and log scale."""
        if not isinstance(outputs, (list, tuple)) or len(outputs) not in (3, 4):
            raise invalid_value(
                "encoder", "outputs [*discrete parameters, location, log scale]", outputs
            )
        *params, loc, log_scale = outputs
        return params[0] if len(params) == 1 else params, loc, log_scale

    def call(self, x: tf.Tensor, training: bool | None = None) -> Any:
        params, loc, log_scale = self._split(self.encoder(x, training=training))
        z = self._latents[0].output(params, training)
        c = loc
        if training:
            c = self._gaussian(working(loc), working(log_scale), self._continuous_seed())
        return self._mean(self.decoder([z, c], training=training))

    def _continuous_seed(self):
        """The next seed of the Gaussian, another one than a latent of the same seed has."""
        return fold_in(self.continuous.next_seed(), 0, Stream.CONTINUOUS)

    def _gaussian(self, loc, log_scale, seed):
        return loc + tf.exp(log_scale) * tf.cast(normal(tf.shape(loc), seed), loc.dtype)

    def _joint_posterior(self, x, way, training):
        params, loc, log_scale = self._split(working(self.encoder(x, training=training)))
        return way.params(0, params), loc, log_scale

    def _joint_terms(self, x, way, seed, num_samples, training, posterior=None):
        """log p(x | z), log q - log p of z_d, and of z_c with its node, all `[m, batch]`."""
        if posterior is None:
            posterior = self._joint_posterior(x, way, training)
        q, loc, log_scale = posterior
        rows = fold_rows(posterior, num_samples)
        node, z = way.sample(0, rows[0])
        c = self._gaussian(rows[1], rows[2], seed)
        outputs = unfold_rows(working(self.decoder([z, c], training=training)), num_samples)
        log_likelihood = self.likelihood.log_prob(x, outputs)
        node, c = unfold_rows((node, c), num_samples)
        discrete = way.log_ratio(0, node, q, way.params(0, self._prior_params(loc.dtype)))
        continuous = (
            gaussian_kl(loc, log_scale)
            if num_samples == 1
            else gaussian_density_kl(c, loc, log_scale)
        )
        continuous = tf.reduce_sum(continuous, list(range(-len(self._continuous_shape), 0)))
        zeros = tf.zeros_like(log_likelihood)
        return log_likelihood, discrete + zeros, continuous + zeros

    def _joint_means(self, x, way, seed, training):
        log_likelihood, discrete, continuous = self._joint_terms(x, way, seed, 1, training)
        return {
            "loss": -multi_sample_bound(log_likelihood - discrete - continuous),
            "reconstruction": -log_likelihood[0],
            "kl": discrete[0],
            "continuous_kl": continuous[0],
        }

    def _relaxed_sampling(self, seeds, advance):
        return RelaxedSampling(
            self._latents, seeds, advance, [self._kl_option()], self.prior_temperature
        )

    def training_terms(self, x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
        way = self._relaxed_sampling(next_seeds(self._latents), advance=True)
        return self._joint_means(x, way, self._continuous_seed(), training=True)

    def weigh_terms(
        self, terms: dict[str, Any], sample_weight: tf.Tensor | None
    ) -> dict[str, tf.Tensor]:
        """Adds the penalties of the two KLs, whose means count examples by their weights."""
        step = tf.convert_to_tensor(self._step)
        penalty = sum(
            capacity_penalty(
                mean_over_replicas(terms[name], sample_weight), capacity(step), self.gamma
            )
            for name, capacity in (
                ("kl", self.discrete_capacity),
                ("continuous_kl", self.continuous_capacity),
            )
        )
        return {**terms, "loss": terms["reconstruction"] + penalty}

    def check_compilable(self) -> None:
        raise ValueError(
            "Invalid value received for argument `jit_compile`. Expected False for a JointVAE "
            "on several replicas: its penalties need the mean over all of them inside the "
            "step. Received: jit_compile=True. Compile the model again."
        )

    def after_step(self, terms: dict[str, Any]) -> None:
        self._step.assign_add(1)

    def discrete_terms(self, x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
        seeds, seed = next_seeds(self._latents), self._continuous_seed()
        relaxed = self._relaxed_sampling(seeds, advance=False)
        discrete = self._exact_sampling(seeds, [self._kl_option()])
        terms = self._joint_means(x, discrete, seed, training=False)
        terms["relaxed_loss"] = self._joint_means(x, relaxed, seed, training=False)["loss"]
        return terms

    def encode(self, x: TensorLike, batch_size: int = 1_000, continuous: bool = False) -> Any:
        """The most probable codes, and the location of the Gaussian latent.

        Args:
            x: array `[examples, ...]` or a batched `tf.data.Dataset`.
            batch_size: Examples at a time.
            continuous: Whether to return the Gaussian's location too.

        Returns:
            int32 array `[examples, ...]`; with `continuous` a pair of it and a float32
            array, both as `decode` takes them.
        """
        codes, location = self._encode_all(x, batch_size)
        return (codes, location) if continuous else codes

    def _encode_all(self, x, batch_size):
        x = as_array(x)
        self.ensure_built(x)
        return in_batches(self._encode_function, x, batch_size)

    def decode(  # type: ignore[override]
        self, codes: TensorLike, continuous: Any = None, batch_size: int = 1_000
    ) -> np.ndarray:
        """The likelihood's mean for given codes.

        Args:
            codes: int array as `encode` returns it.
            continuous: float array `[examples, ...]`, the Gaussian latent; None for its
                prior mean, zero.
            batch_size: Examples at a time.

        Returns:
            float32 array `[examples, ...]`.
        """
        if continuous is None:
            return super().decode(codes, batch_size)
        codes, continuous = np.asarray(codes), np.asarray(continuous)
        self._check_built("decode")
        self._latents[0].check_codes(codes)
        shape = (len(codes), *self._continuous_shape)
        if continuous.dtype.kind not in "fiu" or continuous.shape != shape:
            raise ValueError(
                "Invalid value received for argument `continuous`. Expected numbers of shape "
                f"{shape}. Received: {continuous.dtype.name} values of shape {continuous.shape}"
            )
        codes, continuous = tf.constant(codes, tf.int32), tf.constant(continuous, tf.float32)
        rows = tf.range(len(codes))
        return in_batches(
            lambda i: self._decode_function(tf.gather(codes, i), tf.gather(continuous, i)),
            rows,
            batch_size,
        )

    def encode_tensors(self, x: tf.Tensor) -> Any:
        """int32 codes and the Gaussian's location of x `[batch, ...]`."""
        params, loc, _ = self._split(working(self.encoder(x, training=False)))
        return self._latents[0].state_and_codes(params)[1], loc

    def decode_tensors(self, codes: tf.Tensor, continuous: Any = None) -> Any:
        """The mean for int32 codes and Gaussians, by default their prior mean, zero."""
        value = self._latents[0].from_codes(codes)
        if continuous is None:
            continuous = tf.zeros([tf.shape(codes)[0], *self._continuous_shape])
        mean = self._mean(self.decoder([value, continuous], training=False))
        return self._latents[0].nan_without_codes(mean, codes)

    def generate_tensors(self, seeds: tf.Tensor) -> Any:
        """One mean for each int32 seed `[batch, 2]`."""
        value = self._draw_rows(0, self._prior_rows(tf.shape(seeds)[0]), seeds)
        shape = tf.concat([tf.shape(seeds)[:1], self._continuous_shape], 0)
        continuous = normal(shape, fold_in(RowSeeds(seeds), 0, Stream.CONTINUOUS))
        return self._mean(self.decoder([value, continuous], training=False))

    def _served_encode(self, x):
        codes, continuous = self.encode_tensors(x)
        return {"codes": codes, "continuous": tf.cast(continuous, tf.float32)}

    def _decode_specs(self):
        shape = (None, *self._continuous_shape)
        return {
            **super()._decode_specs(),
            "continuous": tf.TensorSpec(shape, tf.float32, name="continuous"),
        }

    def _streamed_likelihood(self, x, seed, num_samples, chunk):
        way = DiscreteSampling(self._latents, None)
        posterior = self._joint_posterior(x, way, training=False)

        def log_weights(chunk, seed):
            discrete = fold_in(seed, 0, Stream.LATENT)
            continuous = fold_in(seed, 0, Stream.CONTINUOUS)
            way = DiscreteSampling(self._latents, [discrete])
            terms = self._joint_terms(x, way, continuous, chunk, False, posterior)
            return terms[0] - terms[1] - terms[2]

        return streamed_bound(log_weights, num_samples, chunk, seed)

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "prior_temperature": self.prior_temperature,
            "kl": self.kl,
            "gamma": self.gamma,
            "discrete_capacity": serialize(self.discrete_capacity),
            "continuous_capacity": serialize(self.continuous_capacity),
            "seed": self.continuous.seed,
        }
