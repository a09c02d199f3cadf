"""The protocol of a discrete variable, and the KL options that a family offers."""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfconcrete._checks import invalid_value
from tfconcrete._typing import Seed, TensorLike


@dataclasses.dataclass(frozen=True)
class KLOption:
    """One way to write log q - log p of a variable in a bound.

    Attributes:
        name: What the user calls it, in `DiscreteVAE(kl=...)`.
        log_ratio: Function `(node, q, p, temperature, prior_temperature)` of a training node
            and the parameters of posterior and prior, one value for each variable.
        sampled: The option with one value for each sample to take in its place where every
            sample needs its own weight (a bound of several samples; a latent whose prior
            depends on its sample); None where this one has that already.
        is_discrete: Whether it is the KL of the discrete variables themselves, which then
            stands in the discrete bound too.

    Example:

    >>> density, mass, analytic = tfc.ConcreteSample().variable.kl_options
    >>> density.name, analytic.name, analytic.sampled.name
    ('density', 'analytic', 'mass')
    """

    name: str
    log_ratio: Callable
    sampled: "KLOption | None" = None
    is_discrete: bool = False

    def per_sample(self) -> "KLOption":
        """The option itself, or its form with one value for each sample."""
        return self if self.sampled is None else self.sampled


@dataclasses.dataclass(frozen=True)
class Variable:
    """A family of discrete variables, without state: what every room asks of one.

    A layer owns one, `layer.variable`. Parameters `params` are what the layer is called on.
    States are what it outputs on the simplex (one-hot vectors) or between its levels. Codes
    are int32 numbers of states; -1 is no state: a variable with no kept class (a zero row)
    or with a NaN among its parameters (a row of NaN).

    A training sample has a *node*, the tensor whose density counts (the logarithm of a
    Concrete sample, the logit of a binary one, the sample itself where it is discrete), and
    a *value*, what a decoder sees of it.

    Attributes:
        num_states: How many states each variable has; None where that is not known yet.

    Example:

    >>> variable = tfc.variables.Categorical(num_states=3)
    >>> logits = tf.constant([[0.0, 2.0, 1.0]])
    >>> variable.codes(logits).numpy(), variable.from_codes([1, -1]).numpy()
    (array([1], dtype=int32), array([[0., 1., 0.],
           [0., 0., 0.]], dtype=float32))
    >>> variable.log_prob(variable.draw(logits, seed=0), logits).shape
    TensorShape([1])
    """

    num_states: int | None = None

    @property
    def kl_options(self) -> tuple[KLOption, ...]:
        """The `KLOption`s of the family, the best first."""
        return ()

    @property
    def has_exact_probs(self) -> bool:
        """Whether the probabilities of the states are known without sampling."""
        return True

    @property
    def num_params(self) -> int:
        """How many tensors the parameters are; 1 means a tensor, else a list."""
        return 1

    def built_on(self, params_shape: Any) -> "Variable":
        """This variable, knowing its states from the shape of its parameters."""
        return dataclasses.replace(self, num_states=self.states_along(params_shape))

    def states_along(self, params_shape: Any) -> int | None:
        """How many states variables with parameters of this shape have, or None."""
        raise NotImplementedError

    def code_shape(self, params_shape: Any) -> tuple:
        """The shape of the codes of variables with parameters of this shape."""
        raise NotImplementedError

    def variable_shape(self, params_shape: Any) -> tuple:
        """The shape of one value for each variable, as `log_prob` gives it."""
        return self.code_shape(params_shape)

    def from_end(self, params_shape: Any) -> "Variable":
        """This variable with its axes counted from the end: samples may lead them."""
        return self

    def state_and_codes(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The most probable state, and its int32 codes."""
        raise NotImplementedError

    def codes(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
    ) -> tf.Tensor:
        """int32 codes of the most probable state.

        Args:
            params: What the layer is called on.
            class_mask: boolean, True keeps the class.
            temperature: The layer's, where the most probable state depends on it.

        Returns:
            int32 tensor; -1 where no class is kept or a kept parameter is NaN.
        """
        return self.state_and_codes(params, class_mask, temperature)[1]

    def codes_of(self, sample: tf.Tensor) -> tf.Tensor:
        """int32 codes of samples, relaxed ones rounded."""
        raise NotImplementedError

    def from_codes(
        self, codes: tf.Tensor, num_states: int | None = None, dtype: tf.DType | str = tf.float32
    ) -> tf.Tensor:
        """The states of int32 codes; -1 and what is out of range give a zero row."""
        raise NotImplementedError

    def draw(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        """An exact draw: the states themselves, with no gradient.

        Args:
            params, class_mask, temperature: As in `codes`.
            seed: An int, an int32 `[2]` tensor, a `keras.random.SeedGenerator`, or a seed
                for each row.
        """
        raise NotImplementedError

    def probs(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
        seed: Seed = None,
    ) -> tf.Tensor:
        """The probability of each state, in the place of the state itself."""
        raise NotImplementedError

    def log_prob(
        self,
        sample: tf.Tensor,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
    ) -> tf.Tensor:
        """log P of exact samples, one value for each variable; linear in relaxed ones."""
        raise NotImplementedError

    def entropy(
        self,
        params: Any,
        class_mask: TensorLike | None = None,
        temperature: TensorLike | None = None,
    ) -> tf.Tensor:
        """The entropy of each variable, in nats."""
        raise NotImplementedError

    def on_simplex(self, sample: tf.Tensor) -> tf.Tensor:
        """Samples as points of a simplex along the last axis."""
        raise NotImplementedError

    def value(self, node: Any) -> tf.Tensor:
        """What a decoder sees of a training node."""
        return node

    def exact_params(self, params: Any, temperature: TensorLike | None = None) -> Any:
        """The parameters that `exact_draw` and `log_mass_ratio` read, made once a batch."""
        return params

    def exact_draw(
        self, params: Any, temperature: TensorLike | None = None, seed: Seed = None
    ) -> Any:
        """A draw from `exact_params`: the node behind it, and its value."""
        value = self.draw(params, temperature=temperature, seed=seed)
        return value, value

    def log_mass_ratio(self, node: Any, q: Any, p: Any) -> tf.Tensor:
        """log Q - log P at the nodes of exact draws; q and p are `exact_params`."""
        raise NotImplementedError

    def discrete_kl(self, q: Any, p: Any) -> tf.Tensor:
        """KL(Q, P) from `exact_params`: the expectation of `log_mass_ratio`."""
        raise NotImplementedError

    def prior_params(
        self, prior_logits: Any, params_shape: Any, temperature: TensorLike, fit: Callable
    ) -> Any:
        """The parameters `[1, ...]` of a prior with these logits, as float32 arrays.

        Args:
            prior_logits: None (the family's default), a number, or an array that
                broadcasts to the logits of one example.
            params_shape: The shape of the variable's parameters, `(batch, ...)`.
            temperature: The layer's temperature.
            fit: `tfc.calibration.fit_igr_prior`, for families whose parameters are no
                logits.
        """
        raise NotImplementedError

    def known_states(self, num_states: int | None) -> int:
        """`num_states`, or the variable's own; raises where neither is known."""
        num_states = self.num_states if num_states is None else num_states
        if num_states is None:
            raise invalid_value(
                "num_states", "the number of states, as long as the layer is not built", None
            )
        return num_states
