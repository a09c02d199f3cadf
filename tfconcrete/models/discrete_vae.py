"""`DiscreteVAE`: a variational autoencoder with discrete latents."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import check_temperature
from tfconcrete._typing import TensorLike
from tfconcrete.models.sampling import RelaxedSampling, next_seeds
from tfconcrete.models.vae import VAE
from tfconcrete.objectives.likelihoods import Likelihood


@keras.saving.register_keras_serializable(package="tfconcrete")
class DiscreteVAE(VAE):
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
            sample only), `"gaussian"` (IGR, Eq. 19), or `"auto"`, the one of them that keeps
            the relaxed objective a bound. For codes that are served discrete, `"analytic"`
            with a soft layer can end far lower (`docs/guides/temperatures.md`). In a stack
            the analytic form holds for the last latent alone: below it the prior depends on
            the sample, and the mass form is taken.
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

    def __init__(
        self,
        encoder: keras.Layer | Sequence,
        decoder: keras.Layer | Sequence,
        latent: keras.Layer | Sequence,
        likelihood: str | Likelihood = "bernoulli",
        prior_logits: TensorLike | None = None,
        prior_temperature: TensorLike | None = None,
        kl: str = "auto",
        num_samples: int = 1,
        beta: float = 1.0,
        **kwargs,
    ) -> None:
        super().__init__(
            encoder, decoder, latent, likelihood, prior_logits, num_samples, beta, **kwargs
        )
        if prior_temperature is not None:
            check_temperature(prior_temperature, name="prior_temperature")
        self.prior_temperature = prior_temperature
        self.kl = kl
        self._kl_options()
        self.build_known()

    def _kl_options(self):
        """The KL option of each latent.

        A bound of several samples needs one value for each, and so does a latent below
        others, whose prior depends on its own sample.
        """
        options = [latent.kl_option(self.kl, self.num_samples) for latent in self._latents]
        *below, top = options
        top = top.per_sample() if self.num_samples > 1 else top
        return [option.per_sample() for option in below] + [top]

    def _relaxed_sampling(self, seeds, advance):
        return RelaxedSampling(
            self._latents, seeds, advance, self._kl_options(), self.prior_temperature
        )

    def training_terms(self, x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
        way = self._relaxed_sampling(next_seeds(self._latents), advance=True)
        return self._terms(x, way, training=True, beta=self.beta)

    def discrete_terms(self, x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
        seeds = next_seeds(self._latents)
        relaxed = self._relaxed_sampling(seeds, advance=False)
        terms = self._terms(x, self._exact_sampling(seeds, self._kl_options()), False, 1.0)
        terms["relaxed_loss"] = self._terms(x, relaxed, training=False, beta=1.0)["loss"]
        return terms

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "prior_temperature": self.prior_temperature,
            "kl": self.kl,
            "num_samples": self.num_samples,
            "beta": self.beta,
        }
