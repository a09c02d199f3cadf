"""`StructuredPredictor`: discrete latents between a context and a target."""

import keras
import tensorflow as tf

from tfconcrete._checks import check_count, invalid_type
from tfconcrete._seeds import as_seed, split
from tfconcrete.models.base import BoundModel
from tfconcrete.models.evaluation import as_array, compiled, in_batches, stream_likelihood
from tfconcrete.models.sampling import (
    RelaxedSampling,
    UnweightedSampling,
    fold_rows,
    next_seeds,
    temperatures,
    unfold_rows,
)
from tfconcrete.models.stacks import (
    as_list,
    check_lengths,
    check_models,
    deserialize_config,
    float_spec,
    input_spec,
    output_spec,
)
from tfconcrete.objectives.bounds import multi_sample_bound, streamed_bound
from tfconcrete.objectives.latents import as_latent, working
from tfconcrete.objectives.likelihoods import get_likelihood


@keras.saving.register_keras_serializable(package="tfconcrete")
class StructuredPredictor(BoundModel):
    """Predicts a target through layers of discrete variables, sampled given the context.

    `fit(context, target)` maximises the relaxed L_m^SP = log((1/m) sum_i p(y | z_i)), z_i
    sampled given x: a lower bound of log p(y | x) with no variational posterior and no KL.
    `evaluate` reports it with exact one-hot samples, `predict` the mean of y for the most
    probable codes.

    Args:
        encoder: Keras model from the context to the parameters of z_1, or a list of as many
            models as latents, `encoder[l]` from z_l to the parameters of z_(l+1).
        decoder: Keras model from the last latent to the likelihood's parameters of y.
        latent: Sampling layer, or a list of them.
        likelihood: As in `DiscreteVAE`.
        num_samples: m.
        **kwargs: `name`, `dtype` and the other arguments of `keras.Model`.

    Call arguments:
        x: tensor `[batch, ...]`, the context.
        training: Whether to predict from relaxed samples or from the argmax.

    Returns:
        The likelihood's mean of the target, `[batch, ...]`.

    Reference:
        Maddison, Mnih & Teh (2017), section 5.3.

    Example:

    >>> context, target = np.zeros([8, 4], "float32"), np.ones([8, 3], "float32")
    >>> encoder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5)])
    >>> decoder = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
    >>> latent = tfc.layers.BinConcreteSample(levels=(-1, 1), seed=0)
    >>> model = tfc.models.StructuredPredictor(encoder, decoder, latent)
    >>> model.compile("adam")
    >>> history = model.fit(context, target, verbose=0)
    >>> model.predict(context, verbose=0).shape
    (8, 3)
    """

    term_names = ("reconstruction",)

    def __init__(
        self, encoder, decoder, latent, likelihood="bernoulli", num_samples=1, **kwargs
    ):
        super().__init__(**kwargs)
        self.encoder = check_models(encoder, "encoder")
        self.decoder = check_models(decoder, "decoder")
        self.latent = latent
        check_lengths(encoder=encoder, latent=latent)
        if isinstance(decoder, (list, tuple)):
            raise invalid_type("decoder", "one Keras model", decoder)
        self.likelihood = get_likelihood(likelihood)
        self.num_samples = check_count(num_samples, "num_samples")
        self._latents = [as_latent(layer) for layer in as_list(latent)]
        self._generate_function = compiled(self._generate)
        self._likelihood_function = compiled(self._streamed_likelihood, jit_compile=True)
        spec = input_spec(self._encoders[0])
        if spec is not None:
            self._build_from(spec)
            self.built = True

    @property
    def _encoders(self):
        return as_list(self.encoder)

    def build(self, input_shape):
        self._build_from(keras.KerasTensor(input_shape))

    def _build_from(self, x):
        inputs, source = x, "the context"
        for encoder, latent in zip(self._encoders, self._latents, strict=True):
            params = output_spec(encoder, inputs, "encoder", source)
            inputs, source = float_spec(latent.build(params)), "the latent's samples"
        output_spec(self.decoder, inputs, "decoder", source)

    def call(self, x, training=None):
        for encoder, latent in zip(self._encoders, self._latents, strict=True):
            x = latent.output(encoder(x, training=training), training)
        return self._mean(self.decoder(x, training=training))

    def _mean(self, params):
        return self.likelihood.mean(working(tf.convert_to_tensor(params)))

    def _outputs(self, x, way, num_samples, training):
        """The likelihood's parameters of m samples, `[m, batch, ...]`."""
        for level, encoder in enumerate(self._encoders):
            params = way.params(level, working(encoder(x, training=training)))
            if level == 0:
                params = fold_rows(params, num_samples)
            _, x = way.sample(level, params)
        return unfold_rows(working(self.decoder(x, training=training)), num_samples)

    def _terms(self, x, y, way, training):
        y = self._target(x, y)
        outputs = self._outputs(x, way, self.num_samples, training)
        log_likelihood = self.likelihood.log_prob(y, outputs)
        return {
            "loss": -multi_sample_bound(log_likelihood),
            "reconstruction": -tf.reduce_mean(log_likelihood, axis=0),
        }

    def _relaxed_sampling(self, seeds, advance):
        return RelaxedSampling(self._latents, seeds, temperatures(self._latents, advance))

    def _training_terms(self, x, y):
        way = self._relaxed_sampling(next_seeds(self._latents), advance=True)
        return self._terms(x, y, way, training=True)

    def _discrete_terms(self, x, y):
        seeds = next_seeds(self._latents)
        terms = self._terms(x, y, UnweightedSampling(self._latents, seeds), training=False)
        relaxed = self._terms(x, y, self._relaxed_sampling(seeds, False), training=False)
        return {**terms, "relaxed_loss": relaxed["loss"]}

    def _target(self, x, y):
        if y is None:
            raise ValueError(
                "Invalid value received for argument `y`. Expected the targets: a "
                "StructuredPredictor is called as fit(context, target). Received: y=None"
            )
        return y

    def generate(self, x, seed=None, batch_size=1_000):
        """One exact sample of the latents for each context, decoded to the mean.

        Args:
            x: array `[examples, ...]`, the contexts.
            seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.
            batch_size: Examples at a time.

        Returns:
            float32 array `[examples, ...]`.
        """
        seeds = keras.random.SeedGenerator(int(as_seed(seed)[0]) & 0x7FFFFFFF)
        return in_batches(
            lambda batch: self._generate_function(batch, as_seed(seeds)), x, batch_size
        )

    def log_likelihood(
        self, x, y, num_samples=100, chunk=100, seed=None, batch_size=None, verbose=1
    ):
        """The discrete L_m^SP of each example; arguments as in `DiscreteVAE`.

        Args:
            x: array `[examples, ...]`, the contexts.
            y: array `[examples, ...]`, the targets.
            num_samples: m; the paper's evaluation takes 100.
            chunk, seed, batch_size, verbose: As in `DiscreteVAE.log_likelihood`.

        Returns:
            float32 array `[examples]`, in nats.
        """
        x, y = as_array(x), as_array(y)
        self._ensure_built(x)
        return stream_likelihood(
            self._likelihood_function, (x, y), num_samples, chunk, seed, batch_size, verbose
        )

    def _exact_sampling(self, seed):
        return UnweightedSampling(self._latents, split(seed, len(self._latents)))

    def _generate(self, x, seed):
        outputs = self._outputs(x, self._exact_sampling(seed), 1, training=False)
        return self._mean(outputs[0])

    def _streamed_likelihood(self, x, y, seed, num_samples, chunk):
        def log_weights(chunk, seed):
            outputs = self._outputs(x, self._exact_sampling(seed), chunk, training=False)
            return self.likelihood.log_prob(y, outputs)

        return streamed_bound(log_weights, num_samples, chunk, seed)

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "encoder": serialize(self.encoder),
            "decoder": serialize(self.decoder),
            "latent": serialize(self.latent),
            "likelihood": serialize(self.likelihood),
            "num_samples": self.num_samples,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**deserialize_config(config, custom_objects))
