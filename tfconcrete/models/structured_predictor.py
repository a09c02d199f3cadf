"""`StructuredPredictor`: discrete latents between a context and a target."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfconcrete._checks import check_count, invalid_type
from tfconcrete._dtypes import working
from tfconcrete._seeds import RowSeeds, fold_in, split
from tfconcrete._streams import Stream
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.models.base import BoundModel
from tfconcrete.models.evaluation import (
    as_array,
    compiled,
    in_batches,
    row_seeds,
    stream_likelihood,
)
from tfconcrete.models.latent import Latent
from tfconcrete.models.sampling import (
    ArgmaxSampling,
    RelaxedSampling,
    UnweightedSampling,
    fold_rows,
    next_seeds,
    unfold_rows,
)
from tfconcrete.models.signature import SEEDS, Signature, example_seeds, one_or_list
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
from tfconcrete.objectives.likelihoods import Likelihood


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
    target_name = "y"
    output_name = "prediction"

    def __init__(
        self,
        encoder: keras.Layer | Sequence,
        decoder: keras.Layer | Sequence,
        latent: keras.Layer | Sequence,
        likelihood: str | Likelihood = "bernoulli",
        num_samples: int = 1,
        **kwargs,
    ) -> None:
        super().__init__(likelihood, **kwargs)
        self.encoder = check_models(encoder, "encoder")
        self.decoder = check_models(decoder, "decoder")
        self.latent = latent
        check_lengths(encoder=encoder, latent=latent)
        if isinstance(decoder, (list, tuple)):
            raise invalid_type("decoder", "one Keras model", decoder)
        self.num_samples = check_count(num_samples, "num_samples")
        self._latents = [Latent(layer, level) for level, layer in enumerate(as_list(latent))]
        self._outputs_shape = None
        self._generate_function = compiled(self.generate_tensors)
        self._likelihood_function = compiled(self._streamed_likelihood, jit_compile=True)
        spec = input_spec(self._encoders[0])
        if spec is not None:
            self._build_from(spec)
            self.built = True

    @property
    def _encoders(self):
        return as_list(self.encoder)

    def build(self, input_shape: Any) -> None:
        self._build_from(keras.KerasTensor(input_shape))

    def _build_from(self, x):
        inputs, source = x, "the context"
        for encoder, latent in zip(self._encoders, self._latents, strict=True):
            params = output_spec(encoder, inputs, "encoder", source)
            inputs, source = float_spec(latent.build(params)), "the latent's samples"
        outputs = output_spec(self.decoder, inputs, "decoder", source)
        self._outputs_shape = tuple(outputs.shape)

    def params_shape(self) -> Any:
        return self._outputs_shape

    def call(self, x: tf.Tensor, training: bool | None = None) -> Any:
        for encoder, latent in zip(self._encoders, self._latents, strict=True):
            x = latent.output(encoder(x, training=training), training)
        return self._mean(self.decoder(x, training=training))

    def _mean(self, params):
        return self.likelihood.mean(working(params))

    def _outputs(self, x, way, num_samples, training):
        """The likelihood's parameters of m samples, `[m, batch, ...]`."""
        for level, encoder in enumerate(self._encoders):
            params = way.params(level, working(encoder(x, training=training)))
            if level == 0:
                params = fold_rows(params, num_samples)
            _, x = way.sample(level, params)
        return unfold_rows(working(self.decoder(x, training=training)), num_samples)

    def _terms(self, x, y, way, training):
        y = self.target(x, y)
        outputs = self._outputs(x, way, self.num_samples, training)
        log_likelihood = self.likelihood.log_prob(y, outputs)
        return {
            "loss": -multi_sample_bound(log_likelihood),
            "reconstruction": -tf.reduce_mean(log_likelihood, axis=0),
        }

    def _relaxed_sampling(self, seeds, advance):
        return RelaxedSampling(self._latents, seeds, advance)

    def training_terms(self, x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
        way = self._relaxed_sampling(next_seeds(self._latents), advance=True)
        return self._terms(x, y, way, training=True)

    def _discrete_terms(self, x, y, seeds):
        is_argmax = self._latents[0].layer.overridden_mode == "argmax"
        way = (ArgmaxSampling if is_argmax else UnweightedSampling)(self._latents, seeds)
        return self._terms(x, y, way, training=False)

    def discrete_terms(self, x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
        seeds = next_seeds(self._latents)
        terms = self._discrete_terms(x, y, seeds)
        relaxed = self._terms(x, y, self._relaxed_sampling(seeds, False), training=False)
        return {**terms, "relaxed_loss": relaxed["loss"]}

    def target(self, x: tf.Tensor, y: tf.Tensor) -> Any:
        if y is None:
            raise ValueError(
                "Invalid value received for argument `y`. Expected the targets: a "
                "StructuredPredictor is called as fit(context, target). Received: y=None"
            )
        return y

    def check_examples(self, x: Any, y: Any = None) -> tuple[Any, Any]:
        target = y
        if isinstance(x, tf.data.Dataset):
            _, target, _ = keras.utils.unpack_x_y_sample_weight(x.element_spec)
        self._check_target(target)
        return super().check_examples(x, y)

    def _check_target(self, y):
        if isinstance(y, (list, tuple, dict)):
            raise invalid_type("y", "one array", y)
        shape, outputs = getattr(y, "shape", None), self._outputs_shape
        if shape is None or outputs is None or tf.TensorShape(shape).rank is None:
            return
        try:
            self.likelihood.check(shape, outputs)
        except ValueError:
            raise ValueError(
                "Invalid value received for argument `y`. Expected targets that the outputs of "
                f"`decoder`, of shape {outputs}, describe. Received: y of shape {tuple(shape)}"
            ) from None

    def generate(self, x: TensorLike, seed: Seed = None, batch_size: int = 1_000) -> np.ndarray:
        """One exact sample of the latents for each context, decoded to the mean.

        Args:
            x: array `[examples, ...]`, the contexts.
            seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.
            batch_size: Examples at a time.

        Returns:
            float32 array `[examples, ...]`. Each example has its own seed, so that its
            sample is the same whatever `batch_size`.
        """
        x = np.asarray(x)
        self.ensure_built(x)
        seeds = row_seeds(len(x), seed)
        rows = np.arange(len(x))
        return in_batches(
            lambda i: self._generate_function(x[i], tf.gather(seeds, i)), rows, batch_size
        )

    def log_likelihood(
        self,
        x: TensorLike,
        y: TensorLike,
        num_samples: int = 100,
        chunk: int = 100,
        seed: Seed = None,
        batch_size: int | None = None,
        verbose: int = 1,
    ) -> np.ndarray:
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
        self.ensure_built(x)
        self.check_examples(x, y)
        return stream_likelihood(
            self._likelihood_function,
            (x, y),
            num_samples,
            chunk,
            seed,
            batch_size,
            verbose,
            self.distribute_strategy,
        )

    def _exact_sampling(self, seed):
        return UnweightedSampling(self._latents, split(seed, len(self._latents), Stream.LATENT))

    def generate_tensors(self, x: tf.Tensor, seeds: tf.Tensor) -> Any:
        """One mean for each context and its int32 seed, `seeds` `[batch, 2]`."""
        for level, (encoder, latent) in enumerate(zip(self._encoders, self._latents, strict=True)):
            params = working(encoder(x, training=False))
            seed = fold_in(RowSeeds(seeds), level, Stream.LATENT)
            x = latent.variable.draw(params, None, latent.temperature(), seed)
        return self._mean(self.decoder(x, training=False))

    def signatures(self) -> dict[str, Signature]:
        """`serving_default` (prediction) and `generate` (one sample for each context)."""

        def generate(tensors):
            context = dict(tensors)
            seeds = context.pop("seeds")
            return {self.output_name: self.generate_tensors(one_or_list(context), seeds)}

        return {
            **super().signatures(),
            "generate": Signature(
                generate,
                {**self.input_specs(), "seeds": SEEDS},
                random=True,
                example=lambda inputs: {**inputs, "seeds": example_seeds(inputs)},
            ),
        }

    def _streamed_likelihood(self, x, y, seed, num_samples, chunk):
        def log_weights(chunk, seed):
            outputs = self._outputs(x, self._exact_sampling(seed), chunk, training=False)
            return self.likelihood.log_prob(y, outputs)

        return streamed_bound(log_weights, num_samples, chunk, seed)

    def get_config(self) -> dict[str, Any]:
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
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict | None = None
    ) -> "StructuredPredictor":
        return cls(**deserialize_config(config, custom_objects))
