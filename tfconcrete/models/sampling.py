"""The two ways through a stack of latents: relaxed in training, exact in evaluation."""

import tensorflow as tf

from tfconcrete.layers.recorder import note_call


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
    """The next seed of each latent's layer."""
    return [latent.layer.next_seed() for latent in latents]


def temperatures(latents, advance):
    """The temperature of each latent's layer; with `advance` its schedule moves on."""
    return [
        latent.layer._next_temperature()
        if advance
        else tf.convert_to_tensor(latent.layer.temperature)
        for latent in latents
    ]


class RelaxedSampling:
    """Training samples, with the KL terms of the relaxed model.

    Args:
        latents: list of `Latent`.
        seeds: an int32 `[2]` seed for each.
        temperatures: the posterior temperature of each.
        options: the KL option of each, where there is a KL.
        prior_temperature: number, or None for the posterior's.
    """

    def __init__(self, latents, seeds, temperatures, options=(), prior_temperature=None):
        self._latents = latents
        self._seeds = seeds
        self._temperatures = temperatures
        self._options = options
        self._prior_temperature = prior_temperature

    def params(self, level, params):
        """The parameters as this way reads them."""
        return params

    def sample(self, level, params):
        """`(node, value)`: the node, and what a decoder sees of it."""
        latent = self._latents[level]
        node = latent.relax(params, self._temperatures[level], self._seeds[level])
        value = latent.value(node)
        note_call(latent.layer, params, value)
        return node, value

    def log_ratio(self, level, node, q, p):
        """log q - log p of each sample and example."""
        temperature = self._temperatures[level]
        prior_temperature = (
            temperature if self._prior_temperature is None else self._prior_temperature
        )
        log_ratio = self._latents[level].log_ratios[self._options[level]]
        return log_ratio(node, q, p, temperature, prior_temperature)


class DiscreteSampling:
    """Exact draws, with their exact log masses.

    Args:
        latents: list of `Latent`.
        seeds: an int32 `[2]` seed for each.
        options: the KL option of each; where it is `"analytic"`, the KL itself takes the
            place of its estimate from the draw.
    """

    def __init__(self, latents, seeds, options=()):
        self._latents = latents
        self._seeds = seeds
        self._options = options

    def params(self, level, params):
        return self._latents[level].discrete_params(params)

    def sample(self, level, params):
        return self._latents[level].draw(params, self._seeds[level])

    def log_ratio(self, level, node, q, p):
        latent = self._latents[level]
        if self._options and self._options[level] == "analytic":
            return latent.analytic(node, q, p, None, None)
        return latent.log_mass_ratio(node, q, p)


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
        value = self._latents[level].draw_value(params, self._seeds[level])
        return value, value
