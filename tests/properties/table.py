"""Everything that samples, in one form: add a line to have it tested with the rest."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc

e, r = tfc.estimators, tfc.relaxations


@dataclasses.dataclass(frozen=True)
class Subject:
    """A sampler.

    Attributes:
        call: `(logits, temperature, class_mask, axis, seed) -> sample`; or, with `make`, of
            the first three alone.
        make: From a case to a `call` for it, where something is to be built before.
        kind: "one_hot", "simplex" or "log_simplex" along the axis; "bits", "interval" or
            "line" element by element, without an axis.
        gradient: Whether a gradient reaches the logits.
    """

    call: Callable | None
    kind: str
    gradient: bool = True
    make: Callable | None = None

    @property
    def binary(self):
        return self.kind in ("bits", "interval", "line")

    def bind(self, case):
        """`(logits, temperature, class_mask) -> sample` for a case."""
        if self.make is not None:
            return self.make(case)
        return lambda x, t, mask: self.call(x, t, mask, case.axis, case.seed)


def _with_temperature(function, **kwargs):
    def call(logits, temperature, class_mask, axis, seed):
        return function(logits, temperature, class_mask=class_mask, axis=axis, seed=seed, **kwargs)

    return call


def _binary(function):
    def call(logits, temperature, class_mask, axis, seed):
        return function(logits, temperature, class_mask=class_mask, seed=seed)

    return call


def _from_quantile(logits, temperature, class_mask, axis, seed):
    noise = tfp.distributions.Logistic(tf.zeros([], tf.float32), 1.0)
    relaxed, _ = r.binary_from_quantile(logits, temperature, noise, seed)
    # It takes no mask; the laws here have one.
    return relaxed if class_mask is None else tf.where(class_mask, relaxed, tf.zeros_like(relaxed))


def _sampled(logits, temperature, class_mask, axis, seed):
    return e.sample_and_log_prob(logits, None, class_mask, axis, batch_ndims=0, seed=seed)[0]


SUBJECTS = {
    "categorical": Subject(
        lambda x, t, mask, axis, seed: r.categorical(x, mask, axis, seed), "one_hot", False
    ),
    "sample_and_log_prob": Subject(_sampled, "one_hot", False),
    "concrete": Subject(_with_temperature(r.concrete), "simplex"),
    "exp_concrete": Subject(_with_temperature(r.exp_concrete), "log_simplex"),
    "straight_through": Subject(_with_temperature(e.straight_through), "one_hot"),
    "straight_through_gumbel_softmax": Subject(
        _with_temperature(e.straight_through_gumbel_softmax), "one_hot"
    ),
    "gumbel_rao": Subject(_with_temperature(e.gumbel_rao, num_samples=2), "one_hot"),
    "gapped": Subject(_with_temperature(e.gapped_straight_through, gap=1.5), "one_hot"),
    "gapped_pi": Subject(_with_temperature(e.gapped_straight_through, gap="pi"), "one_hot"),
    "gapped_soft": Subject(_with_temperature(e.gapped_straight_through, hard=False), "simplex"),
    "gapped_nz": Subject(
        _with_temperature(e.gapped_straight_through, perturbation_gradient=True), "one_hot"
    ),
    "reinmax": Subject(_with_temperature(e.reinmax), "one_hot"),
    "binary_sample_and_log_prob": Subject(_sampled, "bits", False),
    "bin_concrete": Subject(_binary(r.bin_concrete), "interval"),
    "logit_bin_concrete": Subject(_binary(r.logit_bin_concrete), "line"),
    "binary_from_quantile": Subject(_from_quantile, "interval"),
    "bin_concrete_straight_through": Subject(_binary(e.bin_concrete_straight_through), "bits"),
}

MODES = {
    "eager": lambda function: function,
    "graph": lambda function: tf.function(function, autograph=False),
    "xla": lambda function: tf.function(function, autograph=False, jit_compile=True),
}
