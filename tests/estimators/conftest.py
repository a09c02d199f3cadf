"""The straight-through family as one table, which the generic tests run through."""

import functools

import pytest
import tensorflow as tf

import tfconcrete as tfc

e = tfc.estimators

# name: function of (logits, class_mask=, axis=, seed=) with every other argument set.
FAMILY = {
    "straight_through": functools.partial(e.straight_through, temperature=0.8),
    "straight_through_gumbel_softmax": functools.partial(
        e.straight_through_gumbel_softmax, temperature=0.7
    ),
    "gumbel_rao": functools.partial(e.gumbel_rao, temperature=0.7, num_samples=13),
    "gapped": functools.partial(e.gapped_straight_through, temperature=0.5, gap=1.2),
    "gapped_pi": functools.partial(e.gapped_straight_through, temperature=0.5, gap="pi"),
    "gapped_nz": functools.partial(
        e.gapped_straight_through, temperature=0.5, gap=0.8, perturbation_gradient=True
    ),
    "reinmax": functools.partial(e.reinmax, temperature=1.3),
}


@pytest.fixture(params=list(FAMILY))
def estimator(request):
    """Every one-hot estimator of the family, with its parameters bound."""
    return FAMILY[request.param]


@pytest.fixture(scope="session")
def family():
    return FAMILY


@pytest.fixture(scope="session")
def vjp():
    """`vjp(function, x, upstream)`: the value at `x`, and the gradient that reaches it."""

    def value_and_gradient(function, x, upstream):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, tape.gradient(y, x, output_gradients=upstream)

    return value_and_gradient
