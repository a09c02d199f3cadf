"""What the published program of the IGR paper does where its text is silent or says otherwise.

The authors' program (cunningham-lab/igr on GitHub) was read, not copied. It cuts MNIST at
0.5 once instead of binarizing it anew, has a layer of 784 units more in the dense encoder, and

- a prior of IGR with a location of log(1/8) and a scale of exp(0.5413) in each of nine
  dimensions, where Eq. 20 leaves the scale open;
- a Gaussian decoder with a mean and a scale for every pixel (`PixelGaussian`), where the text
  names no scale;
- in Figure 4 the gradient of the sum of a softmax over its classes (`sum_gradient`), where
  Eq. 26 has that of one class;
- in Eq. 15 the penalty of every image, with KLs from a single draw for the Gumbel-Softmax
  (`PerImageJointVAE`);
- in an early version, the logarithm of a sample as the decoder's input (`LogCodes`);
- in Table 3 one Gumbel for a binary Gumbel-Softmax, where a Logistic is the difference of two
  (`OneGumbel`).
"""

import keras
import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from keras_examples.units import Units

PRIOR = (np.log(1 / 8), np.exp(0.541324854612918))
STANDARD_NORMAL = (0.0, 1.0)
VANISHED = 1e-10
LOG_FLOOR = -69.0  # of what underflows, and of a one-hot vector's zeros


@keras.saving.register_keras_serializable(package="keras_examples")
class PixelGaussian(tfc.objectives.Likelihood):
    """Grey or coloured images around a mean in (0.27, 1), with a scale above 0.31 for each pixel.

    Of the decoder's two outputs for a pixel, both after an ELU, a sigmoid makes the mean and
    a softplus the scale. No pixel has a log density above 0.242 nats.
    """

    name = "pixel_gaussian"

    def params_shape(self, x_shape):
        return (*x_shape, 2)

    def sum_log_prob(self, x, params, axes):
        scale = 1e-6 + tf.nn.softplus(tf.nn.elu(params[..., 1]))
        standard = (tf.cast(x, scale.dtype) - self.mean(params)) / scale
        constant = tf.math.log(scale) + 0.5 * np.log(2 * np.pi)
        return tf.reduce_sum(-0.5 * tf.square(standard) - constant, axes)

    def mean(self, params):
        return tf.sigmoid(tf.nn.elu(params[..., 0]))


@keras.saving.register_keras_serializable(package="keras_examples")
class LogCodes(keras.layers.Layer):
    """The logarithm of points of the simplex, not below -69."""

    def call(self, inputs):
        return keras.ops.log(keras.ops.maximum(inputs, np.exp(LOG_FLOOR)))


def sum_gradient(model, images, dtype=tf.float32):
    """d/d(logits or locations) of sum_k softmax(...)_k, `[images, variables, classes]`.

    The sum is 1 whatever the parameters are: this is rounding, and exactly zero where the
    largest probabilities round to a sum of one.
    """
    parameters = model.encoder(images)
    if isinstance(parameters, (list, tuple)):
        center, log_scale = (tf.cast(x, dtype) for x in parameters)
        noise = tf.exp(log_scale) * tf.cast(tfc.noise.normal(tf.shape(center), seed=0), dtype)
    else:
        center = tf.cast(parameters, dtype)
        noise = tf.cast(tfc.noise.gumbel(tf.shape(center), seed=0), dtype)
    temperature = tf.cast(model.latent.temperature, dtype)
    with tf.GradientTape() as tape:
        tape.watch(center)
        soft = tf.nn.softmax((center + noise) / temperature)
    return tape.gradient(soft, center)


def vanished_sums(model, images):
    """The share of variables whose `sum_gradient` has a norm of at most 1e-10: Figure 4."""
    norms = tf.norm(sum_gradient(model, images), axis=-1)
    return float(np.mean(norms.numpy() <= VANISHED))


class PerImageJointVAE(tfc.models.JointVAE):
    """A JointVAE that penalises |KL - C| of every image, not of their mean.

    Args:
        sampled: whether the Gaussian's KL is that of a single draw.
        *args, **kwargs: of `JointVAE`.
    """

    def __init__(self, *args, sampled=False, seed=None, **kwargs):
        super().__init__(*args, seed=seed, **kwargs)
        self.sampled = sampled
        self.draws = keras.random.SeedGenerator(None if seed is None else seed + 1)

    def training_terms(self, x, y):
        terms = super().training_terms(x, y)
        if self.sampled:
            *_, loc, log_scale = self.encoder(x, training=True)
            noise = tfc.noise.normal(tf.shape(loc), seed=self.draws)
            log_ratio = 0.5 * (tf.square(loc + tf.exp(log_scale) * noise) - tf.square(noise))
            terms["continuous_kl"] = tf.reduce_sum(log_ratio - log_scale, -1)
        return terms

    def weigh_terms(self, terms, sample_weight):
        step = self.optimizer.iterations
        penalty = self.gamma * (
            tf.abs(terms["kl"] - self.discrete_capacity(step))
            + tf.abs(terms["continuous_kl"] - self.continuous_capacity(step))
        )
        return {**terms, "loss": terms["reconstruction"] + penalty}


@keras.saving.register_keras_serializable(package="keras_examples")
class OneGumbel(tfc.layers.BinConcreteSample):
    """sigmoid((logits + Gumbel) / temperature) in training: with half a Logistic's variance."""

    def relax(self, logits, temperature, class_mask=None, seed=None):
        noise = tf.cast(tfc.noise.gumbel(tf.shape(logits), seed=seed), logits.dtype)
        return self.variable.to_levels(tf.sigmoid((logits + noise) / temperature))


class OneGumbelUnits(Units):
    """Binary units of `OneGumbel`."""

    def latent(self, seed):
        return OneGumbel(self.temperature, levels=(-1, 1), seed=seed)
