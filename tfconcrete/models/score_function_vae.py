"""`ScoreFunctionVAE`: the papers' baselines, trained on exact discrete samples."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import (
    check_choice,
    check_count,
    check_flag,
    check_number,
    invalid_type,
    invalid_value,
)
from tfconcrete._dtypes import working
from tfconcrete._typing import TensorLike
from tfconcrete.estimators.disarm import disarm_tree
from tfconcrete.estimators.surrogates import (
    nvil_surrogate,
    reinforce_surrogate,
    rloo_surrogate,
    vimco_surrogate,
)
from tfconcrete.layers.recorder import note_call
from tfconcrete.models.sampling import DiscreteSampling, next_seeds, unfold_rows
from tfconcrete.models.vae import VAE, mean_terms
from tfconcrete.objectives.likelihoods import Likelihood

# Samples of each example: the default, and the fewest.
_NUM_SAMPLES = {
    "reinforce": (1, 1),
    "nvil": (1, 1),
    "vimco": (5, 2),
    "rloo": (2, 2),
    "disarm": (2, 2),
    "disarm_tree": (2, 2),
}
ESTIMATORS = tuple(_NUM_SAMPLES)


class _ScoredSampling(DiscreteSampling):
    """Exact draws that keep the log probability of what was drawn.

    Args:
        latents, seeds: As in `DiscreteSampling`.

    Attributes:
        posterior: the parameters of z_1, `[batch, ...]`, at which diagnostics look.
        log_q: the log probability so far.
    """

    def __init__(self, latents, seeds):
        super().__init__(latents, seeds)
        self.posterior = None
        self.log_q = 0.0

    def sample(self, level, params):
        node, value = super().sample(level, params)
        latent = self._latents[level]
        self.log_q += latent.sum_variables(latent.variable.log_prob(value, params))
        note_call(latent.layer, params if level else self.posterior, value)
        return node, value


@keras.saving.register_keras_serializable(package="tfconcrete")
class ScoreFunctionVAE(VAE):
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
        self.estimator = check_choice(estimator, "estimator", ESTIMATORS)
        default, minimum = _NUM_SAMPLES[estimator]
        num_samples = default if num_samples is None else num_samples
        check_count(num_samples, "num_samples", minimum)
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
        self.normalize = check_flag(normalize, "normalize")
        self.decay = check_number(decay, "decay", "a number from 0 to 1", 0.0, 1.0)
        self.baseline = self._make_baseline(baseline)
        if estimator == "nvil":
            self._moments = [
                self.add_weight(
                    name=name,
                    initializer="zeros",
                    trainable=False,
                    dtype="float32",
                    autocast=False,
                    aggregation="mean",
                )
                for name in ("signal_mean", "signal_variance")
            ]
        self._surrogate = {
            "reinforce": self._reinforce,
            "nvil": self._nvil,
            "vimco": self._vimco,
            "rloo": self._rloo,
            "disarm": self._disarm,
            "disarm_tree": self._disarm,
        }[estimator]
        self.build_known()

    def _make_baseline(self, baseline):
        if self.estimator != "nvil":
            if baseline is not None:
                raise invalid_value("baseline", 'None unless estimator="nvil"', baseline)
            return None
        if baseline is None:
            baseline = keras.Sequential(
                [
                    keras.layers.Flatten(),
                    keras.layers.Dense(100, activation="tanh"),
                    keras.layers.Dense(1),
                ],
                name="baseline",
            )
        if not isinstance(baseline, keras.layers.Layer):
            raise invalid_type("baseline", "a Keras model from x to [batch, 1]", baseline)
        return baseline

    def _build_from(self, x):
        super()._build_from(x)
        for latent in self._latents:
            if latent.variable.num_params > 1:
                expected = "a layer of categorical or binary variables, not an IGRSample"
                raise invalid_type("latent", expected, latent.layer)
        self._check_disarm()
        if self.baseline is not None and not self.baseline.built:
            self.baseline.build(tuple(x.shape))

    def _check_disarm(self):
        if not self.estimator.startswith("disarm"):
            return
        others = ", ".join(f'"{x}"' for x in ESTIMATORS if not x.startswith("disarm"))
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
        return self._surrogate(x)

    def discrete_terms(self, x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
        terms = self._terms(x, self._exact_sampling(next_seeds(self._latents)), False, 1.0)
        return {**terms, "relaxed_loss": terms["loss"]}

    def _evaluate_samples(self, x):
        """The terms, the values log w `[m, batch]`, and log q `[m, batch]`."""
        way = _ScoredSampling(self._latents, next_seeds(self._latents))
        way.posterior = self._posterior(x, way, training=True)
        log_likelihood, log_ratio = self._log_terms(
            x, way, self.num_samples, training=True, posterior=way.posterior
        )
        values = log_likelihood - self.beta * log_ratio
        log_q = unfold_rows(way.log_q, self.num_samples)
        return mean_terms(log_likelihood, log_ratio), values, log_q

    def _elbo_samples(self, x):
        """The same, without the gradient of log q in the values, whose mean is zero."""
        terms, values, log_q = self._evaluate_samples(x)
        return terms, values + self.beta * (log_q - tf.stop_gradient(log_q)), log_q

    def _reinforce(self, x):
        terms, values, log_q = self._elbo_samples(x)
        return {**terms, "loss": -reinforce_surrogate(values, log_q)}

    def _rloo(self, x):
        terms, values, log_q = self._elbo_samples(x)
        return {**terms, "loss": -rloo_surrogate(values, log_q)}

    def _vimco(self, x):
        terms, values, log_q = self._evaluate_samples(x)
        return {**terms, "loss": -vimco_surrogate(values, log_q)}

    def _nvil(self, x):
        terms, values, log_q = self._elbo_samples(x)
        baseline = working(self.baseline(x, training=True))
        moments = [tf.convert_to_tensor(moment) for moment in self._moments]
        surrogate, auxiliary, moments = nvil_surrogate(
            values, log_q, tf.reshape(baseline, [-1]), moments, self.normalize, self.decay
        )
        return {**terms, "loss": -surrogate, "auxiliary": auxiliary, "moments": moments}

    def after_step(self, terms: dict[str, Any]) -> None:
        for weight, value in zip(
            getattr(self, "_moments", ()), terms.get("moments", ()), strict=True
        ):
            weight.assign(value)

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
        default = self.baseline is None
        return {
            **super().get_config(),
            "num_samples": self.num_samples,
            "beta": self.beta,
            "estimator": self.estimator,
            "baseline": None if default else keras.saving.serialize_keras_object(self.baseline),
            "normalize": self.normalize,
            "decay": self.decay,
        }
