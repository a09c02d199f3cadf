"""All sampling layers as one table, which the generic tests run through."""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc

L = tfc.layers


@keras.saving.register_keras_serializable("tests")
def concrete_posterior(logits):
    return tfc.distributions.Concrete(0.5, logits=logits)


@keras.saving.register_keras_serializable("tests")
def concrete_prior(logits):
    return tfc.distributions.Concrete(0.7, logits=tf.zeros_like(logits))


@keras.saving.register_keras_serializable("tests")
def one_hot_posterior(logits):
    return tfp.distributions.OneHotCategorical(logits=logits, dtype=logits.dtype)


@dataclasses.dataclass(frozen=True)
class Case:
    """A layer of the table.

    Attributes:
        name: For the test's id.
        make: From the layer's keyword arguments to the layer.
        training: What the training output is: "one_hot", "simplex", "log" or "binary".
        has_mask: Whether the layer takes a `class_mask`.
    """

    name: str
    make: Callable
    training: str
    has_mask: bool = True

    @property
    def is_binary(self):
        return self.name.startswith("bin")

    @property
    def is_log(self):
        return self.training == "log"

    @property
    def is_igr(self):
        return self.name.startswith("igr")

    def inputs(self, logits):
        """What the layer is called on, for logits `[..., num_classes]`."""
        if not self.is_igr:
            return logits
        # Subtracting the remainder's logit makes the argmax that of the logits.
        loc = logits[..., :-1] - logits[..., -1:]
        return [loc, loc * 0.0 - 1.0]

    def symbolic(self, num_classes, **kwargs):
        """Keras inputs for the layer, as it is called on them."""
        if self.is_igr:
            return [keras.Input([num_classes - 1], **kwargs) for _ in range(2)]
        return keras.Input([num_classes], **kwargs)

    def simplex(self, output):
        """The output as a point of the simplex, or as a number in [0, 1]."""
        output = np.asarray(output).astype(np.float64)
        return np.exp(output) if self.is_log else output


def case(name, cls, training, has_mask=True, **arguments):
    return Case(name, lambda **kwargs: cls(**{**arguments, **kwargs}), training, has_mask)


TABLE = [
    case("concrete", L.ConcreteSample, "simplex", temperature=0.5),
    case("concrete_hard", L.ConcreteSample, "one_hot", hard=True),
    case("exp_concrete", L.ExpConcreteSample, "log", temperature=0.5),
    case("bin_concrete", L.BinConcreteSample, "binary"),
    case("bin_concrete_hard", L.BinConcreteSample, "binary", hard=True),
    case("straight_through", L.StraightThrough, "one_hot"),
    case("gumbel_rao", L.GumbelRao, "one_hot", num_samples=13),
    case("gapped", L.GapStraightThrough, "one_hot"),
    case("gapped_pi", L.GapStraightThrough, "one_hot", gap="pi"),
    case("gapped_soft", L.GapStraightThrough, "simplex", hard=False, gap=0.8),
    case("reinmax", L.ReinMax, "one_hot", temperature=1.2),
    case("igr", L.IGRSample, "simplex"),
    case("igr_stick_breaking", L.IGRSample, "simplex", transform="stick_breaking"),
    # One of n: then a subset owes all that the others do. `test_subset_sample.py` has more.
    case("subset", L.SubsetSample, "one_hot", k=1),
    case("subset_gumbel", L.SubsetSample, "one_hot", k=1, estimator="gumbel"),
    case("subset_soft", L.SubsetSample, "simplex", k=1, hard=False),
    case(
        "distribution",
        L.DistributionSample,
        "simplex",
        has_mask=False,
        distribution=concrete_posterior,
        prior=concrete_prior,
    ),
    case(
        "distribution_one_hot",
        L.DistributionSample,
        "one_hot",
        has_mask=False,
        distribution=one_hot_posterior,
    ),
]
MASKED = [c for c in TABLE if c.has_mask]
WITH_AXIS = [c for c in MASKED if not c.is_binary]
# Of those that have their computation in common, one is compiled by XLA in the quick tests.
COMPILED = ("concrete", "bin_concrete_hard", "gapped", "igr", "subset_gumbel")


def _parametrized(cases):
    return pytest.fixture(params=cases, ids=lambda c: c.name)(lambda request: request.param)


any_layer = _parametrized(TABLE)
masked_layer = _parametrized(MASKED)
axis_layer = _parametrized(WITH_AXIS)
compiled_layer = _parametrized(
    [pytest.param(c, marks=() if c.name in COMPILED else pytest.mark.slow) for c in TABLE]
)
