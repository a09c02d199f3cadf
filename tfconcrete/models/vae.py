"""What the variational autoencoders share: networks, prior, codes, likelihood, signatures."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfconcrete._checks import check_count, check_number
from tfconcrete._dtypes import working
from tfconcrete._seeds import RowSeeds, fold_in, split
from tfconcrete._streams import Stream
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.calibration.prior import fit_igr_prior
from tfconcrete.models.base import BoundModel
from tfconcrete.models.evaluation import (
    as_array,
    compiled,
    in_batches,
    row_seeds,
    stream_likelihood,
)
from tfconcrete.models.latent import Latent
from tfconcrete.models.priors import check_prior, make_prior
from tfconcrete.models.sampling import (
    ArgmaxSampling,
    DiscreteSampling,
    fold_rows,
    unfold_rows,
)
from tfconcrete.models.signature import SEEDS, Signature, example_seeds, one_or_list
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
from tfconcrete.objectives.likelihoods import Likelihood


class VAE(BoundModel):
    """Encoders, decoders and latents, one of each or a stack, and a prior on the last latent.

    Subclasses say how they are trained. Arguments as in `DiscreteVAE`.
    """

    term_names: tuple[str, ...] = ("reconstruction", "kl")
    output_name = "reconstruction"

    def __init__(
        self,
        encoder: keras.Layer | Sequence,
        decoder: keras.Layer | Sequence,
        latent: keras.Layer | Sequence,
        likelihood: str | Likelihood = "bernoulli",
        prior_logits: TensorLike | None = None,
        num_samples: int = 1,
        beta: float = 1.0,
        **kwargs,
    ) -> None:
        super().__init__(likelihood, **kwargs)
        self.encoder = check_models(encoder, "encoder")
        self.decoder = check_models(decoder, "decoder")
        self.latent = latent
        check_lengths(encoder=encoder, decoder=decoder, latent=latent)
        self.prior_logits = check_prior(prior_logits)
        self.num_samples = check_count(num_samples, "num_samples")
        self.beta = check_number(beta, "beta", "a non-negative number", minimum=0.0)
        self._latents = [Latent(layer, level) for level, layer in enumerate(as_list(latent))]
        self._prior = None
        self._outputs_shape = None
        self._encode_function = compiled(self.encode_tensors)
        self._decode_function = compiled(self.decode_tensors)
        self._generate_function = compiled(self.generate_tensors)
        self._likelihood_function = compiled(self._streamed_likelihood, jit_compile=True)

    def build_known(self):
        """Builds everything where the encoder knows its input."""
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

    def build(self, input_shape: Any) -> None:
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
                self._check_outputs(x, outputs)
            else:
                check_parent(outputs, level, self._latents[level - 1].params_shape)
        self._make_prior()

    def _check_outputs(self, x, outputs):
        self.likelihood.check(x.shape, outputs.shape)
        self._outputs_shape = tuple(outputs.shape)

    def _make_prior(self):
        self._prior = make_prior(
            self._latents[-1], self.prior_logits, self.add_weight, fit_igr_prior
        )

    def params_shape(self) -> Any:
        return self._outputs_shape

    def call(self, x: tf.Tensor, training: bool | None = None) -> Any:
        value = self._latents[0].output(self._encoders[0](x, training=training), training)
        return self._mean(self._decoders[0](value, training=training))

    def _mean(self, params):
        return self.likelihood.mean(working(params))

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

    def _terms(self, x, way, training, beta):
        log_likelihood, log_ratio = self._log_terms(x, way, self.num_samples, training)
        return {
            "loss": -multi_sample_bound(log_likelihood - beta * log_ratio),
            **mean_terms(log_likelihood, log_ratio),
        }

    def _exact_sampling(self, seeds, options=()):
        """Exact draws; the most probable states where `inference_mode` asks for them."""
        is_argmax = self._latents[0].layer.overridden_mode == "argmax"
        return (ArgmaxSampling if is_argmax else DiscreteSampling)(self._latents, seeds, options)

    def encode(self, x: TensorLike, batch_size: int = 1_000) -> np.ndarray:
        """The most probable code of each variable.

        Args:
            x: array `[examples, ...]` or a batched `tf.data.Dataset`.
            batch_size: Examples at a time.

        Returns:
            int32 array `[examples, ...]`, of the latent's shape without its class axis;
            for a stack a list of them, z_1 first.
        """
        x = as_array(x)
        self.ensure_built(x)
        return in_batches(self._encode_function, x, batch_size)

    def decode(self, codes: TensorLike, batch_size: int = 1_000) -> np.ndarray:
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

    def generate(self, n: int, seed: Seed = None, batch_size: int = 1_000) -> np.ndarray:
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
        return in_batches(self._generate_function, row_seeds(n, seed).numpy(), batch_size)

    def log_likelihood(
        self,
        x: TensorLike,
        num_samples: int = 50_000,
        chunk: int = 250,
        seed: Seed = None,
        batch_size: int | None = None,
        verbose: int = 1,
    ) -> np.ndarray:
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
        self.ensure_built(x)
        self.check_examples(x)
        return stream_likelihood(
            self._likelihood_function,
            (x,),
            num_samples,
            chunk,
            seed,
            batch_size,
            verbose,
            self.distribute_strategy,
        )

    def _check_built(self, method):
        if not self.built:
            raise ValueError(
                f"Invalid call of `{method}`. Expected a model whose shapes are known: call it "
                "on data first, or give its encoder a `keras.Input`."
            )

    # Traced by the methods above and by the signatures: tensors in, tensors out.

    def encode_tensors(self, x: tf.Tensor) -> Any:
        """int32 codes of x `[batch, ...]`; a list for a stack."""
        codes = []
        for level, latent in enumerate(self._latents):
            params = working(self._encoders[level](x, training=False))
            x, found = latent.state_and_codes(params)
            codes.append(found)
        return codes if isinstance(self.latent, (list, tuple)) else codes[0]

    def decode_tensors(self, codes: tf.Tensor) -> Any:
        """The mean for int32 codes of z_1, `[batch, ...]`; NaN for what is no code."""
        latent = self._latents[0]
        mean = self._mean(self._decoders[0](latent.from_codes(codes), training=False))
        return latent.nan_without_codes(mean, codes)

    def generate_tensors(self, seeds: tf.Tensor) -> Any:
        """One mean for each int32 seed `[batch, 2]`."""
        params = self._prior_rows(tf.shape(seeds)[0])
        for level in reversed(range(len(self._latents))):
            value = self._draw_rows(level, working(params), seeds)
            params = self._decoders[level](value, training=False)
        return self._mean(params)

    def _prior_rows(self, rows):
        return tf.nest.map_structure(lambda p: tf.repeat(p, rows, axis=0), self._prior_params())

    def _draw_rows(self, level, params, seeds):
        """Exact draws of a latent, each row with its own seed."""
        latent = self._latents[level]
        seed = fold_in(RowSeeds(seeds), level, Stream.LATENT)
        return latent.variable.draw(params, None, latent.temperature(), seed)

    def _streamed_likelihood(self, x, seed, num_samples, chunk):
        posterior = self._posterior(x, DiscreteSampling(self._latents, None), training=False)

        def log_weights(chunk, seed):
            way = DiscreteSampling(self._latents, split(seed, len(self._latents), Stream.LATENT))
            log_likelihood, log_ratio = self._log_terms(x, way, chunk, False, posterior)
            return log_likelihood - log_ratio

        return streamed_bound(log_weights, num_samples, chunk, seed)

    def signatures(self) -> dict[str, Signature]:
        """`serving_default` (reconstruction), `encode`, `decode` and `generate`."""
        self._check_built("signatures")
        return {
            **super().signatures(),
            "encode": Signature(
                lambda tensors: self._served_encode(one_or_list(tensors)), self.input_specs()
            ),
            "decode": Signature(
                lambda tensors: {"images": self.decode_tensors(*tensors.values())},
                self._decode_specs(),
                example=self._decode_example,
            ),
            "generate": Signature(
                lambda tensors: {"images": self.generate_tensors(tensors["seeds"])},
                {"seeds": SEEDS},
                random=True,
                example=lambda inputs: {"seeds": example_seeds(inputs)},
            ),
        }

    def _served_encode(self, x):
        """The outputs of `encode` by name: `codes`, `codes_1`, ... for a stack."""
        codes = as_list(self.encode_tensors(x))
        return {f"codes_{level}" if level else "codes": c for level, c in enumerate(codes)}

    def _decode_specs(self):
        # x depends on the codes of a stack's first latent alone.
        shape = (None, *self._latents[0].code_shape[1:])
        return {"codes": tf.TensorSpec(shape, tf.int32, name="codes")}

    def _decode_example(self, inputs):
        encoded = self._served_encode(one_or_list(inputs))
        return {name: encoded[name].numpy() for name in self._decode_specs()}

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        prior = self.prior_logits
        return {
            **super().get_config(),
            "encoder": serialize(self.encoder),
            "decoder": serialize(self.decoder),
            "latent": serialize(self.latent),
            "likelihood": serialize(self.likelihood),
            "prior_logits": prior.tolist() if isinstance(prior, np.ndarray) else prior,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict | None = None) -> "VAE":
        return cls(**deserialize_config(config, custom_objects))


def mean_terms(log_likelihood, log_ratio):
    """The metrics of m samples, `[m, batch]` each: means over the samples."""
    return {
        "reconstruction": -tf.reduce_mean(log_likelihood, axis=0),
        "kl": tf.reduce_mean(log_ratio, axis=0),
    }
