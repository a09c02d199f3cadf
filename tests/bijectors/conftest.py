"""One table of the bijectors behind IGR, for the tests that hold for all of them."""

import pytest
import tensorflow as tf

import tfconcrete as tfc


def _flow(seed):
    return tfc.bijectors.PlanarFlow.create(3, 4, scale=1.0, seed=seed, dtype=tf.float64)


MAKERS = {
    "softmax++": lambda: tfc.bijectors.SoftmaxPlusPlus(0.3, delta=0.5),
    "stick_breaking": lambda: tfc.bijectors.StickBreaking(),
    "stick_breaking_softmax": lambda: tfc.bijectors.StickBreakingSoftmax(0.4, delta=0.5),
    "interpolation": lambda: tfc.bijectors.Interpolation(0.3),
    "planar": lambda: _flow(0),
}


@pytest.fixture(params=MAKERS)
def bijector(request):
    return MAKERS[request.param]()
