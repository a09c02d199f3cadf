"""`DiscreteVAE`: a variational autoencoder with discrete latents."""

import keras
import numpy as np
import tensorflow as tf

from tfconcrete._checks import check_count, check_number, check_temperature
from tfconcrete._seeds import as_seed, fold_in, random_words, split
from tfconcrete.models.base import BoundModel
from tfconcrete.models.evaluation import as_array, compiled, in_batches, stream_likelihood
from tfconcrete.models.priors import check_prior, make_prior
from tfconcrete.models.sampling import (
    DiscreteSampling,
    RelaxedSampling,
    fold_rows,
    next_seeds,
    temperatures,
    unfold_rows,
)
from tfconcrete.models.stacks import (
    as_list,
    check_lengths,
    check_models,
    check_parent,
    deserialize_config,
    float_spec,
    input_spec,
    output_spec,
)
from tfconcrete.objectives.bounds import multi_sample_bound, streamed_bound
from tfconcrete.objectives.latents import SAMPLED, as_latent, resolve_kl, working
from tfconcrete.objectives.likelihoods import get_likelihood


@keras.saving.register_keras_serializable(package="tfconcrete")
class DiscreteVAE(BoundModel):
    """A variational autoencoder whose latents are discrete.

    `fit` maximises the relaxed multi-sample bound L_m, with the sampling layer's training
    samples; `evaluate` reports the discrete bound, with exact one-hot samples whatever the
    layer's `inference`; `predict` reconstructs from the most probable codes.

    Lists of equal length make a stack: `encoder[0]` maps x to the parameters of z_1,
    `encoder[l]` z_l to those of z_(l+1); `decoder[l]` maps z_(l+1) to the parameters of
    z_l, `decoder[0]` to those of x; the prior is on the last.

    Args:
        encoder: Keras model (or list) from x to the latent's parameters.
        decoder: Keras model (or list) from the latent's sample (on the simplex, also for an
            `ExpConcreteSample`) to the likelihood's parameters.
        latent: Sampling layer (or list).
        likelihood: `"bernoulli"` (the decoder gives logits), `"gaussian"` (the mean),
            `"categorical"` (class logits), or a likelihood of `tfc.objectives`.
        prior_logits: None (uniform), a number, an array that broadcasts to the latent's
            parameters for one example, or `"trainable"`. For an `IGRSample` the logits of
            its K classes, to which a Gaussian prior is fitted; None is the layer's own
            `prior`, else one with uniform rounding (softmax++) or standard Gaussians (other
            transforms); `"trainable"` learns the Gaussians.
        prior_temperature: Positive number, read by `kl="density"`; None for the layer's.
        kl: `"density"` (Concrete, Eq. 20), `"mass"` (Eq. 21), `"analytic"` (Eq. 22, one
            sample only), `"gaussian"` (IGR, Eq. 19), or `"auto"`, the best that the layer
            allows. In a stack the analytic form holds for the last latent alone: below it
            the prior depends on the sample, and the mass form is taken.
        num_samples: m of the bound L_m (Eq. 8).
        beta: Weight of the KL term in training.
        **kwargs: `name`, `dtype` and the other arguments of `keras.Model`.

    Call arguments:
        x: tensor `[batch, ...]`.
        training: Whether to reconstruct from relaxed samples or from the argmax.

    Returns:
        The likelihood's mean, `[batch, ...]`: probabilities for `"bernoulli"`.

    Reference:
        Maddison, Mnih & Teh (2017), sections 2.4 and 3.3, Appendix C and D.

    Example:

    >>> encoder = keras.Sequential([
    ...     keras.Input((6,)), keras.layers.Dense(6), keras.layers.Reshape((2, 3))])
    >>> decoder = keras.Sequential([
    ...     keras.Input((2, 3)), keras.layers.Flatten(), keras.layers.Dense(6)])
    >>> model = tfc.models.DiscreteVAE(encoder, decoder, tfc.ConcreteSample(seed=0))
    >>> model.compile("adam")
    >>> x = np.random.default_rng(0).integers(0, 2, [64, 6]).astype("float32")
    >>> history = model.fit(x, verbose=0)
    >>> codes = model.encode(x)
    >>> codes.shape, codes.dtype.name, model.decode(codes).shape
    ((64, 2), 'int32', (64, 6))
    >>> model.log_likelihood(x, num_samples=100, seed=0, verbose=0).shape
    (64,)
    """

    term_names = ("reconstruction", "kl")

    def __init__(
        self,
        encoder,
        decoder,
        latent,
        likelihood="bernoulli",
        prior_logits=None,
        prior_temperature=None,
        kl="auto",
        num_samples=1,
        beta=1.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.encoder = check_models(encoder, "encoder")
        self.decoder = check_models(decoder, "decoder")
        self.latent = latent
        check_lengths(encoder=encoder, decoder=decoder, latent=latent)
        self.likelihood = get_likelihood(likelihood)
        self.prior_logits = check_prior(prior_logits)
        if prior_temperature is not None:
            check_temperature(prior_temperature, name="prior_temperature")
        self.prior_temperature = prior_temperature
        self.num_samples = check_count(num_samples, "num_samples")
        self.beta = check_number(beta, "beta", "a non-negative number", minimum=0.0)
        self.kl = kl
        self._latents = [as_latent(layer) for layer in as_list(latent)]
        self._kl_options = self._resolve_kl()
        self._prior = None
        self._encode_function = compiled(self._encode_codes)
        self._decode_function = compiled(self._decode_codes)
        self._generate_function = compiled(self._generate_from_seeds)
        self._likelihood_function = compiled(self._streamed_likelihood, jit_compile=True)
        spec = input_spec(self._encoders[0])
        if spec is not None:
            self._build_from(spec)
            self.built = True

    @property
    def _encoders(self):
        return as_list(self.encoder)

    @property
    def _decoders(self):
        return as_list(self.decoder)

    def _resolve_kl(self):
        options = [resolve_kl(self.kl, x.layer, self.num_samples) for x in self._latents]
        *below, top = options
        if self.num_samples > 1:
            top = SAMPLED.get(top, top)
        return [SAMPLED.get(option, option) for option in below] + [top]

    def build(self, input_shape):
        self._build_from(keras.KerasTensor(input_shape))

    def _build_from(self, x):
        """Builds everything on symbolic tensors, and checks that the shapes fit."""
        inputs, source, values = x, "the data", []
        for encoder, latent in zip(self._encoders, self._latents, strict=True):
            params = output_spec(encoder, inputs, "encoder", source)
            inputs, source = float_spec(latent.build(params)), "the latent's samples"
            values.append(inputs)
        for level, value in enumerate(values):
            outputs = output_spec(self._decoders[level], value, "decoder", source)
            if level == 0:
                self.likelihood.check(x.shape, outputs.shape)
            else:
                check_parent(outputs, level, self._latents[level - 1].params_shape)
        self._make_prior()

    def _make_prior(self):
        self._prior = make_prior(self._latents[-1], self.prior_logits, self.add_weight)

    def call(self, x, training=None):
        value = self._latents[0].output(self._encoders[0](x, training=training), training)
        return self._mean(self._decoders[0](value, training=training))

    def _mean(self, params):
        return self.likelihood.mean(working(tf.convert_to_tensor(params)))

    def _prior_params(self, dtype=tf.float32):
        return tf.nest.map_structure(lambda p: tf.cast(p, dtype), self._prior)

    def _posterior(self, x, way, training):
        """The parameters of z_1, `[batch, ...]`, as `way` reads them."""
        return way.params(0, working(self._encoders[0](x, training=training)))

    def _log_terms(self, x, way, num_samples, training, posterior=None):
        """log p(x | z) and log q(z | x) - log p(z) of m samples, both `[m, batch]`."""
        q = self._posterior(x, way, training) if posterior is None else posterior
        rows = fold_rows(q, num_samples)
        posteriors, nodes, values = [q], [], []
        for level in range(len(self._latents)):
            if level > 0:
                encoder = self._encoders[level]
                rows = way.params(level, working(encoder(values[-1], training=training)))
                posteriors.append(unfold_rows(rows, num_samples))
            node, value = way.sample(level, rows)
            nodes.append(unfold_rows(node, num_samples))
            values.append(value)
        priors = [
            unfold_rows(way.params(level, working(decoder(value, training=training))), num_samples)
            for level, decoder, value in zip(
                range(len(nodes) - 1), self._decoders[1:], values[1:], strict=True
            )
        ]
        prior = self._prior_params(tf.nest.flatten(q)[0].dtype)
        priors.append(way.params(len(nodes) - 1, prior))
        outputs = unfold_rows(working(self._decoders[0](values[0], training=training)), num_samples)
        log_likelihood = self.likelihood.log_prob(x, outputs)
        log_ratio = tf.zeros_like(log_likelihood)
        for level, terms in enumerate(zip(nodes, posteriors, priors, strict=True)):
            log_ratio += way.log_ratio(level, *terms)
        return log_likelihood, log_ratio

    def _relaxed_sampling(self, seeds, advance):
        return RelaxedSampling(
            self._latents,
            seeds,
            temperatures(self._latents, advance),
            self._kl_options,
            self.prior_temperature,
        )

    def _terms(self, x, way, training, beta):
        log_likelihood, log_ratio = self._log_terms(x, way, self.num_samples, training)
        return {
            "loss": -multi_sample_bound(log_likelihood - beta * log_ratio),
            "reconstruction": -tf.reduce_mean(log_likelihood, axis=0),
            "kl": tf.reduce_mean(log_ratio, axis=0),
        }

    def _training_terms(self, x, y):
        way = self._relaxed_sampling(next_seeds(self._latents), advance=True)
        return self._terms(x, way, training=True, beta=self.beta)

    def _discrete_terms(self, x, y):
        seeds = next_seeds(self._latents)
        relaxed = self._relaxed_sampling(seeds, advance=False)
        discrete = DiscreteSampling(self._latents, seeds, self._kl_options)
        terms = self._terms(x, discrete, training=False, beta=1.0)
        terms["relaxed_loss"] = self._terms(x, relaxed, training=False, beta=1.0)["loss"]
        return terms

    def encode(self, x, batch_size=1_000):
        """The most probable code of each variable.

        Args:
            x: array `[examples, ...]`.
            batch_size: Examples at a time.

        Returns:
            int32 array `[examples, ...]`, of the latent's shape without its class axis;
            for a stack a list of them, z_1 first.
        """
        x = np.asarray(x)
        self._ensure_built(x)
        return in_batches(self._encode_function, x, batch_size)

    def decode(self, codes, batch_size=1_000):
        """The likelihood's mean for given codes.

        Args:
            codes: int array as `encode` returns it. Of a stack's list only the first, the
                codes of z_1, count: x depends on nothing else.
            batch_size: Examples at a time.

        Returns:
            float32 array `[examples, ...]`.
        """
        if isinstance(codes, (list, tuple)) and isinstance(self.latent, (list, tuple)):
            codes = codes[0]
        codes = np.asarray(codes)
        self._check_built("decode")
        self._latents[0].check_codes(codes)
        return in_batches(self._decode_function, codes.astype(np.int32), batch_size)

    def generate(self, n, seed=None, batch_size=1_000):
        """Samples from the model: exact draws from the prior, decoded to the mean.

        Args:
            n: How many.
            seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.
            batch_size: Examples at a time.

        Returns:
            float32 array `[n, ...]`. Each row has its own seed, so that the first rows are
            the same whatever `n`.
        """
        n = check_count(n, "n")
        self._check_built("generate")
        words = random_words([n, 2], fold_in(as_seed(seed), 0))
        seeds = tf.bitcast(words, tf.int32).numpy()
        return in_batches(self._generate_function, seeds, batch_size)

    def log_likelihood(
        self, x, num_samples=50_000, chunk=250, seed=None, batch_size=None, verbose=1
    ):
        """The discrete bound L_m of each example, a lower bound of log p(x) on average.

        Exact draws are streamed through one compiled loop: the memory is that of one chunk,
        whatever `num_samples`.

        Args:
            x: array `[examples, ...]` or a batched `tf.data.Dataset`.
            num_samples: m; 50,000 is the papers' estimate of log p(x).
            chunk: Samples of each example in one round.
            seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.
            batch_size: Examples at a time; by default up to 1,000 rows a round, and one example
                where there are thousands of samples.
            verbose: 1 for a progress bar, 0 for silence.

        Returns:
            float32 array `[examples]`, in nats.

        Example:

        >>> encoder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        >>> decoder = keras.Sequential([keras.Input((2,)), keras.layers.Dense(4)])
        >>> latent = tfc.layers.BinConcreteSample()
        >>> model = tfc.models.DiscreteVAE(encoder, decoder, latent)
        >>> model.log_likelihood(np.zeros([3, 4]), 1_000, seed=0, verbose=0).shape
        (3,)
        """
        x = as_array(x)
        self._ensure_built(x)
        return stream_likelihood(
            self._likelihood_function, (x,), num_samples, chunk, seed, batch_size, verbose
        )

    def _check_built(self, method):
        if not self.built:
            raise ValueError(
                f"Invalid call of `{method}`. Expected a model whose shapes are known: call it "
                "on data first, or give its encoder a `keras.Input`."
            )

    # Traced by the methods above and by the export: tensors in, tensors out.

    def _encode_codes(self, x):
        """int32 codes of x `[batch, ...]`; a list for a stack."""
        codes = []
        for level, latent in enumerate(self._latents):
            params = working(self._encoders[level](x, training=False))
            codes.append(latent.codes(params))
            x = latent.from_codes(codes[-1])
        return codes if isinstance(self.latent, (list, tuple)) else codes[0]

    def _decode_codes(self, codes):
        """The mean for int32 codes of z_1, `[batch, ...]`."""
        value = self._latents[0].from_codes(codes)
        return self._mean(self._decoders[0](value, training=False))

    def _generate_from_seeds(self, seeds):
        """One mean for each int32 seed `[batch, 2]`."""
        rows = tf.shape(seeds)[0]
        params = tf.nest.map_structure(
            lambda p: tf.repeat(p, rows, axis=0), self._prior_params()
        )
        for level in reversed(range(len(self._latents))):
            value = self._draw_rows(level, working(params), seeds)
            params = self._decoders[level](value, training=False)
        return self._mean(params)

    def _draw_rows(self, level, params, seeds):
        """Exact draws, each row with its own seed."""
        latent = self._latents[level]
        params = latent.discrete_params(params)

        def draw(row):
            params, seed = row
            params = tf.nest.map_structure(lambda p: p[tf.newaxis], params)
            return latent.draw(params, fold_in(seed, level))[1][0]

        return tf.map_fn(draw, (params, seeds), fn_output_signature=tf.float32)

    def _streamed_likelihood(self, x, seed, num_samples, chunk):
        encoding = DiscreteSampling(self._latents, None)
        posterior = self._posterior(x, encoding, training=False)

        def log_weights(chunk, seed):
            way = DiscreteSampling(self._latents, split(seed, len(self._latents)))
            log_likelihood, log_ratio = self._log_terms(x, way, chunk, False, posterior)
            return log_likelihood - log_ratio

        return streamed_bound(log_weights, num_samples, chunk, seed)

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        prior = self.prior_logits
        return {
            **super().get_config(),
            "encoder": serialize(self.encoder),
            "decoder": serialize(self.decoder),
            "latent": serialize(self.latent),
            "likelihood": serialize(self.likelihood),
            "prior_logits": prior.tolist() if isinstance(prior, np.ndarray) else prior,
            "prior_temperature": self.prior_temperature,
            "kl": self.kl,
            "num_samples": self.num_samples,
            "beta": self.beta,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**deserialize_config(config, custom_objects))
