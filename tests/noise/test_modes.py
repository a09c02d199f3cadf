"""The same noise in eager, `tf.function` and XLA, in loops and for unknown shapes."""

import numpy as np
import pytest
import tensorflow as tf

from tfconcrete import noise
from tfconcrete._philox import compiled_by_xla
from tfconcrete._seeds import Stream, as_seed, fold_in, random_blocks, random_words
from tfconcrete.noise.gumbel import add_gumbel

ALL = {name: getattr(noise, name) for name in ("uniform", "gumbel", "logistic", "normal")}


@pytest.mark.parametrize("shape", [[], [1], [7], [3, 5], [2, 3, 5], [1, 999], [64, 33, 10]])
def test_uniforms_are_equal_bit_for_bit(shape):
    eager = noise.uniform(shape, seed=3).numpy()
    for compiled in (False, True):
        traced = tf.function(lambda: noise.uniform(shape, seed=3), jit_compile=compiled)
        np.testing.assert_array_equal(traced().numpy(), eager)


@pytest.mark.parametrize("stream", [Stream.NOISE, Stream.CLASS_IN_BLOCK])
@pytest.mark.parametrize("seed", [0, 2**64 - 1, 0x123456789ABCDEF])
def test_blocks_written_out_for_xla_are_those_of_the_kernel(seed, stream):
    key = as_seed(seed)
    expected = random_words([70_000, 4], key, stream).numpy()
    drawn = tf.function(lambda n, key: random_blocks(n, key, stream), jit_compile=True)
    np.testing.assert_array_equal(drawn(70_000, key), expected)
    np.testing.assert_array_equal(random_blocks(70_000, key, stream), expected)


def test_xla_is_known_where_it_compiles():
    """In loops, branches, called functions and gradients; nothing else depends on it."""
    found = {}

    def note(place, x):
        found[place] = compiled_by_xla()
        return x

    @tf.custom_gradient
    def with_gradient(x):
        return note("forward", x), lambda upstream: note("backward", upstream)

    called = tf.function(lambda x: note("call", x))

    def body(x):
        x = tf.while_loop(lambda _: True, lambda x: [note("loop", x)], [x], maximum_iterations=2)[0]
        x = tf.cond(tf.reduce_sum(x) > 0.0, lambda: note("branch", x), lambda: called(x))
        return tf.gradients(with_gradient(x), x)

    for compiled in (True, False):
        tf.function(body, jit_compile=compiled)(tf.ones([3]))
        assert set(found) == {"loop", "branch", "call", "forward", "backward"}
        # A function that is called from both is traced once, where it was called first.
        assert {found[name] for name in set(found) - {"call"}} == {compiled}
    note("eager", None)
    assert found["eager"] is False


@pytest.mark.parametrize("shape", [[25_000, 8], [1, 999], [50, 4, 1000]])
def test_perturbed_logits_agree_between_modes(shape):
    logits = noise.normal(shape, seed=5)
    eager = add_gumbel(logits, as_seed(9)).numpy()
    np.testing.assert_allclose(eager, logits + noise.gumbel(shape, seed=9), rtol=1e-6, atol=1e-6)
    for compiled in (False, True):
        traced = tf.function(lambda x: add_gumbel(x, as_seed(9)), jit_compile=compiled)
        np.testing.assert_allclose(traced(logits), eager, rtol=1e-6, atol=2e-6)


def test_exponential_noise_is_fine_near_zero_under_xla():
    """The tail that decides who wins among many classes keeps its relative precision."""
    gumbel = tf.function(lambda: add_gumbel(tf.zeros([4_000_000]), as_seed(1)), jit_compile=True)
    words = random_words([4_000_000], as_seed(1)).numpy().astype(np.float64)
    exact = -np.log(-np.log1p(-(words * 2.0**-32 + 2.0**-33)))
    rare = words < 2.0**18
    assert rare.sum() > 100
    np.testing.assert_allclose(gumbel().numpy()[rare], exact[rare], rtol=3e-7)


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
