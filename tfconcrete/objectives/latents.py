"""What a bound reads from a sampling layer: its node, its value, its log ratios.

A node is the stochastic node whose density counts: the logarithm of a Concrete sample, the
logit of a Binary Concrete one (Concrete, C.3), the sample itself where it is one-hot. Its
value is what a decoder sees. Sampling takes parameters `[rows, ...]`; log ratios take nodes
and parameters whose leading dimensions broadcast, sum over the variables, and keep the rest.
"""

import contextlib

import keras
import tensorflow as tf

from tfconcrete._checks import invalid_type, invalid_value
from tfconcrete._dtypes import float_at_least_32
from tfconcrete.layers.base import SamplingLayer
from tfconcrete.layers.bin_concrete import BinConcreteSample
from tfconcrete.layers.concrete import ExpConcreteSample
from tfconcrete.layers.igr import IGRSample
from tfconcrete.layers.modes import inference_mode
from tfconcrete.noise import normal
from tfconcrete.objectives.kl import (
    bernoulli_kl,
    bernoulli_log_mass,
    bernoulli_mass_kl,
    bin_concrete_density_kl,
    categorical_kl,
    categorical_log_mass,
    categorical_mass_kl,
    concrete_density_kl,
    gaussian_density_kl,
    gaussian_kl,
)
from tfconcrete.relaxations.bin_concrete import logit_bin_concrete
from tfconcrete.relaxations.concrete import FLOOR, exp_concrete
from tfconcrete.relaxations.discretize import categorical

# The form with one value for each sample of a KL that is an expectation: what a bound of
# several samples needs, and a layer below others, whose prior depends on its own sample.
SAMPLED = {"analytic": "mass", "gaussian": "gaussian_sample"}


def working(params):
    """Parameters in the dtype to compute in: half precision becomes float32."""
    return tf.nest.map_structure(
        lambda x: tf.cast(x, float_at_least_32(tf.as_dtype(x.dtype))), params
    )


class Latent:
    """A sampling layer as a bound sees it.

    `log_ratios` holds, under the name of each KL option, a function of
    `(node, q, p, temperature, prior_temperature)` that returns log q - log p.

    Args:
        layer: A `SamplingLayer`.
    """

    def __init__(self, layer):
        self.layer = layer
        self.axis = None
        self.params_shape = None
        self._variable_ndims = None
        sampled = {SAMPLED.get(option, option) for option in layer.kl_options}
        self.log_ratios = {
            option: getattr(self, option) for option in sampled.union(layer.kl_options)
        }

    def relax(self, params, temperature, seed):
        """The training node."""
        return self.layer._relax(params, temperature, None, seed)

    def value(self, node):
        """What a decoder sees of a node."""
        return node

    def draw_value(self, params, seed):
        """An exact draw as a decoder sees it, from the layer's own parameters."""
        return self._output_value(self.layer._draw(params, None, seed))

    def draw(self, params, seed):
        """An exact draw from `discrete_params`: its node, and what a decoder sees of it."""
        value = self.draw_value(params, seed)
        return value, value

    def output(self, params, training=None):
        """The layer's own output as a decoder sees it; the argmax outside training."""
        mode = contextlib.nullcontext()
        if not training and self.layer.inference_override is None:
            mode = inference_mode(self.layer, "argmax")
        with mode:
            return self._output_value(self.layer(params, training=training))

    def build(self, params):
        """Checks symbolic parameters `[batch, ...]`, builds the layer, keeps the shape."""
        if not hasattr(params, "shape"):
            raise invalid_value(
                "encoder", f"one output, the logits of a {type(self.layer).__name__}", params
            )
        self.params_shape = tuple(params.shape)
        return self._build_layer(params, self.params_shape)

    def _build_layer(self, params, shape):
        output = self.layer.compute_output_spec(params)
        if not self.layer.built:
            self.layer.build(keras.tree.map_structure(lambda x: x.shape, params))
        self._set_axes(len(shape))
        return output

    def _set_axes(self, rank):
        """For variables with classes along an axis, which counts from the end from here on."""
        self.axis = self.layer.axis if self.layer.axis < 0 else self.layer.axis - rank
        self._variable_ndims = rank - 2

    def sum_variables(self, values):
        """Sums over the variables, all but the leading dimensions."""
        return tf.reduce_sum(values, axis=list(range(-self._variable_ndims, 0)))

    def check_codes(self, codes):
        """Raises unless `codes` are whole numbers of the shape and range of the states."""
        shape, states = self.code_shape, self.num_states
        expected = f"whole numbers from 0 to {states - 1} of shape {('examples', *shape[1:])}"
        fits = tf.TensorShape(shape).is_compatible_with(codes.shape)
        if codes.dtype.kind not in "iu" or not fits:
            raise ValueError(
                f"Invalid value received for argument `codes`. Expected {expected}. "
                f"Received: {codes.dtype.name} values of shape {codes.shape}"
            )
        if codes.size and not (codes.min() >= 0 and codes.max() < states):
            raise ValueError(
                f"Invalid value received for argument `codes`. Expected {expected}. "
                f"Received: values from {codes.min()} to {codes.max()}"
            )

    @property
    def code_shape(self):
        """The shape of the codes, `(batch, ...)`."""
        axis = self.axis % len(self.params_shape)
        return self.params_shape[:axis] + self.params_shape[axis + 1 :]

    @property
    def num_states(self):
        """How many states each variable has."""
        return self.params_shape[self.axis]

    def discrete_params(self, params):
        """The parameters that `draw` and `log_mass_ratio` read."""
        return params

    def codes(self, params):
        """int32 codes of the most probable state."""
        return self.layer._codes(self.layer._argmax(params, None))

    def _output_value(self, output):
        """What a decoder sees of the layer's own output."""
        return output

    def mass(self, node, q, p, temperature, prior_temperature):
        """Eq. 21: log Q - log P, linear in the value; exact for a one-hot one."""
        return self.log_mass_ratio(self.value(node), q, p)

    def log_mass_ratio(self, node, q, p):
        """log Q - log P of the nodes of exact draws."""
        raise NotImplementedError

    def from_codes(self, codes):
        """The states of int32 codes, as a decoder sees them."""
        return tf.one_hot(codes, self.num_states, axis=self.axis % (codes.shape.rank + 1))


class CategoricalLatent(Latent):
    """Variables of `num_classes` along the layer's axis, with one-hot samples."""

    def log_mass(self, value, params):
        """log P of exact draws, differentiable in the parameters."""
        return self.sum_variables(categorical_log_mass(value, params, self.axis))

    def log_mass_ratio(self, value, q, p):
        return self.sum_variables(categorical_mass_kl(value, q, p, self.axis))

    def analytic(self, node, q, p, temperature, prior_temperature):
        """Eq. 22: KL(Q, P)."""
        return self.sum_variables(categorical_kl(q, p, self.axis))


class ConcreteLatent(CategoricalLatent):
    """Relaxed variables; the node is the logarithm of the simplex sample."""

    def relax(self, params, temperature, seed):
        return exp_concrete(params, temperature, axis=self.layer.axis, seed=seed)

    def value(self, node):
        return tf.exp(node)

    def density(self, node, q, p, temperature, prior_temperature):
        """Eq. 20: log q - log p by their densities."""
        return self.sum_variables(
            concrete_density_kl(node, q, p, temperature, prior_temperature, self.axis)
        )


class ExpConcreteLatent(ConcreteLatent):
    """The same, of a layer whose outputs are logarithms themselves."""

    def _output_value(self, output):
        return tf.exp(output)


class BernoulliLatent(Latent):
    """Binary variables, element by element, with exact samples."""

    def log_mass(self, value, params):
        """log P of exact draws, differentiable in the parameters."""
        return self.sum_variables(bernoulli_log_mass(self._states(value), params))

    def _states(self, value):
        low, high = self.layer.levels
        return (value - low) / (high - low)

    def log_mass_ratio(self, value, q, p):
        return self.sum_variables(bernoulli_mass_kl(self._states(value), q, p))

    def analytic(self, node, q, p, temperature, prior_temperature):
        """Eq. 22: KL(Q, P)."""
        return self.sum_variables(bernoulli_kl(q, p))

    def _set_axes(self, rank):
        self._variable_ndims = rank - 1

    def from_codes(self, codes):
        return self.to_levels(tf.cast(codes, tf.float32))

    @property
    def code_shape(self):
        return self.params_shape

    @property
    def num_states(self):
        return 2

    def to_levels(self, state):
        """States 0 and 1, relaxed or not, to the layer's levels."""
        return self.layer._to_levels(state, None, state.dtype)


class BinConcreteLatent(BernoulliLatent):
    """Relaxed binary variables; the node is the logit of the sample."""

    def relax(self, params, temperature, seed):
        return logit_bin_concrete(params, temperature, seed=seed)

    def value(self, node):
        return self.to_levels(tf.sigmoid(node))

    def density(self, node, q, p, temperature, prior_temperature):
        """Eq. 27: log q - log p by their densities."""
        return self.sum_variables(
            bin_concrete_density_kl(node, q, p, temperature, prior_temperature)
        )


class GaussianLatent(Latent):
    """IGR variables; the node is the pair of the simplex sample and its Gaussians y.

    Exact draws keep their Gaussians as well: with a decoder that sees the rounded sample
    only, log q(y) - log p(y) gives a bound of the same discrete model, if a looser one
    than the masses would, which most transforms do not have.
    """

    def build(self, params):
        if not isinstance(params, (list, tuple)) or len(params) != 2:
            raise invalid_value(
                "encoder", "two outputs, [loc, log_scale] of an IGRSample", params
            )
        output = self._build_layer(list(params), params[0].shape)
        self.params_shape = [tuple(x.shape) for x in params]
        return output

    def relax(self, params, temperature, seed):
        value = self.layer._relax(params, temperature, None, seed)
        return value, self._gaussians(params, seed)

    def draw(self, params, seed):
        value = self.draw_value(params, seed)
        return (value, self._gaussians(params, seed)), value

    def _gaussians(self, params, seed):
        """y of Eq. 16, from the noise that the layer draws for this seed."""
        loc, log_scale = params
        last = keras.ops.moveaxis(loc, self.layer.axis, -1)
        noise = keras.ops.moveaxis(normal(tf.shape(last), seed), -1, self.layer.axis)
        return loc + tf.exp(log_scale) * tf.cast(noise, loc.dtype)

    def _sum_gaussians(self, values):
        return self.sum_variables(tf.reduce_sum(values, axis=self.axis))

    def value(self, node):
        return node[0]

    def gaussian(self, node, q, p, temperature, prior_temperature):
        """IGR's Eq. 19: the KL of the Gaussians."""
        return self._sum_gaussians(gaussian_kl(*q, *p))

    def gaussian_sample(self, node, q, p, temperature, prior_temperature):
        """log q - log p of the Gaussians behind the sample."""
        return self._sum_gaussians(gaussian_density_kl(node[1], *q, *p))

    def log_mass_ratio(self, node, q, p):
        return self.gaussian_sample(node, q, p, None, None)

    @property
    def code_shape(self):
        axis = self.axis % len(self.params_shape[0])
        return self.params_shape[0][:axis] + self.params_shape[0][axis + 1 :]

    @property
    def num_states(self):
        return self.params_shape[0][self.axis] + 1


class SoftmaxPlusPlusLatent(GaussianLatent):
    """IGR variables whose rounding probabilities are known: a categorical, discretely."""

    def discrete_params(self, params):
        probs = self.layer._probs(params, None)
        return tf.math.log(tf.maximum(probs, FLOOR))

    def draw(self, params, seed):
        value = categorical(params, axis=self.layer.axis, seed=seed)
        return value, value

    def log_mass_ratio(self, node, q, p):
        return self.sum_variables(categorical_mass_kl(node, q, p, self.axis))


def _igr_latent(layer):
    is_named = isinstance(layer.transform, str) and layer.transform == "softmax++"
    return (SoftmaxPlusPlusLatent if is_named else GaussianLatent)(layer)


# The first line that fits: a kind of layer, whether its samples are relaxed Concrete
# variables, and its latent.
_LATENTS = (
    (IGRSample, False, _igr_latent),
    (BinConcreteSample, True, BinConcreteLatent),
    (BinConcreteSample, False, BernoulliLatent),
    (ExpConcreteSample, True, ExpConcreteLatent),
    (SamplingLayer, True, ConcreteLatent),
    (SamplingLayer, False, CategoricalLatent),
)


def as_latent(layer):
    """The `Latent` of a sampling layer.

    A layer that offers the density option promises Concrete samples.
    """
    if not isinstance(layer, SamplingLayer):
        raise invalid_type("latent", "a sampling layer of `tfc.layers`", layer)
    relaxed = "density" in layer.kl_options
    return next(
        latent(layer)
        for kind, is_relaxed, latent in _LATENTS
        if isinstance(layer, kind) and relaxed == is_relaxed
    )


def resolve_kl(kl, layer, num_samples):
    """The name of the KL option for a layer, `"auto"` resolved.

    The analytic KL has no place inside a bound of several samples, where each sample
    needs its own weight.
    """
    valid = [
        option for option in layer.kl_options if num_samples == 1 or option != "analytic"
    ]
    if isinstance(kl, str) and kl == "auto":
        return valid[0]
    if kl not in valid:
        samples = "" if num_samples == 1 else f" with num_samples={num_samples}"
        names = ", ".join(f'"{option}"' for option in ("auto", *valid))
        raise invalid_value(
            "kl", f"one of {names} for a {type(layer).__name__} latent{samples}", kl
        )
    return kl
