"""The same noise in eager, `tf.function` and XLA, in loops and for unknown shapes."""

import numpy as np
import pytest
import tensorflow as tf

from tfconcrete import noise
from tfconcrete._seeds import as_seed, fold_in

ALL = {name: getattr(noise, name) for name in ("uniform", "gumbel", "logistic", "normal")}


@pytest.mark.parametrize("shape", [[], [1], [7], [3, 5], [2, 3, 5], [1, 999], [64, 33, 10]])
def test_uniforms_are_equal_bit_for_bit(shape):
    eager = noise.uniform(shape, seed=3).numpy()
    for compiled in (False, True):
        traced = tf.function(lambda: noise.uniform(shape, seed=3), jit_compile=compiled)
        np.testing.assert_array_equal(traced().numpy(), eager)


@pytest.mark.parametrize("name", ALL)
def test_noise_agrees_between_modes(name):
    function = ALL[name]
    eager = function([200_000], seed=as_seed(9)).numpy()
    assert eager.dtype == np.float32
    for compiled in (False, True):

        @tf.function(jit_compile=compiled)
        def traced(seed):
            return function([200_000], seed)

        np.testing.assert_allclose(traced(as_seed(9)), eager, rtol=1e-6, atol=1e-6)


def test_unknown_shape():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def traced(shape):
        return noise.gumbel(shape, seed=1)

    for shape in ([4], [2, 3], [0, 3]):
        np.testing.assert_allclose(
            traced(tf.constant(shape)), noise.gumbel(shape, seed=1), rtol=1e-6
        )


def test_unknown_batch_under_xla():
    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None, 3])])
    def traced(x):
        return noise.uniform(tf.shape(x), seed=1)

    for batch in (1, 5):
        np.testing.assert_array_equal(
            traced(tf.zeros([batch, 3])), noise.uniform([batch, 3], seed=1)
        )


@pytest.mark.parametrize("compiled", [False, True])
def test_inside_a_while_loop(compiled):
    seed = as_seed(4)

    @tf.function(jit_compile=compiled)
    def traced(seed):
        draws = tf.TensorArray(tf.float32, 5, element_shape=[6])
        return tf.while_loop(
            lambda i, _: i < 5,
            lambda i, d: (i + 1, d.write(i, noise.uniform([6], fold_in(seed, i)))),
            (0, draws),
        )[1].stack()

    expected = np.stack([noise.uniform([6], fold_in(seed, i)) for i in range(5)])
    np.testing.assert_array_equal(traced(seed), expected)


def test_no_slow_random_op_in_the_graph():
    """Only the explicit algorithm: `auto_select` is the V2 op fed by another's choice."""
    traced = tf.function(lambda s: noise.gumbel([3], s) + noise.normal([3], fold_in(s, 1)))
    graph = traced.get_concrete_function(tf.TensorSpec([2], tf.int32)).graph
    random_ops = {op.type for op in graph.get_operations() if "Random" in op.type}
    assert random_ops == {"StatelessRandomUniformFullIntV2"}
    for op in graph.get_operations():
        if op.type == "StatelessRandomUniformFullIntV2":
            assert tf.get_static_value(op.inputs[3]) == 1
