"""The ways through a stack of latents: relaxed in training, exact or argmax in evaluation."""

import tensorflow as tf


def fold_rows(params, num_samples):
    """`[batch, ...]` to `[num_samples * batch, ...]`: samples are folded into the batch."""
    return tf.nest.map_structure(
        lambda x: tf.tile(x, [num_samples] + [1] * (x.shape.rank - 1)), params
    )


def unfold_rows(rows, num_samples):
    """`[num_samples * batch, ...]` to `[num_samples, batch, ...]`."""

    def unfold(x):
        unfolded = tf.reshape(x, tf.concat([[num_samples, -1], tf.shape(x)[1:]], 0))
        unfolded.set_shape([num_samples, None, *x.shape[1:]])
        return unfolded

    return tf.nest.map_structure(unfold, rows)


def next_seeds(latents):
    """The next seed of each latent."""
    return [latent.next_seed() for latent in latents]


class RelaxedSampling:
    """Training samples of the layers, with the KL terms of the relaxed model.

    Args:
        latents: list of `Latent`.
        seeds: an int32 `[2]` seed for each.
        advance: whether the layers' schedules move on.
        options: the `KLOption` of each, where there is a KL.
        prior_temperature: number, or None for the posterior's.
    """

    def __init__(self, latents, seeds, advance, options=(), prior_temperature=None):
        self._latents = latents
        self._seeds = seeds
        self._advance = advance
        self._options = options
        self._prior_temperature = prior_temperature
        self._temperatures = {}

    def params(self, level, params):
        """The parameters as this way reads them."""
        return params

    def sample(self, level, params):
        """`(node, value)`: the node, and what a decoder sees of it."""
        layer, seed = self._latents[level].layer, self._seeds[level]
        sample = layer.sample(params, seed=seed, advance=self._advance)
        self._temperatures[level] = sample.temperature
        return sample.node, sample.value

    def log_ratio(self, level, node, q, p):
        """log q - log p of each sample and example."""
        temperature = self._temperatures[level]
        prior = temperature if self._prior_temperature is None else self._prior_temperature
        ratio = self._options[level].log_ratio(node, q, p, temperature, prior)
        return self._latents[level].sum_variables(ratio)


class DiscreteSampling:
    """Exact draws, with their exact log masses.

    Args:
        latents: list of `Latent`.
        seeds: an int32 `[2]` seed for each.
        options: the `KLOption` of each; where it is the KL of the discrete variables, that
            takes the place of its estimate from the draw.
    """

    def __init__(self, latents, seeds, options=()):
        self._latents = latents
        self._seeds = seeds
        self._options = options

    def params(self, level, params):
        latent = self._latents[level]
        return latent.variable.exact_params(params, latent.temperature())

    def sample(self, level, params):
        latent = self._latents[level]
        return latent.variable.exact_draw(params, latent.temperature(), self._seeds[level])

    def log_ratio(self, level, node, q, p):
        latent = self._latents[level]
        if self._options and self._options[level].is_discrete:
            return latent.sum_variables(latent.variable.discrete_kl(q, p))
        return latent.sum_variables(latent.variable.log_mass_ratio(node, q, p))


class ArgmaxSampling(DiscreteSampling):
    """The most probable states, as they are served, with the KLs of the discrete variables."""

    def params(self, level, params):
        return params

    def sample(self, level, params):
        state, _ = self._latents[level].state_and_codes(params)
        return state, state

    def log_ratio(self, level, node, q, p):
        variable = self._latents[level].variable
        q, p = (super(ArgmaxSampling, self).params(level, params) for params in (q, p))
        return self._latents[level].sum_variables(variable.discrete_kl(q, p))


class UnweightedSampling:
    """Exact draws for a bound that asks for no masses.

    Args:
        latents: list of `Latent`.
        seeds: an int32 `[2]` seed for each.
    """

    def __init__(self, latents, seeds):
        self._latents = latents
        self._seeds = seeds

    def params(self, level, params):
        return params

    def sample(self, level, params):
        latent = self._latents[level]
        value = latent.variable.draw(params, None, latent.temperature(), self._seeds[level])
        return value, value
