"""Every function of the package that computes, as a function of logits and a seed.

`{name: function(logits, seed)}`, logits float32 `SHAPE`. Each is looked at with its gradient.
"""

import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc

e, n, o, r = tfc.estimators, tfc.noise, tfc.objectives, tfc.relaxations

SHAPE = (6, 4, 10)
T = 0.5


def _mask(logits):
    return tf.range(logits.shape[-1]) < 7


def _objective(sample, log_q):
    """One value for each sample and example of a score-function estimator."""
    return tf.reduce_sum(sample * tf.cast(tf.shape(sample)[-1], tf.float32), [-2, -1])


def _seeded(function, *arguments, **keywords):
    return lambda logits, seed: function(logits, *arguments, seed=seed, **keywords)


def _scored(function, **keywords):
    return lambda logits, seed: function(_objective, logits, seed=seed, **keywords)


def _masked(function, *arguments):
    return lambda logits, seed: function(logits, *arguments, class_mask=_mask(logits), seed=seed)


def _surrogate(function):
    """What a score-function estimator does with two samples' values and probabilities."""

    def run(logits, seed):
        sample, log_q = e.sample_and_log_prob(logits, 2, seed=seed)
        return function(_objective(sample, log_q), log_q)

    return run


ESTIMATORS = {
    "concrete": _seeded(r.concrete, T),
    "concrete masked": _masked(r.concrete, T),
    "exp_concrete": _seeded(r.exp_concrete, T),
    "bin_concrete": _seeded(r.bin_concrete, T),
    "logit_bin_concrete": _seeded(r.logit_bin_concrete, T),
    "categorical": _seeded(r.categorical),
    "categorical masked": _masked(r.categorical),
    "gumbel_softmax": _seeded(e.gumbel_softmax),
    "gumbel_softmax hard": _seeded(e.gumbel_softmax, hard=True),
    "straight_through": _seeded(e.straight_through, T),
    "straight_through_gumbel_softmax": _seeded(e.straight_through_gumbel_softmax, T),
    "bin_concrete_straight_through": _seeded(e.bin_concrete_straight_through, T),
    "gumbel_rao": _seeded(e.gumbel_rao, T, 7),
    "gumbel_rao in chunks": _seeded(e.gumbel_rao, T, 1000),
    "gapped": _seeded(e.gapped_straight_through, T),
    "gapped pi": _seeded(e.gapped_straight_through, T, "pi"),
    "gapped masked": _masked(e.gapped_straight_through, T),
    "reinmax": _seeded(e.reinmax, T),
    "straight_through_k_subset": _seeded(e.straight_through_k_subset, 3),
    "straight_through_k_subset masked": _masked(e.straight_through_k_subset, 3),
    "straight_through_gumbel_top_k": _seeded(e.straight_through_gumbel_top_k, 3, T),
    "relaxed_top_k": _seeded(r.relaxed_top_k, 3, T),
    "relaxed_k_subset": _seeded(r.relaxed_k_subset, 3, T),
    "reinforce": _scored(e.reinforce),
    "nvil": _scored(lambda *a, **k: e.nvil(*a, **k).surrogate),
    "vimco": _scored(e.vimco),
    "rloo": _scored(e.rloo),
    "disarm_tree": _scored(e.disarm_tree),
    "disarm": _scored(e.disarm),
    "sample_and_log_prob": lambda logits, seed: e.sample_and_log_prob(logits, 2, seed=seed)[1],
    "reinforce_surrogate": _surrogate(e.reinforce_surrogate),
    "nvil_surrogate": _surrogate(lambda values, log_q: e.nvil_surrogate(values, log_q).surrogate),
    "vimco_surrogate": _surrogate(e.vimco_surrogate),
    "rloo_surrogate": _surrogate(e.rloo_surrogate),
    "distinct_concrete": lambda logits, seed: r.distinct_concrete(logits[0], T, seed=seed),
    "distinct_concrete hard": lambda logits, seed: r.distinct_concrete(
        logits[0], T, hard=True, seed=seed
    ),
    "k_subset": _seeded(r.k_subset, 3),
    "k_subset masked": _masked(r.k_subset, 3),
    "igr": lambda logits, seed: r.igr(logits, logits, T, seed=seed),
    "igr stick-breaking": lambda logits, seed: r.igr(
        logits, logits, T, transform="stick_breaking", seed=seed
    ),
    "igr interpolation": lambda logits, seed: r.igr(
        logits, logits, T, transform="interpolation", seed=seed
    ),
}


def _gaussian(function, *arguments, **keywords):
    return lambda x, seed: function(x, 0.1 * x, *arguments, **keywords)


def _simplex(function, *arguments):
    """On the logarithms of a point of the simplex."""
    return lambda x, seed: function(tf.nn.log_softmax(x), *arguments)


# Without noise, or with the noise in the first argument.
RELAXATIONS = {
    "expected_gap": lambda x, seed: e.expected_gap(x, r.discretize(x)),
    "gumbel": lambda x, seed: x + n.gumbel(tf.shape(x), seed),
    "logistic": lambda x, seed: x + n.logistic(tf.shape(x), seed),
    "normal": lambda x, seed: x + n.normal(tf.shape(x), seed),
    "uniform": lambda x, seed: x + n.uniform(tf.shape(x), seed),
    "gumbel_given_winner": lambda x, seed: n.gumbel_given_winner(x, r.discretize(x), seed=seed),
    "bin_concrete_log_prob": lambda x, seed: r.bin_concrete_log_prob(tf.nn.sigmoid(x), T, x),
    "logit_bin_concrete_log_prob": lambda x, seed: r.logit_bin_concrete_log_prob(x, T, 0.5 * x),
    "concrete_log_prob": lambda x, seed: r.concrete_log_prob(tf.nn.softmax(x), T, 0.5 * x),
    "exp_concrete_log_prob": _simplex(r.exp_concrete_log_prob, T, 0.5),
    "binary_from_quantile": lambda x, seed: r.binary_from_quantile(
        x, T, tfp.distributions.Normal(0.0, 1.0), seed=seed
    ),
    "codes": lambda x, seed: r.codes(x),
    "codes masked": lambda x, seed: r.codes(x, class_mask=_mask(x)),
    "one_hot": lambda x, seed: r.one_hot(r.codes(x), 10),
    "discretize": lambda x, seed: r.discretize(x),
    "distinct_argmax": lambda x, seed: r.distinct_argmax(x[0]),
    "top_k_codes": lambda x, seed: r.top_k_codes(x, 3),
    "top_k_hot": lambda x, seed: r.top_k_hot(x, 3),
    "top_k_hot masked": lambda x, seed: r.top_k_hot(x, 3, class_mask=_mask(x)),
    "k_hot": lambda x, seed: r.k_hot(r.top_k_codes(x, 3), 10),
    "k_subset_log_prob": lambda x, seed: r.k_subset_log_prob(r.top_k_hot(x, 3), 3, x),
    "k_subset_entropy": lambda x, seed: r.k_subset_entropy(x, 3),
    "k_subset_kl": lambda x, seed: r.k_subset_kl(x, 0.5 * x, 3),
    "k_subset_log_partition": lambda x, seed: r.k_subset_log_partition(x, 3),
    "k_subset_marginals": lambda x, seed: r.k_subset_marginals(x, 3),
    "k_subset_covariance": lambda x, seed: r.k_subset_covariance(x, 3),
    "diag_normal_kl": lambda x, seed: r.diag_normal_kl(x, tf.exp(x)),
    "gaussian_kl of relaxations": _gaussian(r.gaussian_kl),
    "gaussian_argmax_probs": lambda x, seed: r.gaussian_argmax_probs(x, tf.exp(0.1 * x), 0.0),
    "hypercube_code": lambda x, seed: r.hypercube_code(x[..., :8]),
    "igr_and_truncation": lambda x, seed: r.igr_and_truncation(
        x, x, T, "stick_breaking", precision=0.99, seed=seed
    )[0],
    "igr masked": lambda x, seed: r.igr(x, 0.1 * x, T, class_mask=tf.range(11) < 7, seed=seed),
    "igr_location": lambda x, seed: r.igr_location(x, T),
    "igr_probs": _gaussian(r.igr_probs, T),
    "igr_scores": lambda x, seed: r.igr_scores(x, T, "stick_breaking", precision=0.99),
    "interpolate": lambda x, seed: r.interpolate(tf.nn.softmax(x), T),
    "interpolate_inverse": lambda x, seed: r.interpolate_inverse(
        r.interpolate(tf.nn.softmax(x), T), T
    ),
    "interpolation": lambda x, seed: r.interpolation(x, T),
    "planar_flow": lambda x, seed: r.planar_flow(x, 0.1 * x[0, 0], x[0, 1], 0.2),
    "planar_flow_inverse": lambda x, seed: r.planar_flow_inverse(x, 0.1 * x[0, 0], x[0, 1], 0.2),
    "softmax_plus_plus": lambda x, seed: r.softmax_plus_plus(x, T),
    "log_softmax_plus_plus": lambda x, seed: r.log_softmax_plus_plus(x, T),
    "softmax_plus_plus_inverse": _simplex(r.softmax_plus_plus_inverse, T),
    "softmax_plus_plus_log_det": _simplex(r.softmax_plus_plus_log_det, T),
    "stick_breaking": lambda x, seed: r.stick_breaking(x),
    "log_stick_breaking": lambda x, seed: r.log_stick_breaking(x),
    "stick_breaking_inverse": _simplex(r.stick_breaking_inverse),
    "stick_breaking_log_det": _simplex(r.stick_breaking_log_det),
    "truncate": _simplex(lambda log_w: r.truncate(log_w, 0.99).mass),
    "truncated_stick_breaking": lambda x, seed: r.truncated_stick_breaking(x, T)[0],
}


def _likelihood(likelihood):
    return lambda logits, seed: likelihood.log_prob(tf.nn.sigmoid(logits), logits)


def _class_likelihood(logits, seed):
    classes = tf.cast(logits[..., 0] > 0.0, tf.float32)
    return o.Categorical().log_prob(classes, logits)


OBJECTIVES = {
    "concrete_density_kl": lambda x, seed: o.concrete_density_kl(
        r.exp_concrete(x, T, seed=seed), x, 0.5 * x, T
    ),
    "bin_concrete_density_kl": lambda x, seed: o.bin_concrete_density_kl(
        r.logit_bin_concrete(x, T, seed=seed), x, 0.5 * x, T
    ),
    "categorical_mass_kl": lambda x, seed: o.categorical_mass_kl(
        r.categorical(x, seed=seed), x, 0.5 * x
    ),
    "bernoulli_mass_kl": lambda x, seed: o.bernoulli_mass_kl(tf.nn.sigmoid(x), x, 0.5 * x),
    "categorical_kl": lambda x, seed: o.categorical_kl(x, 0.5 * x),
    "bernoulli_kl": lambda x, seed: o.bernoulli_kl(x, 0.5 * x),
    "gaussian_kl": lambda x, seed: o.gaussian_kl(x, 0.5 * x),
    "gaussian_density_kl": lambda x, seed: o.gaussian_density_kl(
        x + tfc.noise.normal(tf.shape(x), seed), x, 0.0 * x
    ),
    "categorical_entropy": lambda x, seed: o.categorical_entropy(x),
    "categorical_entropy masked": lambda x, seed: o.categorical_entropy(x, _mask(x)),
    "bernoulli_entropy": lambda x, seed: o.bernoulli_entropy(x),
    "categorical_log_mass": lambda x, seed: o.categorical_log_mass(r.categorical(x, seed=seed), x),
    "bernoulli_log_mass": lambda x, seed: o.bernoulli_log_mass(tf.nn.sigmoid(x), x),
    "log_probs": lambda x, seed: o.log_probs(x),
    "log_probs masked": lambda x, seed: o.log_probs(x, _mask(x)),
    "LinearCapacity": lambda x, seed: x * o.LinearCapacity()(tf.reduce_sum(x)),
    "multi_sample_bound": lambda x, seed: o.multi_sample_bound(x),
    "streamed_bound": lambda x, seed: o.streamed_bound(
        lambda size, seed: tf.reduce_sum(x, [1, 2]) + tfc.noise.normal([size, 6], seed), 8, 4, seed
    ),
    "capacity_penalty": lambda x, seed: o.capacity_penalty(tf.reduce_sum(x, -1), 2.0, 30.0),
    "Bernoulli": _likelihood(o.Bernoulli()),
    "Gaussian": _likelihood(o.Gaussian()),
    "Categorical": _class_likelihood,
}

FUNCTIONS = {**ESTIMATORS, **RELAXATIONS, **OBJECTIVES}


def with_gradient(function):
    """`function(logits, seed)` and the gradient of its outputs to the logits."""

    def run(logits, seed):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            outputs = function(logits, seed)
        # What comes from a loss depends on the data, unlike a gradient of ones.
        floats = [x for x in tf.nest.flatten(outputs) if x.dtype.is_floating]
        gradient = tape.gradient(
            floats,
            logits,
            output_gradients=floats,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        return outputs, gradient

    return run
