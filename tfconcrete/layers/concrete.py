"""`ConcreteSample` and `ExpConcreteSample`: Gumbel-Softmax samples and their logarithms."""

import keras
import tensorflow as tf

from tfconcrete._checks import check_flag
from tfconcrete.estimators.gumbel_softmax import straight_through_gumbel_softmax
from tfconcrete.layers.base import SamplingLayer
from tfconcrete.relaxations import concrete, exp_concrete
from tfconcrete.relaxations.masking import log_floor, prepare_logits

_RELAXED_KL = ("density", "mass", "analytic")


@keras.saving.register_keras_serializable(package="tfconcrete")
class ConcreteSample(SamplingLayer):
    """A Concrete (Gumbel-Softmax) sample, softmax((logits + Gumbel) / temperature).

    Forward: a point of the simplex, near a vertex at low temperatures; with `hard=True`
    the one-hot vector of its largest entry, an exact draw from softmax(logits).
    Backward: the gradient of the relaxed sample in both cases (with `hard=True` this is
    Straight-Through Gumbel-Softmax).
    Bias: none for the relaxed objective, which differs from the discrete one; with
    `hard=True` biased, more so at high temperatures, while the variance grows as the
    temperature falls.

    Args:
        temperature: A positive number or a schedule.
        hard: Whether the forward value is one-hot.
        axis: The class axis of the logits.
        inference: `"argmax"`, `"sample"` or `"probs"`, the output outside training.
        seed: An int, None, or a `keras.random.SeedGenerator`.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        training: Whether to sample relaxed, or as `inference` says.

    Returns:
        Tensor of the shape of `logits`.

    Reference:
        Maddison, Mnih & Teh (2017), Eq. 10; Jang, Gu & Poole (2017); `hard=True`: Fan et
        al. (2022), Eq. 10.

    Example:

    >>> layer = tfc.ConcreteSample(temperature=0.5, seed=0)
    >>> logits = tf.constant([[1.0, 2.0, 0.0]])
    >>> layer(logits).numpy()
    array([[0., 1., 0.]], dtype=float32)
    >>> float(tf.reduce_sum(layer(logits, training=True)).numpy().round(5))
    1.0
    """

    def __init__(
        self, temperature=2 / 3, hard=False, axis=-1, inference="argmax", seed=None, **kwargs
    ):
        super().__init__(temperature, axis=axis, inference=inference, seed=seed, **kwargs)
        self.hard = check_flag(hard, "hard")

    @property
    def kl_options(self):
        return SamplingLayer.kl_options if self.hard else _RELAXED_KL

    def _relax(self, logits, temperature, class_mask, seed):
        sample = straight_through_gumbel_softmax if self.hard else concrete
        return sample(logits, temperature, class_mask=class_mask, axis=self.axis, seed=seed)

    def get_config(self):
        return {**super().get_config(), "hard": self.hard}


@keras.saving.register_keras_serializable(package="tfconcrete")
class ExpConcreteSample(SamplingLayer):
    """The logarithm of a Concrete sample, which keeps what underflows on the simplex.

    Forward: log softmax((logits + Gumbel) / temperature).
    Backward: its gradient.
    Bias: none for the relaxed objective, which differs from the discrete one.

    Outside training the output is a logarithm too: that of a one-hot vector (0 for the
    class, and for the others a finite number so negative that its `exp` is exactly 0),
    or with `inference="probs"` of the class probabilities.

    Args:
        temperature: A positive number or a schedule.
        axis: The class axis of the logits.
        inference: `"argmax"`, `"sample"` or `"probs"`, the output outside training.
        seed: An int, None, or a `keras.random.SeedGenerator`.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        logits: float tensor `[..., num_classes]` (classes along `axis`).
        class_mask: boolean, broadcast against `logits`; True keeps the class.
        training: Whether to sample relaxed, or as `inference` says.

    Returns:
        Tensor of the shape of `logits`; its `exp` lies on the simplex, and is exactly 0
        for a masked class.

    Reference:
        Maddison, Mnih & Teh (2017), Appendix C.3.

    Example:

    >>> layer = tfc.ExpConcreteSample(temperature=0.1, seed=0)
    >>> tf.exp(layer(tf.constant([[1.0, 2.0, 0.0]]))).numpy()
    array([[0., 1., 0.]], dtype=float32)
    """

    kl_options = _RELAXED_KL

    def __init__(
        self, temperature=2 / 3, axis=-1, inference="argmax", seed=None, **kwargs
    ):
        super().__init__(temperature, axis=axis, inference=inference, seed=seed, **kwargs)

    def _relax(self, logits, temperature, class_mask, seed):
        return exp_concrete(
            logits, temperature, class_mask=class_mask, axis=self.axis, seed=seed
        )

    def _argmax(self, logits, class_mask):
        return _log_one_hot(super()._argmax(logits, class_mask))

    def _draw(self, logits, class_mask, seed):
        return _log_one_hot(super()._draw(logits, class_mask, seed))

    def _probs(self, logits, class_mask):
        working, mask = prepare_logits(logits, class_mask, self.axis)
        floor = tf.cast(log_floor(logits.dtype), working.dtype)
        log_probs = tf.maximum(tf.nn.log_softmax(working, axis=self.axis), floor)
        if mask is not None:
            log_probs = tf.where(mask, log_probs, floor)
        return tf.cast(log_probs, logits.dtype)


def _log_one_hot(one_hot):
    floor = tf.cast(log_floor(one_hot.dtype), one_hot.dtype)
    return tf.where(one_hot > 0, tf.zeros_like(one_hot), floor)
