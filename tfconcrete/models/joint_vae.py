"""`JointVAE`: a discrete and a Gaussian latent, each held to a capacity."""

import keras
import tensorflow as tf

from tfconcrete._checks import check_number, invalid_type, invalid_value
from tfconcrete._seeds import fold_in, split
from tfconcrete.layers.seeded import SeededLayer
from tfconcrete.models.discrete_vae import DiscreteVAE
from tfconcrete.models.evaluation import in_batches
from tfconcrete.models.sampling import DiscreteSampling, fold_rows, next_seeds, unfold_rows
from tfconcrete.models.stacks import float_spec, output_spec
from tfconcrete.noise import normal
from tfconcrete.objectives.bounds import multi_sample_bound, streamed_bound
from tfconcrete.objectives.capacity import capacity_penalty, get_capacity
from tfconcrete.objectives.kl import gaussian_density_kl, gaussian_kl
from tfconcrete.objectives.latents import working


@keras.saving.register_keras_serializable(package="tfconcrete")
class JointVAE(DiscreteVAE):
    """A `DiscreteVAE` with a Gaussian latent beside the discrete one.

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

    term_names = ("reconstruction", "kl", "continuous_kl")

    def __init__(
        self,
        encoder,
        decoder,
        latent,
        likelihood="bernoulli",
        prior_logits=None,
        prior_temperature=None,
        kl="auto",
        gamma=30.0,
        discrete_capacity=(0.0, 5.0, 25_000),
        continuous_capacity=(0.0, 5.0, 25_000),
        seed=None,
        **kwargs,
    ):
        self.gamma = check_number(gamma, "gamma", "a non-negative number", minimum=0.0)
        self.discrete_capacity = get_capacity(discrete_capacity, "discrete_capacity")
        self.continuous_capacity = get_capacity(continuous_capacity, "continuous_capacity")
        for name, value in (("encoder", encoder), ("decoder", decoder), ("latent", latent)):
            if isinstance(value, (list, tuple)):
                raise invalid_type(name, "one of it: a JointVAE is no stack", value)
        super().__init__(
            encoder, decoder, latent, likelihood, prior_logits, prior_temperature, kl, **kwargs
        )
        self.continuous = SeededLayer(seed=seed, name="continuous")
        self.continuous.built = True
        self._step = self.add_weight(
            name="step", initializer="zeros", dtype="int64", trainable=False, autocast=False,
            aggregation="only_first_replica",
        )  # fmt: skip

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
        self.likelihood.check(x.shape, outputs.shape)
        self._make_prior()

    def _split(self, outputs):
        """The encoder's outputs as the discrete parameters, location and log scale."""
        if not isinstance(outputs, (list, tuple)) or len(outputs) not in (3, 4):
            raise invalid_value(
                "encoder", "outputs [*discrete parameters, location, log scale]", outputs
            )
        *params, loc, log_scale = outputs
        return params[0] if len(params) == 1 else params, loc, log_scale

    def call(self, x, training=None):
        params, loc, log_scale = self._split(self.encoder(x, training=training))
        z = self._latents[0].output(params, training)
        c = loc
        if training:
            c = self._gaussian(working(loc), working(log_scale), self.continuous.next_seed())
        return self._mean(self.decoder([z, c], training=training))

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

    def _training_terms(self, x, y):
        way = self._relaxed_sampling(next_seeds(self._latents), advance=True)
        terms = self._joint_means(x, way, self.continuous.next_seed(), training=True)
        step = tf.convert_to_tensor(self._step)
        penalty = capacity_penalty(terms["kl"], self.discrete_capacity(step), self.gamma)
        penalty += capacity_penalty(
            terms["continuous_kl"], self.continuous_capacity(step), self.gamma
        )
        return {**terms, "loss": terms["reconstruction"] + penalty}

    def _after_step(self, terms):
        self._step.assign_add(1)

    def _discrete_terms(self, x, y):
        seeds, seed = next_seeds(self._latents), self.continuous.next_seed()
        relaxed = self._relaxed_sampling(seeds, advance=False)
        discrete = DiscreteSampling(self._latents, seeds, self._kl_options)
        terms = self._joint_means(x, discrete, seed, training=False)
        terms["relaxed_loss"] = self._joint_means(x, relaxed, seed, training=False)["loss"]
        return terms

    def decode(self, codes, continuous=None, batch_size=1_000):
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
        codes, continuous = tf.constant(codes, tf.int32), tf.constant(continuous, tf.float32)
        self._latents[0].check_codes(codes.numpy())
        rows = tf.range(len(codes))
        return in_batches(
            lambda i: self._decode_function(tf.gather(codes, i), tf.gather(continuous, i)),
            rows,
            batch_size,
        )

    def _encode_codes(self, x):
        params, _, _ = self._split(working(self.encoder(x, training=False)))
        return self._latents[0].codes(params)

    def _decode_codes(self, codes, continuous=None):
        value = self._latents[0].from_codes(codes)
        if continuous is None:
            continuous = tf.zeros([tf.shape(codes)[0], *self._continuous_shape])
        return self._mean(self.decoder([value, continuous], training=False))

    def _generate_from_seeds(self, seeds):
        rows = tf.shape(seeds)[0]
        params = tf.nest.map_structure(
            lambda p: tf.repeat(p, rows, axis=0), self._prior_params()
        )
        value = self._draw_rows(0, params, seeds)
        continuous = tf.map_fn(
            lambda seed: normal(self._continuous_shape, fold_in(seed, 1)),
            seeds,
            fn_output_signature=tf.float32,
        )
        return self._mean(self.decoder([value, continuous], training=False))

    def _streamed_likelihood(self, x, seed, num_samples, chunk):
        encoding = DiscreteSampling(self._latents, None)
        posterior = self._joint_posterior(x, encoding, training=False)

        def log_weights(chunk, seed):
            discrete, continuous = split(seed, 2)
            way = DiscreteSampling(self._latents, [discrete])
            terms = self._joint_terms(x, way, continuous, chunk, False, posterior)
            return terms[0] - terms[1] - terms[2]

        return streamed_bound(log_weights, num_samples, chunk, seed)

    def get_config(self):
        config = super().get_config()
        del config["num_samples"], config["beta"]
        serialize = keras.saving.serialize_keras_object
        return {
            **config,
            "gamma": self.gamma,
            "discrete_capacity": serialize(self.discrete_capacity),
            "continuous_capacity": serialize(self.continuous_capacity),
            "seed": self.continuous.seed,
        }
