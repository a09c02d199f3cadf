"""One table of the distributions, for the tests that hold for all of them."""

import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

LOGITS = np.array([[0.0, 1.0, -0.5], [2.0, -1.0, 0.3]])


def _relaxed(cls):
    def make(temperature=0.5, dtype="float32", logits=LOGITS, **kwargs):
        return cls(temperature, logits=tf.cast(logits, dtype), **kwargs)

    return make


def _logistic_normal(temperature=0.5, dtype="float32", logits=LOGITS, **kwargs):
    loc = tf.cast(logits, dtype)[..., :-1]
    return tfc.distributions.LogisticNormal(loc, 0.5 + tf.nn.softplus(loc), temperature, **kwargs)


MAKERS = {
    "Concrete": _relaxed(tfc.distributions.Concrete),
    "ExpConcrete": _relaxed(tfc.distributions.ExpConcrete),
    "BinConcrete": _relaxed(tfc.distributions.BinConcrete),
    "LogitBinConcrete": _relaxed(tfc.distributions.LogitBinConcrete),
    "LogisticNormal": _logistic_normal,
}


@pytest.fixture(params=MAKERS)
def make(request):
    """From a temperature, dtype, logits `[2, 3]` and keywords to a distribution."""
    return MAKERS[request.param]


@pytest.fixture
def rng():
    return np.random.default_rng(0)
