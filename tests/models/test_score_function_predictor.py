"""`ScoreFunctionPredictor`: enumerated gradients through two layers, files, refusals."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax, logsumexp

import tfconcrete as tfc
from tests.models.enumeration import CATEGORICAL_STATES as STATES
from tests.models.enumeration import dense, log_likelihoods, make_data

layers = tfc.layers
DATA = make_data(40)
CONTEXT, TARGET = DATA[:, :3], DATA[:, 3:]
ROWS, REPEATS = 400, 150
CASES = {
    "reinforce": {},
    "nvil": {"normalize": False},
    "vimco": {"num_samples": 2},
    "rloo": {},
}


def make_model(estimator, num_latents=2, **arguments):
    encoders = [dense((3,), (2, 3), 0), dense((2, 3), (2, 3), 1)][:num_latents]
    latents = [layers.ConcreteSample(seed=i) for i in range(num_latents)]
    return tfc.models.ScoreFunctionPredictor(
        encoders, dense((2, 3), (3,), 5), latents, estimator=estimator, **arguments
    )


def step_log_probs(logits):
    """log p(state | logits) of both variables, `[..., states]`."""
    return tf.reduce_sum(tf.nn.log_softmax(logits)[..., None, :, :] * STATES, [-1, -2])


def enumerated_loss(model, x, y):
    """-E[L_m^SP] of one example over all pairs of states of the layers (pairs of them at m = 2)."""
    first = step_log_probs(model.encoder[0](x))[0]
    second = step_log_probs(model.encoder[1](STATES))
    paths = tf.exp(tf.reshape(first[:, None] + second, [-1]))
    outputs = model.decoder(STATES)
    values = tf.reduce_sum(y * outputs - tf.nn.softplus(outputs), -1)
    values = tf.tile(values, [len(STATES)])
    if model.estimator != "vimco":
        return -tf.reduce_sum(paths * values)
    pairs = np.array(list(itertools.product(range(len(STATES) ** 2), repeat=2))).T
    bound = tf.reduce_logsumexp(tf.gather(values, pairs), 0) - np.log(2)
    return -tf.reduce_sum(tf.reduce_prod(tf.gather(paths, pairs), 0) * bound)


@pytest.mark.parametrize("estimator", CASES)
def test_gradients_are_the_enumerated_ones(estimator):
    """The mean of 60,000 draws, for every weight of both encoders and the decoder."""
    model = make_model(estimator, **CASES[estimator])
    x, y = tf.constant(CONTEXT[:1]), tf.constant(TARGET[:1])
    networks = [*model.encoder, model.decoder]
    weights = [w for network in networks for w in network.trainable_weights]
    with tf.GradientTape() as tape:
        loss = enumerated_loss(model, x, y)
    exact = [g.numpy() for g in tape.gradient(loss, weights)]
    x, y = tf.repeat(x, ROWS, axis=0), tf.repeat(y, ROWS, axis=0)

    @tf.function
    def estimate():
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(model.training_terms(x, y)["loss"])
        return value, tape.gradient(value, weights)

    estimates = [estimate() for _ in range(REPEATS)]
    values = np.array([value for value, _ in estimates])
    assert abs(values.mean() - loss) < 5 * values.std() / np.sqrt(REPEATS) + 1e-6
    for index, expected in enumerate(exact):
        found = np.array([gradients[index] for _, gradients in estimates])
        error = found.std(0) / np.sqrt(REPEATS) + 1e-6
        assert (np.abs(found.mean(0) - expected) < 5 * error).all(), weights[index].path


def exact_log_likelihood(model, x, y):
    """log p(y | x) of each example, summed over the states of every layer."""
    log_p = np.zeros([len(x), 1])
    inputs = x[:, None]
    for encoder in model.encoder:
        rows = inputs.reshape([-1, *inputs.shape[2:]])
        logits = log_softmax(np.asarray(encoder(rows), np.float64), -1)
        step = np.einsum("avk,svk->as", logits, STATES).reshape([*inputs.shape[:2], -1])
        log_p = logsumexp(log_p[:, :, None] + step, axis=1)
        inputs = np.broadcast_to(STATES, [len(x), *STATES.shape])
    return logsumexp(log_p + log_likelihoods(model.decoder(STATES), y), axis=1)


def improvement(estimator, jit_compile, epochs):
    model = make_model(estimator)
    before = exact_log_likelihood(model, CONTEXT, TARGET).mean()
    model.compile(keras.optimizers.Adam(0.05), jit_compile=jit_compile, steps_per_execution=2)
    history = model.fit(CONTEXT, TARGET, batch_size=10, epochs=epochs, verbose=0).history
    assert set(history) == {"loss", "reconstruction", "bits_per_dim"}
    return exact_log_likelihood(model, CONTEXT, TARGET).mean() - before


def test_training_raises_the_exact_conditional_likelihood():
    assert improvement("vimco", jit_compile=False, epochs=30) > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("estimator", CASES)
def test_every_estimator_raises_the_exact_likelihood(estimator, jit_compile):
    assert improvement(estimator, jit_compile, epochs=60) > 0.15


def test_evaluation_is_discrete_and_has_no_gap():
    model = make_model("rloo", num_samples=3)
    model.compile("adam")
    found = model.evaluate(CONTEXT, TARGET, verbose=0, return_dict=True)
    assert set(found) == {"loss", "reconstruction", "bits_per_dim", "discretization_gap"}
    assert found["discretization_gap"] == 0.0
    with tfc.layers.inference_mode(model, "argmax"):
        losses = [model.evaluate(CONTEXT, TARGET, verbose=0)[0] for _ in range(2)]
    assert losses[0] == losses[1]


def test_the_baseline_reads_context_and_target():
    """It learns E[log p(y | z)] of an example, of which neither x nor y alone says enough."""
    model = make_model("nvil", num_latents=1, num_samples=20)
    for network in (*model.encoder, model.decoder):
        network.trainable = False
    assert [tuple(x.shape) for x in model.baseline.inputs] == [(None, 3), (None, 3)]
    model.compile(keras.optimizers.Adam(0.01))
    model.fit(CONTEXT, TARGET, batch_size=10, epochs=40, verbose=0)
    predicted = (
        np.asarray(model.baseline([tf.constant(CONTEXT), tf.constant(TARGET)]))[:, 0]
        + model._moments[0].numpy()
    )
    log_q = step_log_probs(model.encoder[0](CONTEXT)).numpy()
    values = log_likelihoods(model.decoder(STATES), TARGET)
    expected = (np.exp(log_q) * values).sum(1)
    assert np.square(predicted - expected).mean() < 0.5 * expected.var()


@pytest.mark.parametrize("built_late", [False, True])
def test_files_keep_everything(tmp_path, built_late):
    model = make_model("nvil", num_latents=1)
    if built_late:
        encoder = keras.Sequential([keras.layers.Dense(6), keras.layers.Reshape((2, 3))])
        model = tfc.models.ScoreFunctionPredictor(
            encoder, dense((2, 3), (3,), 5), layers.ConcreteSample(seed=0), estimator="nvil"
        )
    model.compile("adam")
    model.fit(CONTEXT, TARGET, verbose=0)
    assert model._moments[1].numpy() > 0
    model.save(tmp_path / "predictor.keras")
    again = keras.models.load_model(tmp_path / "predictor.keras")
    for old, new in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(old, new)
    assert int(again.optimizer.iterations) == int(model.optimizer.iterations)
    np.testing.assert_allclose(again.predict(CONTEXT, verbose=0), model.predict(CONTEXT, verbose=0))


def test_targets_that_are_class_numbers():
    model = tfc.models.ScoreFunctionPredictor(
        dense((3,), (2, 3), 0),
        dense((2, 3), (4,), 1),
        layers.ConcreteSample(seed=0),
        likelihood="categorical",
        estimator="nvil",
    )
    model.compile("adam")
    labels = np.arange(40) % 4
    assert np.isfinite(model.fit(CONTEXT, labels, verbose=0).history["loss"][0])


def test_a_baseline_of_ones_own(tmp_path):
    inputs = [keras.Input((3,)), keras.Input((3,))]
    baseline = keras.Model(inputs, keras.layers.Dense(1)(inputs[0]))
    model = make_model("nvil", baseline=baseline)
    model.compile("adam")
    model.fit(CONTEXT, TARGET, verbose=0)
    model.save(tmp_path / "own.keras")
    again = keras.models.load_model(tmp_path / "own.keras")
    np.testing.assert_array_equal(again.baseline.weights[0], baseline.weights[0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"estimator": "vimco", "num_samples": 1}, "at least 2"),
        ({"estimator": "disarm"}, '"rloo"'),
        ({"estimator": "rloo", "baseline": "a layer"}, "nvil"),
        ({"estimator": "nvil", "normalize": 1}, "`normalize`"),
        ({"estimator": "nvil", "decay": 2.0}, "`decay`"),
    ],
)
def test_what_is_refused(arguments, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make_model(**arguments)


def test_no_gaussian_units():
    x = keras.Input((3,))
    encoder = keras.Model(x, [dense((3,), (2, 2), i)(x) for i in range(2)])
    with pytest.raises(TypeError, match="IGRSample"):
        tfc.models.ScoreFunctionPredictor(encoder, dense((2, 3), (3,), 5), layers.IGRSample())


@keras.saving.register_keras_serializable("test_score_function_predictor")
class TwoNumbers(tfc.objectives.Likelihood):
    """Location and log scale of each number, one behind the other: `[n, 3]` from `[n, 6]`."""

    def params_shape(self, x_shape):
        return (*x_shape[:-1], 2 * x_shape[-1])

    def sum_log_prob(self, x, params, axes):
        loc, log_scale = tf.split(params, 2, -1)
        return -tf.reduce_sum(tf.square((x - loc) * tf.exp(-log_scale)) / 2 + log_scale, axes)

    def mean(self, params):
        return tf.split(params, 2, -1)[0]


def test_targets_that_the_outputs_do_not_tell():
    networks = dense((3,), (2, 3), 0), dense((2, 3), (6,), 1)
    arguments = {"likelihood": TwoNumbers(), "estimator": "nvil"}
    with pytest.raises(ValueError, match="`baseline`.*built"):
        tfc.models.ScoreFunctionPredictor(*networks, layers.ConcreteSample(), **arguments)
    inputs = [keras.Input((3,)), keras.Input((3,))]
    baseline = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Concatenate()(inputs)))
    model = tfc.models.ScoreFunctionPredictor(
        *networks, layers.ConcreteSample(), baseline=baseline, **arguments
    )
    model.compile("adam")
    assert np.isfinite(model.fit(CONTEXT, TARGET, verbose=0).history["loss"][0])


@pytest.mark.parametrize("built_late", [False, True])
def test_a_baseline_that_is_not_built_yet(tmp_path, built_late):
    baseline = keras.Sequential([keras.layers.Concatenate(), keras.layers.Dense(1)])
    encoder = dense((3,), (2, 3), 0)
    if built_late:
        encoder = keras.Sequential([keras.layers.Dense(6), keras.layers.Reshape((2, 3))])
    model = tfc.models.ScoreFunctionPredictor(
        encoder,
        dense((2, 3), (3,), 5),
        layers.ConcreteSample(seed=0),
        estimator="nvil",
        baseline=baseline,
    )
    model.compile("adam")
    model.fit(CONTEXT, TARGET, verbose=0)
    assert len(baseline.weights) == 2
    model.save(tmp_path / "late.keras")
    again = keras.models.load_model(tmp_path / "late.keras")
    assert len(again.weights) == len(model.weights)
    for old, new in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("kind", ["predictor", "vae"])
def test_baselines_that_do_not_fit(kind):
    def make(baseline):
        if kind == "predictor":
            return make_model("nvil", baseline=baseline)
        networks = dense((3,), (2, 3), 0), dense((2, 3), (3,), 5)
        latent = layers.ConcreteSample(seed=0)
        arguments = {"estimator": "nvil", "baseline": baseline}
        return tfc.models.ScoreFunctionVAE(*networks, latent, **arguments)

    count = 2 if kind == "predictor" else 1
    inputs = [keras.Input((3,)) for _ in range(count)]
    merged = inputs[0] if count == 1 else keras.layers.Concatenate()(inputs)
    with pytest.raises(ValueError, match=r"`baseline`.*\[batch, 1\]"):
        make(keras.Model(inputs, keras.layers.Dense(3)(merged)))
    others = [keras.Input((3,)) for _ in range(3 - count)]
    merged = others[0] if count == 2 else keras.layers.Concatenate()(others)
    with pytest.raises(ValueError, match=f"`baseline`.*{count} inputs"):
        make(keras.Model(others, keras.layers.Dense(1)(merged)))


@pytest.mark.parametrize("estimator", ["nvil", "vimco"])
@pytest.mark.parametrize("named", [False, True])
def test_contexts_by_name(estimator, named):
    """The encoder picks its inputs by name or by key; the baseline reads the same ones."""
    names = ("b", "a") if named else (None, None)
    inputs = [keras.Input((n,), name=name) for n, name in zip((2, 1), names, strict=True)]
    hidden = keras.layers.Dense(6)(keras.layers.Concatenate()(inputs))
    given = inputs if named else dict(zip("ba", inputs, strict=True))
    encoder = keras.Model(given, keras.layers.Reshape((2, 3))(hidden))
    model = tfc.models.ScoreFunctionPredictor(
        encoder, dense((2, 3), (3,), 5), layers.ConcreteSample(seed=0), estimator=estimator
    )
    model.compile("adam")
    x = {"a": CONTEXT[:, :1], "b": CONTEXT[:, 1:]}
    assert np.isfinite(model.fit(x, TARGET, verbose=0).history["loss"][0])


def test_contexts_that_no_default_baseline_reads():
    tokens = keras.Input((None,), dtype="int32")
    hidden = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(5, 6)(tokens))
    encoder = keras.Model(tokens, keras.layers.Reshape((2, 3))(hidden))
    with pytest.raises(ValueError, match="`baseline`.*one's own"):
        tfc.models.ScoreFunctionPredictor(
            encoder, dense((2, 3), (3,), 5), layers.ConcreteSample(), estimator="nvil"
        )


@pytest.fixture
def float64():
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_dtype_policy("float32")


def test_nvil_in_double_precision(float64):
    model = make_model("nvil")
    model.compile("adam")
    assert np.isfinite(model.fit(CONTEXT, TARGET, verbose=0).history["loss"][0])
