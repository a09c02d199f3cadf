"""`ScoreFunctionVAE`: the papers' baselines, trained on exact discrete samples."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import invalid_value
from tfconcrete._dtypes import working
from tfconcrete._typing import TensorLike
from tfconcrete.estimators.disarm import disarm_tree
from tfconcrete.layers.recorder import note_call
from tfconcrete.models.sampling import next_seeds, unfold_rows
from tfconcrete.models.score_function import ScoredSampling, ScoreFunctionTraining
from tfconcrete.models.vae import VAE, mean_terms
from tfconcrete.objectives.likelihoods import Likelihood


@keras.saving.register_keras_serializable(package="tfconcrete")
class ScoreFunctionVAE(ScoreFunctionTraining, VAE):
    """A discrete autoencoder trained without relaxation, by a score-function estimator.

    Forward: exact draws from q, of which the sampling layer says only what kind of
    variables they are; its temperature has no effect.
    Backward: the estimator's unbiased gradient, of L_m for `"vimco"` and of the mean ELBO
    over the samples for the others. (`"nvil"` with `normalize=True` rescales it.)

    Args:
        encoder, decoder, latent, likelihood, prior_logits: As in `DiscreteVAE`; stacks too,
            except for the two DisARMs. No `IGRSample`, whose mass has no gradient here.
        num_samples: Samples of each example; by default 1 for `"reinforce"` and `"nvil"`,
            5 for `"vimco"`, 2 for the others. Even for the DisARMs, which draw pairs.
        beta: Weight of the KL term.
        estimator: `"reinforce"`, `"nvil"`, `"vimco"`, `"rloo"`, `"disarm"` (binary
            variables) or `"disarm_tree"` (any).
        baseline: For `"nvil"`: a Keras model from x to `[batch, 1]`; None for a layer of
            100 tanh units.
        normalize: For `"nvil"`: whether to divide the signal by its running deviation.
        decay: For `"nvil"`: the share of the old running moments in the new ones.
        **kwargs: `name`, `dtype` and the other arguments of `keras.Model`.

    Reference:
        Mnih & Gregor (2014) for NVIL; Mnih & Rezende (2016) for VIMCO; Kool et al. (2019)
        for RLOO; Dong, Mnih & Tucker (2020, 2021) for DisARM and its tree.

    Example:

    >>> encoder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    >>> decoder = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
    >>> model = tfc.models.ScoreFunctionVAE(
    ...     encoder, decoder, tfc.layers.BinConcreteSample(seed=0), estimator="vimco")
    >>> model.compile("adam")
    >>> sorted(model.fit(np.ones([8, 4], "float32"), verbose=0).history)
    ['bits_per_dim', 'kl', 'loss', 'reconstruction']
    """

    estimators = {
        **ScoreFunctionTraining.estimators,
        "disarm": (2, 2),
        "disarm_tree": (2, 2),
    }

    def __init__(
        self,
        encoder: keras.Layer | Sequence,
        decoder: keras.Layer | Sequence,
        latent: keras.Layer | Sequence,
        likelihood: str | Likelihood = "bernoulli",
        prior_logits: TensorLike | None = None,
        num_samples: int | None = None,
        beta: float = 1.0,
        estimator: str = "vimco",
        baseline: Any = None,
        normalize: bool = True,
        decay: float = 0.8,
        **kwargs,
    ) -> None:
        num_samples = self.check_samples(estimator, num_samples)
        if estimator.startswith("disarm") and num_samples % 2:
            raise invalid_value("num_samples", "an even number, two for each pair", num_samples)
        super().__init__(
            encoder,
            decoder,
            latent,
            likelihood,
            prior_logits,
            num_samples,
            beta,
            **kwargs,
        )
        self.set_estimator(estimator, baseline, normalize, decay)
        self.build_known()

    def _build_from(self, x):
        super()._build_from(x)
        self.check_scored(self._latents)
        self._check_disarm()
        self.build_baseline(x)

    def _check_disarm(self):
        if not self.estimator.startswith("disarm"):
            return
        others = ", ".join(f'"{x}"' for x in self.estimators if not x.startswith("disarm"))
        if len(self._latents) > 1:
            raise invalid_value("estimator", f"one of {others} for a stack", self.estimator)
        latent = self._latents[0]
        if latent.code_shape != latent.variable.variable_shape(latent.params_shape):
            raise invalid_value(
                "estimator", f"one of {others} for variables of several codes", self.estimator
            )
        states = latent.num_states
        if self.estimator == "disarm" and states != 2:
            raise invalid_value(
                "estimator", f'"disarm_tree" or one of {others} for {states} classes', "disarm"
            )

    def training_terms(self, x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
        if self.estimator.startswith("disarm"):
            return self._disarm(x)
        way = ScoredSampling(self._latents, next_seeds(self._latents))
        log_likelihood, log_ratio = self._log_terms(x, way, self.num_samples, training=True)
        values = log_likelihood - self.beta * log_ratio
        log_q = way.log_q(self.num_samples)
        if self.estimator != "vimco":
            # Without the gradient of log q in the values, whose mean is zero.
            values += self.beta * (log_q - tf.stop_gradient(log_q))
        return self.scored(mean_terms(log_likelihood, log_ratio), values, log_q, x)

    def discrete_terms(self, x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
        terms = self._terms(x, self._exact_sampling(next_seeds(self._latents)), False, 1.0)
        return {**terms, "relaxed_loss": terms["loss"]}

    def _disarm(self, x):
        latent = self._latents[0]
        axis = getattr(latent.variable, "axis", None)  # none for binary variables
        logits = working(self._encoders[0](x, training=True))
        terms = {}

        def objective(sample, log_q):
            rows = tf.reshape(sample, tf.concat([[-1], tf.shape(sample)[2:]], 0))
            rows.set_shape([None, *sample.shape[2:]])
            value = latent.variable.to_levels(rows) if axis is None else rows
            note_call(latent.layer, logits, value)
            outputs = working(self._decoders[0](value, training=True))
            log_likelihood = self.likelihood.log_prob(x, unfold_rows(outputs, self.num_samples))
            log_p = latent.variable.log_prob(value, self._prior_params(value.dtype))
            log_p = latent.sum_variables(log_p)
            log_p = unfold_rows(log_p, self.num_samples)
            log_ratio = tf.stop_gradient(log_q) - log_p
            terms.update(mean_terms(log_likelihood, log_ratio))
            return log_likelihood - self.beta * log_ratio

        surrogate = disarm_tree(
            objective,
            logits,
            self.num_samples,
            axis=axis,
            seed=latent.next_seed(),
        )
        return {**terms, "loss": -surrogate}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_samples": self.num_samples, "beta": self.beta}
