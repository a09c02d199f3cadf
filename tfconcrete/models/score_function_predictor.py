"""`ScoreFunctionPredictor`: structured prediction by the papers' baselines."""

import contextlib
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import invalid_value
from tfconcrete.models.sampling import next_seeds
from tfconcrete.models.score_function import ScoredSampling, ScoreFunctionTraining
from tfconcrete.models.stacks import as_list, input_spec
from tfconcrete.models.structured_predictor import StructuredPredictor
from tfconcrete.objectives.likelihoods import Likelihood


@keras.saving.register_keras_serializable(package="tfconcrete")
class ScoreFunctionPredictor(ScoreFunctionTraining, StructuredPredictor):
    """A `StructuredPredictor` trained without relaxation, by a score-function estimator.

    Forward: exact draws of every layer, of which the sampling layers say only what kind of
    variables they are; their temperatures have no effect.
    Backward: the estimator's unbiased gradient, of L_m^SP for `"vimco"` and of
    E[log p(y | z)] for the others. (`"nvil"` with `normalize=True` rescales it.)

    Args:
        encoder, decoder, latent, likelihood: As in `StructuredPredictor`. No `IGRSample`,
            whose mass has no gradient here.
        num_samples: Samples of each example; by default 1 for `"reinforce"` and `"nvil"`,
            5 for `"vimco"`, 2 for `"rloo"`.
        estimator: `"reinforce"`, `"nvil"`, `"vimco"` or `"rloo"`.
        baseline: For `"nvil"`: a Keras model from `[x, y]`, context and target, to
            `[batch, 1]`; None for a layer of 100 tanh units.
        normalize: For `"nvil"`: whether to divide the signal by its running deviation.
        decay: For `"nvil"`: the share of the old running moments in the new ones.
        **kwargs: `name`, `dtype` and the other arguments of `keras.Model`.

    Reference:
        Maddison, Mnih & Teh (2017), section 5.3 and Figure 4; Mnih & Rezende (2016).

    Example:

    >>> context, target = np.zeros([8, 4], "float32"), np.ones([8, 3], "float32")
    >>> encoder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5)])
    >>> decoder = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
    >>> latent = tfc.layers.BinConcreteSample(levels=(-1, 1), seed=0)
    >>> model = tfc.models.ScoreFunctionPredictor(encoder, decoder, latent, estimator="nvil")
    >>> model.compile("adam")
    >>> sorted(model.fit(context, target, verbose=0).history)
    ['bits_per_dim', 'loss', 'reconstruction']
    """

    def __init__(
        self,
        encoder: keras.Layer | Sequence,
        decoder: keras.Layer | Sequence,
        latent: keras.Layer | Sequence,
        likelihood: str | Likelihood = "bernoulli",
        num_samples: int | None = None,
        estimator: str = "vimco",
        baseline: Any = None,
        normalize: bool = True,
        decay: float = 0.8,
        **kwargs,
    ) -> None:
        num_samples = self.check_samples(estimator, num_samples)
        super().__init__(encoder, decoder, latent, likelihood, num_samples, **kwargs)
        self.set_estimator(estimator, baseline, normalize, decay)
        if self.built:
            self._build_baseline(input_spec(as_list(encoder)[0]))

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        self._build_baseline(keras.KerasTensor(input_shape))

    def _build_from(self, x):
        super()._build_from(x)
        self.check_scored(self._latents)

    def _build_baseline(self, x):
        if self.estimator != "nvil":
            return
        target = self._target_shape()
        if target is not None:
            self.build_baseline(x, keras.KerasTensor(target))
        elif self.baseline is None or not self.baseline.built:
            expected = "a built model where the outputs do not tell the shape of the targets"
            raise invalid_value("baseline", expected, self.baseline)

    def _target_shape(self):
        """A shape of y that the outputs describe: theirs, or without their last dimension."""
        outputs = self._outputs_shape
        for shape in (outputs, outputs[:-1]):
            with contextlib.suppress(ValueError, TypeError, IndexError):
                self.likelihood.check(shape, outputs)
                return shape
        return None

    def training_terms(self, x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
        y = self.target(x, y)
        way = ScoredSampling(self._latents, next_seeds(self._latents))
        outputs = self._outputs(x, way, self.num_samples, training=True)
        log_likelihood = self.likelihood.log_prob(y, outputs)
        terms = {"reconstruction": -tf.reduce_mean(log_likelihood, axis=0)}
        y = tf.cast(y, log_likelihood.dtype)
        return self.scored(terms, log_likelihood, way.log_q(self.num_samples), x, y)

    def discrete_terms(self, x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
        terms = self._discrete_terms(x, y, next_seeds(self._latents))
        return {**terms, "relaxed_loss": terms["loss"]}
