"""One converter from everything a user calls a seed."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfconcrete._seeds import as_seed, fold_in, split


def test_int_is_its_own_low_and_high_word():
    for seed in (0, 1, -1, 2**31, 2**32 - 1, 2**63 + 12345, np.int64(7)):
        low, high = (int(word) % 2**32 for word in as_seed(seed))
        assert low + high * 2**32 == int(seed) % 2**64


def test_int_repeats_itself_and_none_does_not():
    np.testing.assert_array_equal(as_seed(5), as_seed(5))
    assert not np.array_equal(as_seed(None), as_seed(None))


@pytest.mark.parametrize("compiled", [False, True])
def test_none_is_fresh_on_every_compiled_call(compiled):
    fresh = tf.function(lambda: as_seed(), jit_compile=compiled)
    assert not np.array_equal(fresh(), fresh())


def test_none_follows_the_global_seed():
    keras.utils.set_random_seed(3)
    first = as_seed().numpy()
    keras.utils.set_random_seed(3)
    np.testing.assert_array_equal(as_seed(), first)


@pytest.mark.parametrize("dtype", [tf.int32, tf.uint32, tf.int64, tf.uint64])
def test_integer_tensors(dtype):
    seed = as_seed(tf.constant([3, 4], dtype))
    assert seed.dtype == tf.int32
    np.testing.assert_array_equal(seed, [3, 4])


def test_wide_tensors_keep_their_low_words():
    np.testing.assert_array_equal(as_seed(tf.constant([2**32 + 5, -1], tf.int64)), [5, -1])
    np.testing.assert_array_equal(as_seed(np.array([1, 2])), [1, 2])
    np.testing.assert_array_equal(as_seed([1, 2]), [1, 2])


def test_generator_advances_and_agrees_with_its_twin():
    one, two = keras.random.SeedGenerator(8), keras.random.SeedGenerator(8)
    first, second = as_seed(one).numpy(), as_seed(one).numpy()
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(as_seed(two), first)
    np.testing.assert_array_equal(as_seed(two), second)


def test_generator_advances_inside_a_compiled_function():
    generator = keras.random.SeedGenerator(8)
    traced = tf.function(lambda: as_seed(generator), jit_compile=True)
    assert not np.array_equal(traced(), traced())


def test_fold_in_and_split_agree_in_every_mode():
    seed = as_seed(6)
    eager = fold_in(seed, 9).numpy()
    for compiled in (False, True):
        traced = tf.function(fold_in, jit_compile=compiled)
        np.testing.assert_array_equal(traced(seed, tf.constant(9)), eager)
    assert len({tuple(s.numpy()) for s in [seed, *split(seed, 20)]}) == 21


@pytest.mark.parametrize("seed", ["7", 1.5, True, object()])
def test_wrong_types(seed):
    with pytest.raises(TypeError, match=r"argument `seed`\. Expected an int, an integer tensor"):
        as_seed(seed)


@pytest.mark.parametrize("seed", [[1, 2, 3], [[1, 2]]])
def test_wrong_shapes(seed):
    with pytest.raises(ValueError, match=r"argument `seed`.*Received: seed="):
        as_seed(seed)


def test_float_tensor_is_a_wrong_type():
    with pytest.raises(TypeError, match="argument `seed`"):
        as_seed(tf.constant([1.0, 2.0]))
