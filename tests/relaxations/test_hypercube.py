"""Hypercube codes: class k is k in binary, first bit first, 0 is -1."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tfconcrete import relaxations


@pytest.mark.parametrize("bits", [1, 2, 3, 5])
def test_corners_are_the_binary_digits(bits):
    expected = list(itertools.product([-1.0, 1.0], repeat=bits))
    np.testing.assert_array_equal(relaxations.hypercube_corners(2**bits), expected)


def test_one_hot_and_relaxed_inputs():
    x = np.random.default_rng(0).dirichlet(np.ones(8), size=[4, 5]).astype(np.float32)
    code = relaxations.hypercube_code(x)
    assert code.shape == (4, 15)
    expected = np.concatenate([x[:, g] @ relaxations.hypercube_corners(8) for g in range(5)], -1)
    np.testing.assert_allclose(code, expected, rtol=1e-5, atol=1e-6)
    hard = relaxations.hypercube_code(tf.one_hot([[6, 1]], 8))
    np.testing.assert_array_equal(hard, [[1, 1, -1, -1, -1, 1]])


def test_unknown_batch():
    traced = tf.function(relaxations.hypercube_code).get_concrete_function(
        tf.TensorSpec([None, 5, 4])
    )
    assert traced.output_shapes.as_list() == [None, 10]


@pytest.mark.parametrize("num_classes", [1, 3, 6])
def test_not_a_power_of_two(num_classes):
    with pytest.raises(ValueError, match="argument `num_classes`"):
        relaxations.hypercube_corners(num_classes)
