"""Every distribution and bijector of the package, as functions of logits and a seed."""

import functools

import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc

b, d = tfc.bijectors, tfc.distributions
tfd = tfp.distributions
T = 0.5


def _relaxed(cls):
    return lambda logits: cls(T, logits=logits)


def _igr(logits, **keywords):
    return d.IGR(logits, tf.exp(0.1 * logits), T, **keywords)


def _flow(logits):
    """The Gaussian through a planar flow, then to the simplex."""
    size = logits.shape[-1]
    row = tf.linspace(-1.0, 1.0, size)[tf.newaxis]
    flow = b.PlanarFlow(0.1 * row, row, [0.1])
    return tfp.bijectors.Chain([b.SoftmaxPlusPlus(T), flow])


def _gaussian(cls, **keywords):
    return lambda logits: cls(logits, tf.exp(0.1 * logits), T, **keywords)


DISTRIBUTIONS = {
    "Concrete": _relaxed(d.Concrete),
    "ExpConcrete": _relaxed(d.ExpConcrete),
    "BinConcrete": _relaxed(d.BinConcrete),
    "LogitBinConcrete": _relaxed(d.LogitBinConcrete),
    "LogisticNormal": _gaussian(d.LogisticNormal),
    "IGR": _gaussian(d.IGR),
    "IGR stick-breaking": _gaussian(d.IGR, transform="stick_breaking"),
    "IGR interpolation": _gaussian(d.IGR, transform="interpolation"),
    "IGR planar flow": lambda logits: _igr(logits, transform=_flow(logits)),
    "KSubset": lambda logits: d.KSubset(3, logits),
}


def _sample(make, logits, seed):
    return make(logits).sample(seed=seed)


def _sample_and_density(make, logits, seed):
    distribution = make(logits)
    return distribution.log_prob(distribution.sample(seed=seed))


def _fused(make, logits, seed):
    return make(logits).experimental_sample_and_log_prob(seed=seed)


def _log_prob(make, logits, seed):
    """Of a plain tensor, which no cache knows."""
    distribution = make(logits)
    return distribution.log_prob(tf.stop_gradient(tf.identity(distribution.sample(seed=seed))))


DENSITIES = {}
for _name, _make in DISTRIBUTIONS.items():
    DENSITIES[f"{_name}.sample"] = functools.partial(_sample, _make)
    DENSITIES[f"{_name}.log_prob"] = functools.partial(_sample_and_density, _make)
    DENSITIES[f"{_name} of a tensor"] = functools.partial(_log_prob, _make)
    if not _name.startswith("KSubset"):
        DENSITIES[f"{_name} fused"] = functools.partial(_fused, _make)

# Functions of the parameters, which draw nothing.
MOMENTS = {
    "IGR.discrete": lambda logits, seed: _igr(logits).discrete().probs,
    "Concrete.discrete": lambda logits, seed: d.Concrete(T, logits=logits).discrete().logits,
    "KSubset.marginals": lambda logits, seed: d.KSubset(3, logits).marginals(),
    "KSubset.mode": lambda logits, seed: d.KSubset(3, logits).mode(),
    "KSubset.entropy": lambda logits, seed: d.KSubset(3, logits).entropy(),
    "KSubset KL": lambda logits, seed: tfd.kl_divergence(
        d.KSubset(3, logits), d.KSubset(3, 0.5 * logits)
    ),
    "IGR KL": lambda logits, seed: tfd.kl_divergence(_igr(logits), _igr(0.5 * logits)),
}


def _forward_and_back(make):
    """A bijector both ways, with both log determinants."""

    def run(logits, seed):
        bijector = make(logits)
        y = bijector.forward(logits)
        return (
            bijector.inverse(tf.identity(y)),
            bijector.forward_log_det_jacobian(logits, 1),
            bijector.inverse_log_det_jacobian(tf.identity(y), 1),
        )

    return run


BIJECTORS = {
    "Interpolation": _forward_and_back(lambda x: b.Interpolation(T)),
    "PlanarFlow": _forward_and_back(lambda x: b.PlanarFlow(0.1 * x[0], x[1], x[2, :, 0])),
    "SoftmaxPlusPlus": _forward_and_back(lambda x: b.SoftmaxPlusPlus(T)),
    "StickBreaking": _forward_and_back(lambda x: b.StickBreaking()),
    "StickBreakingSoftmax": _forward_and_back(lambda x: b.StickBreakingSoftmax(T)),
}
