"""What all variables share whose parameters are logits: their KL terms and their priors."""

import dataclasses
from collections.abc import Callable
from typing import Any

from tfconcrete._typing import TensorLike
from tfconcrete.variables.base import KLOption, Variable
from tfconcrete.variables.prior_arrays import broadcast_prior


@dataclasses.dataclass(frozen=True)
class LogitVariable(Variable):
    """A variable with one tensor of logits; its states have closed masses.

    Subclasses give `log_mass_ratio` and `discrete_kl`.
    """

    @property
    def kl_options(self) -> tuple[KLOption, ...]:
        mass = KLOption("mass", self._mass)
        analytic = KLOption("analytic", self._analytic, sampled=mass, is_discrete=True)
        return analytic, mass

    def _mass(self, node, q, p, temperature, prior_temperature):
        """Concrete, Eq. 21: log Q - log P, linear in the value; exact for a discrete one."""
        return self.log_mass_ratio(self.value(node), q, p)

    def _analytic(self, node, q, p, temperature, prior_temperature):
        """Concrete, Eq. 22: KL(Q, P)."""
        return self.discrete_kl(q, p)

    def prior_params(
        self, prior_logits: Any, params_shape: Any, temperature: TensorLike, fit: Callable
    ) -> Any:
        return broadcast_prior(0.0 if prior_logits is None else prior_logits, params_shape)
