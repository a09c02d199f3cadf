"""`SubsetSample` for k above 1; what it shares with all layers is in the generic tests."""

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

import tfconcrete as tfc
from tests.grids import grid
from tests.subsets import Law

SubsetSample = tfc.layers.SubsetSample
NAN = float("nan")
LOGITS = np.random.default_rng(0).normal(0, 1.5, [3, 6]).astype(np.float32)
KINDS = [("exact", True), ("exact", False), ("gumbel", True), ("gumbel", False)]
kinds = pytest.mark.parametrize(("estimator", "hard"), KINDS)


def plain(x):
    return tf.cast(x, tf.float64).numpy()


@pytest.mark.parametrize("policy", ["float16", "mixed_bfloat16", "float32", "float64"])
@pytest.mark.parametrize("estimator", ["exact", "gumbel"])
def test_exactly_k_ones_in_every_mode_and_dtype(policy, estimator):
    layers = {
        mode: SubsetSample(3, estimator=estimator, inference=mode, dtype=policy, seed=1)
        for mode in ("argmax", "sample", "probs")
    }
    logits = tf.tile(LOGITS, [20, 1])
    outputs = [layers["argmax"](logits), layers["sample"](logits)]
    outputs.append(layers["argmax"](logits, training=True))
    for output in outputs:
        assert output.dtype == layers["argmax"].compute_dtype
        assert set(np.unique(plain(output))) == {0.0, 1.0}
        np.testing.assert_array_equal(plain(output).sum(-1), 3.0)
    top = np.argsort(-LOGITS, -1)[:, :3]
    np.testing.assert_array_equal(np.sort(np.argsort(-plain(outputs[0])[:3])[:, :3]), np.sort(top))
    marginals = plain(layers["probs"](LOGITS))
    expected = [
        Law(plain(tf.cast(row, layers["probs"].compute_dtype)), 3).marginals for row in LOGITS
    ]
    tolerance = {"float16": 1e-3, "mixed_bfloat16": 8e-3}.get(policy, 1e-5)
    np.testing.assert_allclose(marginals, expected, atol=tolerance)


def test_codes_have_the_largest_logit_first():
    layer = SubsetSample(4, name="z")
    with tfc.layers.record_codes() as records:
        layer(LOGITS)
    ((name, codes),) = records
    assert name == "z" and codes.dtype == tf.int32
    np.testing.assert_array_equal(codes, np.argsort(-LOGITS, -1)[:, :4])
    variable = layer.variable
    assert (variable.k, variable.num_states) == (4, 6)
    np.testing.assert_array_equal(variable.from_codes(codes), layer(LOGITS))
    assert variable.code_shape((None, 2, 6)) == (None, 2, 4)
    assert variable.variable_shape((None, 2, 6)) == (None, 2)


@pytest.mark.parametrize(
    ("estimator", "hard"),
    grid(["exact", "gumbel"], [True, False], quick=lambda name, hard: hard == (name == "exact")),
)
def test_training_samples(estimator, hard):
    layer = SubsetSample(2, 0.7, estimator=estimator, hard=hard, seed=3)
    run = tf.function(lambda x: layer(x, training=True), jit_compile=True)
    sample = run(tf.tile(LOGITS, [10, 1])).numpy()
    np.testing.assert_allclose(sample.sum(-1), 2.0, rtol=1e-5)
    assert (len(np.unique(sample)) == 2) == hard


def test_draws_and_masses_are_those_of_one_law():
    layer = SubsetSample(2, inference="sample", seed=5)
    num = 20_000
    draws = layer(tf.tile(LOGITS[:1], [num, 1]))
    law = Law(LOGITS[0], 2)
    assert scipy.stats.chisquare(law.counts(draws.numpy()), num * law.probs).pvalue > 1e-5
    log_prob = layer.log_prob(law.states.astype(np.float32), LOGITS[0])
    np.testing.assert_allclose(log_prob, law.log_probs, rtol=1e-4)
    np.testing.assert_allclose(layer.entropy(LOGITS[0]), law.entropy, rtol=1e-5)


def test_the_score_function_is_unbiased():
    """The mean of f(z) times the gradient of log_prob is the gradient of E f."""
    layer = SubsetSample(2, inference="sample", seed=6)
    num, weights = 20_000, np.array([1.0, -1.0, 2.0, 0.5, 3.0, 0.0], np.float32)
    logits = tf.tile(LOGITS[:1], [num, 1])
    z = layer(logits)
    value = tf.reduce_sum(z * weights, -1) ** 2
    with tf.GradientTape() as tape:
        tape.watch(logits)
        log_prob = layer.log_prob(z, logits)
    gradients = (value[:, None] * tape.gradient(log_prob, logits)).numpy()
    law = Law(LOGITS[0], 2)
    values = (law.states @ weights) ** 2
    exact = (law.probs * values) @ (law.states - law.marginals)
    error = gradients.std(0) / np.sqrt(num)
    np.testing.assert_array_less(np.abs(gradients.mean(0) - exact), 4.5 * error)


@kinds
def test_fewer_kept_classes_than_k(estimator, hard):
    """All of them are taken, in every mode; codes end in -1."""
    mask = np.array(
        [
            [True, False, True, False, False, False],
            [False] * 6,
            [True, True, True, False, True, False],
        ]
    )
    logits = np.where(mask, LOGITS, NAN)
    for mode in ("argmax", "sample", "probs", None):
        layer = SubsetSample(3, estimator=estimator, hard=hard, seed=1, inference=mode or "argmax")
        output = layer(logits, class_mask=mask, training=mode is None).numpy()
        np.testing.assert_allclose(output.sum(-1), [2.0, 0.0, 3.0], atol=1e-5)
        np.testing.assert_array_equal(output[0], mask[0])
        assert not np.any(output[~mask])
    codes = layer.variable.codes(logits, mask).numpy()
    assert sorted(codes[0][:2]) == [0, 2] and codes[0][2] == -1
    np.testing.assert_array_equal(codes[1], -1)
    assert len(set(codes[2])) == 3 and min(codes[2]) >= 0
    np.testing.assert_array_equal(layer.variable.from_codes(codes)[0], mask[0])
    np.testing.assert_allclose(layer.entropy(logits, mask)[:2], 0.0, atol=1e-6)
    np.testing.assert_allclose(
        layer.log_prob(mask[:2].astype("float32"), logits[:2], mask[:2]), 0.0, atol=1e-6
    )


@pytest.mark.parametrize(
    ("estimator", "hard", "compiled"),
    [
        *((*kind, False) for kind in KINDS),
        (*KINDS[0], True),
        *(pytest.param(*kind, True, marks=pytest.mark.slow) for kind in KINDS[1:]),
    ],
)
def test_nan_rows(estimator, hard, compiled):
    logits = LOGITS.copy()
    logits[1, 2] = NAN
    layers = [
        SubsetSample(2, estimator=estimator, hard=hard, inference=mode)
        for mode in ("argmax", "sample", "probs")
    ]

    def run(logits):
        outputs = [layer(logits) for layer in layers] + [layers[0](logits, training=True)]
        return outputs, layers[0].variable.codes(logits)

    outputs, codes = (tf.function(run, jit_compile=True) if compiled else run)(tf.constant(logits))
    for output in outputs:
        np.testing.assert_array_equal(np.isnan(output).all(-1), [False, True, False])
        np.testing.assert_array_equal(np.isnan(output).any(-1), [False, True, False])
    np.testing.assert_array_equal(codes[1], -1)


def test_axis():
    layer, across = SubsetSample(2, seed=1), SubsetSample(2, axis=1, seed=1)
    logits = tf.random.stateless_normal([4, 3, 6], [0, 1])
    turned = tf.transpose(logits, [0, 2, 1])
    for training in (False, True):
        expected = tf.transpose(layer(logits, training=training), [0, 2, 1])
        np.testing.assert_array_equal(across(turned, training=training), expected)
    with tfc.layers.record_codes() as records:
        layer(logits)
        across(turned)
    np.testing.assert_array_equal(tf.transpose(records[0][1], [0, 2, 1]), records[1][1])
    np.testing.assert_allclose(layer.entropy(logits), across.entropy(turned), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["exact", "gumbel"])
def test_training_a_model(estimator):
    """The classes that carry the target are found."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=[512, 8]).astype(np.float32)
    y = x[:, [1, 4, 6]].sum(-1, keepdims=True)
    keras.utils.set_random_seed(0)
    inputs = keras.Input([8])
    ones = keras.layers.Lambda(lambda x: x * 0.0 + 1.0, output_shape=(8,))(inputs)
    logits = keras.layers.EinsumDense("bi,i->bi", (8,), kernel_initializer="zeros")(ones)
    z = SubsetSample(
        3, tfc.schedules.ExponentialAnnealing(2.0, 0.2, 0.02), estimator, seed=0, name="z"
    )(logits)
    total = keras.layers.Lambda(
        lambda pair: tf.reduce_sum(pair[0] * pair[1], -1, keepdims=True), output_shape=(1,)
    )([inputs, z])
    model = keras.Model(inputs, total)
    model.compile(keras.optimizers.Adam(0.05), "mse", jit_compile=True)
    model.fit(x, y, batch_size=64, epochs=30, verbose=0)
    assert model.evaluate(x, y, verbose=0) == 0.0
    chosen = keras.Model(inputs, z)(x[:1])
    np.testing.assert_array_equal(np.flatnonzero(chosen[0]), [1, 4, 6])


def test_keras_files(tmp_path):
    layer = SubsetSample(2, 0.3, "gumbel", hard=False, axis=1, inference="probs", seed=4, name="z")
    inputs = keras.Input([6, 2])
    model = keras.Model(inputs, layer(inputs))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    restored = again.get_layer("z")
    for name in ("k", "estimator", "hard", "axis", "inference"):
        assert getattr(restored, name) == getattr(layer, name)
    x = tf.random.stateless_normal([3, 6, 2], [1, 2])
    np.testing.assert_array_equal(again(x), model(x))
    np.testing.assert_array_equal(again(x, training=True), model(x, training=True))


def test_errors():
    for k in (0, -1):
        with pytest.raises(ValueError, match="argument `k`. Expected a whole number"):
            SubsetSample(k)
    with pytest.raises(TypeError, match="argument `k`"):
        SubsetSample(1.5)
    with pytest.raises(ValueError, match='argument `estimator`. Expected one of "exact", "gumbel"'):
        SubsetSample(2, estimator="both")
    with pytest.raises(ValueError, match="from 1 to 5, of 6 classes"):
        SubsetSample(6)(LOGITS)
    with pytest.raises(ValueError, match="from 1 to 5, of 6 classes"):
        SubsetSample(6)(keras.Input([6]))
