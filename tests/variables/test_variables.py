"""The protocol of a variable, held to NumPy for every family."""

import dataclasses

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import tfconcrete as tfc

NAN, INF = float("nan"), float("inf")
LOGITS = np.array([[0.5, -1.0, 2.0], [0.0, 3.0, -2.0], [1.0, 1.0, 1.0]], np.float32)
MASK = np.array([[True, True, False], [True, False, True], [False, False, False]])
CATEGORICAL = [tfc.variables.Categorical, tfc.variables.RelaxedCategorical]
BINARY = [tfc.variables.Binary, tfc.variables.RelaxedBinary]


@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.parametrize("family", CATEGORICAL)
def test_categorical(family, axis):
    variable = family(3, axis=axis)
    logits = LOGITS if axis else LOGITS.T
    mask = MASK if axis else MASK.T
    np.testing.assert_array_equal(variable.codes(logits), [2, 1, 0])
    codes = variable.codes(logits, class_mask=mask)
    np.testing.assert_array_equal(codes, [0, 0, -1])
    states = variable.from_codes(codes).numpy()
    expected = np.array([[1, 0, 0], [1, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(states, expected if axis else expected.T)
    np.testing.assert_array_equal(variable.codes_of(states), codes)
    probs = scipy.special.softmax(logits, axis=axis)
    np.testing.assert_allclose(variable.probs(logits), probs, rtol=1e-5)
    entropy = -np.sum(probs * np.log(probs), axis=axis)
    np.testing.assert_allclose(variable.entropy(logits), entropy, rtol=1e-5)
    draw = variable.draw(logits, seed=0).numpy()
    np.testing.assert_array_equal(draw.sum(axis), 1.0)
    expected = np.log(probs[draw > 0]) if axis else np.log(probs.T[draw.T > 0])
    np.testing.assert_allclose(variable.log_prob(draw, logits), expected, rtol=1e-5)


def test_categorical_masks():
    variable = tfc.variables.Categorical(3)
    kept = np.where(MASK, LOGITS, -INF)
    with np.errstate(divide="ignore", invalid="ignore"):
        probs = np.nan_to_num(scipy.special.softmax(kept, axis=-1))
    logits = np.where(MASK, LOGITS, NAN)
    np.testing.assert_allclose(variable.probs(logits, MASK), probs, rtol=1e-5)
    entropy = scipy.special.entr(probs).sum(-1)
    np.testing.assert_allclose(variable.entropy(logits, MASK), entropy, rtol=1e-5, atol=1e-7)
    one_hot = np.eye(3, dtype=np.float32)
    found = variable.log_prob(one_hot[[0, 1, 2]], logits, MASK).numpy()
    np.testing.assert_allclose(found[0], np.log(probs[0, 0]), rtol=1e-5)
    np.testing.assert_array_equal(found[1:], [-INF, -INF])
    np.testing.assert_array_equal(variable.log_prob(np.zeros([3, 3]), logits, MASK), 0.0)


@pytest.mark.parametrize("levels", [(0.0, 1.0), (-1.0, 1.0), (5.0, 2.0)])
@pytest.mark.parametrize("family", BINARY)
def test_binary(family, levels):
    variable = family(levels=levels)
    logits, mask = LOGITS[0], MASK[0]
    assert variable.num_states == 2
    np.testing.assert_array_equal(variable.codes(logits), [1, 0, 1])
    np.testing.assert_array_equal(variable.codes(logits, mask), [1, 0, -1])
    low, high = levels
    states = variable.from_codes(np.array([1, 0, -1])).numpy()
    np.testing.assert_array_equal(states, [high, low, 0.0])
    draw = variable.draw(np.tile(logits, [4, 1]), seed=0).numpy()
    assert set(np.unique(draw)) <= {low, high}
    on = scipy.special.log_expit(logits)
    expected = np.where(draw == high, on, scipy.special.log_expit(-logits))
    np.testing.assert_allclose(variable.log_prob(draw, logits), expected, rtol=1e-5)
    p = np.exp(on)
    entropy = scipy.special.entr(p) + scipy.special.entr(1 - p)
    np.testing.assert_allclose(variable.entropy(logits), entropy, rtol=1e-5)
    np.testing.assert_array_equal(variable.entropy(logits, mask)[2], 0.0)


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_nan_rows_have_no_code(mode):
    cases = [
        (tfc.variables.Categorical(3), np.array([[0, NAN, 1], [2, 1, 0]], np.float32)),
        (tfc.variables.Binary(), np.array([[NAN], [2]], np.float32)),
    ]
    loc = np.array([[0, NAN], [2, 1]], np.float32)
    igr = tfc.variables.GaussianSimplex(3)
    cut = tfc.variables.GaussianSimplex(3, transform="stick_breaking", precision=0.9)
    cases += [(kind, [loc, np.zeros_like(loc)]) for kind in (igr, cut)]
    cases += [(kind, [np.ones_like(loc), loc * 0]) for kind in (igr, cut)]
    for variable, params in cases:

        def run(params, variable=variable):
            return variable.state_and_codes(params, temperature=0.5)

        params = tf.nest.map_structure(tf.constant, params)
        run = run if mode == "eager" else tf.function(run, jit_compile=mode == "xla")
        state, codes = run(params)
        assert np.all(np.isnan(state.numpy()[0])) and np.all(codes.numpy()[0] == -1)
        assert np.all(np.isfinite(state.numpy()[1])) and np.all(codes.numpy()[1] >= 0)


@pytest.mark.parametrize("transform", ["softmax++", "stick_breaking"])
def test_gaussian_simplex(transform):
    variable = tfc.variables.GaussianSimplex(4, transform=transform)
    loc = tf.constant([[0.3, -0.2, 0.8], [1.0, 0.0, -1.0]])
    params = [loc, tf.zeros_like(loc) - 0.5]
    draws = variable.draw(
        [tf.repeat(p[tf.newaxis], 20_000, 0) for p in params], temperature=0.5, seed=1
    ).numpy()
    frequencies = draws.mean(0)
    probs = variable.probs(params, temperature=0.5).numpy()
    size = 20_000 if variable.has_exact_probs else 1000 * 20_000 / 21_000
    error = np.sqrt(frequencies * (1 - frequencies) / size)
    np.testing.assert_array_less(np.abs(probs - frequencies), 5 * error + 1e-3)
    log_prob = variable.log_prob(draws[0], params, temperature=0.5)
    np.testing.assert_allclose(log_prob, np.log(probs[draws[0] > 0]), rtol=1e-3)
    entropy = scipy.special.entr(probs).sum(-1)
    np.testing.assert_allclose(variable.entropy(params, temperature=0.5), entropy, rtol=1e-3)


def test_a_variable_has_no_state():
    variable = tfc.ConcreteSample().variable
    with pytest.raises(dataclasses.FrozenInstanceError):
        variable.axis = 0
    assert variable == tfc.variables.RelaxedCategorical()
    with pytest.raises(ValueError, match="num_states"):
        variable.from_codes([0])


def test_every_layer_knows_its_states_once_built():
    layer = tfc.ConcreteSample()
    layer(tf.zeros([2, 5]))
    assert layer.variable.num_states == 5
    np.testing.assert_array_equal(layer.variable.from_codes([4, -1]).numpy().argmax(-1), [4, 0])
    igr = tfc.IGRSample()
    igr([tf.zeros([2, 5])] * 2)
    assert igr.variable.num_states == 6
    assert tfc.layers.BinConcreteSample().variable.num_states == 2
