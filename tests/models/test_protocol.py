"""What models refuse, count or warn about instead of ignoring it."""

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import tfconcrete as tfc
from tfconcrete.models.data import stack_check

layers = tfc.layers
X = np.random.default_rng(0).integers(0, 2, [32, 6]).astype("float32")


def dense(inputs, outputs, **kwargs):
    return keras.Sequential(
        [
            keras.Input(inputs, **kwargs),
            keras.layers.Flatten(),
            keras.layers.Dense(int(np.prod(outputs))),
            keras.layers.Reshape(outputs),
        ]
    )


def vae(latent=None, **kwargs):
    latent = latent or tfc.ConcreteSample(0.5, seed=0, name="z")
    return tfc.models.DiscreteVAE(dense((6,), (2, 3)), dense((2, 3), (6,)), latent, **kwargs)


def joint(**kwargs):
    x = keras.Input((6,))
    encoder = keras.Model(x, [keras.layers.Dense(n)(x) for n in (3, 2, 2)])
    z = [keras.Input((3,)), keras.Input((2,))]
    decoder = keras.Model(z, keras.layers.Dense(6)(keras.layers.Concatenate()(z)))
    latent = kwargs.pop("latent", None) or tfc.ConcreteSample(seed=0, name="z")
    return tfc.models.JointVAE(encoder, decoder, latent, **kwargs)


def test_a_second_kl_is_refused():
    x = keras.Input((6,))
    encoder = keras.Model(x, [keras.layers.Dense(3)(x), keras.layers.Dense(3)(x)])
    latent = tfc.IGRSample(kl_weight=0.5)
    with pytest.raises(ValueError, match="kl_weight"):
        tfc.models.DiscreteVAE(encoder, dense((4,), (6,)), latent)


@pytest.mark.parametrize("argument", [{"num_samples": 5}, {"beta": 2.0}])
def test_joint_vae_refuses_what_it_would_ignore(argument):
    with pytest.raises(ValueError, match=next(iter(argument))):
        joint(**argument)


def test_temperatures_that_would_be_ignored_are_refused():
    with pytest.raises(TypeError, match="assign `layer.temperature`"):
        tfc.ConcreteSample(temperature=tf.Variable(0.5))
    layer = tfc.ConcreteSample(temperature=tfc.schedules.Constant(0.5))
    with pytest.raises(ValueError, match="schedule"):
        layer.temperature = 0.1


def test_weights_move_between_layers_with_and_without_a_schedule(tmp_path):
    def make(layer):
        inputs = keras.Input([6])
        hidden = keras.layers.Dense(3, name="logits")(inputs)
        return keras.Model(inputs, layer(hidden))

    schedule = tfc.schedules.ExponentialAnnealing(1.0, 0.1, 0.1)
    kinds = {
        "plain": lambda: tfc.ConcreteSample(0.3, name="z"),
        "scheduled": lambda: tfc.ConcreteSample(schedule, name="z"),
        "softmax": lambda: keras.layers.Softmax(name="z"),
    }
    for source, make_source in kinds.items():
        model = make(make_source())
        path = tmp_path / f"{source}.weights.h5"
        model.save_weights(path)
        for target in ("plain", "scheduled"):
            other = make(kinds[target]())
            other.load_weights(path)
            np.testing.assert_array_equal(
                other.get_layer("logits").kernel, model.get_layer("logits").kernel
            )
            kept = {"plain": 0.3, "scheduled": 1.0}[target if source == "softmax" else source]
            np.testing.assert_allclose(other.get_layer("z").temperature.numpy(), kept)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("as_dataset", [False, True])
@pytest.mark.parametrize("scale", [(255.0, 0.0), (2.0, -1.0)])
def test_bernoulli_data_outside_the_unit_interval(scale, as_dataset, jit_compile):
    if as_dataset and jit_compile and scale[1] == 0.0:
        pytest.skip("the same as with the other scale")
    x = X * scale[0] + scale[1]
    model = vae()
    model.compile("adam", jit_compile=jit_compile)
    data = tf.data.Dataset.from_tensor_slices(x).batch(8) if as_dataset else x
    for run in (model.fit, model.evaluate):
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="1/255"):
            run(data, verbose=0)


def test_likelihoods_of_data_outside_the_unit_interval():
    with pytest.raises(ValueError, match="`x`.*1/255"):
        vae().log_likelihood(2.0 * X - 1.0, num_samples=2, verbose=0)
    with pytest.raises(ValueError, match=r"`x`.*\(examples, 6\)"):
        vae().log_likelihood(X[:, :5], num_samples=2, verbose=0)
    predictor = tfc.models.StructuredPredictor(
        dense((6,), (5,)), dense((5,), (6,)), layers.BinConcreteSample(seed=0)
    )
    with pytest.raises(ValueError, match="`y`.*1/255"):
        predictor.log_likelihood(X, 255.0 * X, num_samples=2, verbose=0)


def test_bytes_and_categories_out_of_range():
    model = vae()
    model.compile("adam")
    with pytest.raises(ValueError, match="`x`.*1/255"):
        model.fit((X * 255).astype("uint8"), verbose=0)
    encoder, decoder = dense((6,), (2, 3)), dense((2, 3), (6, 4))
    latent = tfc.ConcreteSample(seed=0)
    model = tfc.models.DiscreteVAE(encoder, decoder, latent, likelihood="categorical")
    model.compile("adam")
    for wrong in (4.0, -1.0):
        with pytest.raises(ValueError, match="from 0 to 3"):
            model.fit(np.full([8, 6], wrong, "float32"), verbose=0)


@pytest.mark.parametrize(
    ("limits", "dtype", "good", "bad"),
    [
        ((0.0, 1.0), "bool", [True, False], None),
        ((0.0, 1.0), "uint8", [0, 1], 255),
        ((0.0, np.inf), "int32", [0, 2**31 - 1], -1),
        ((0.0, np.inf), "float16", [0.0, 6e4], -1.0),
        ((0, 299), "uint8", [0, 255], None),
        ((0, 299), "int8", [0, 127], -1),
        ((0, 299), "int64", [0, 299], 300),
    ],
)
def test_limits_are_compared_in_every_dtype(limits, dtype, good, bad):
    check = stack_check((*limits, "Scale"), target=0)
    check(tf.constant(good, dtype))
    if bad is not None:
        with pytest.raises(tf.errors.InvalidArgumentError, match="Scale"):
            check(tf.constant([*good, bad], dtype))


def test_binary_data_may_be_booleans():
    losses = []
    for data in (X, X.astype(bool)):
        model = vae()
        model.compile("adam")
        model.encoder.set_weights([np.ones_like(w) for w in model.encoder.get_weights()])
        model.decoder.set_weights([np.ones_like(w) for w in model.decoder.get_weights()])
        losses.append(model.evaluate(tf.data.Dataset.from_tensors(data), verbose=0))
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-6)


def test_categories_out_of_range_have_no_probability():
    likelihood = tfc.objectives.Categorical()
    logits = np.random.default_rng(1).normal(size=[3, 2, 4]).astype("float32")
    x = np.array([[0, 3], [4, 0], [1, -1]])
    found = likelihood.log_prob(tf.constant(x), tf.constant(logits)).numpy()
    log_probs = scipy.special.log_softmax(logits, -1)
    np.testing.assert_allclose(found[0], log_probs[0, 0, 0] + log_probs[0, 1, 3], rtol=1e-5)
    np.testing.assert_array_equal(found[1:], -np.inf)


def test_an_impossible_class_that_is_not_observed():
    likelihood = tfc.objectives.Categorical()
    logits = tf.Variable([[[0.0, 1.0, -np.inf]]])
    with tf.GradientTape() as tape:
        found = likelihood.log_prob(tf.constant([[1]]), logits)
    np.testing.assert_allclose(found, np.log(np.e / (1 + np.e)), rtol=1e-6)
    assert np.all(np.isfinite(tape.gradient(found, logits)))


def test_rows_of_weight_zero_do_not_drive_the_penalties():
    x = tf.constant(X)
    weights = np.r_[np.ones(16), np.zeros(16)].astype("float32")
    gradients = []
    for rows, weight in ((x, weights), (tf.concat([x[:16], 1.0 - x[16:]], 0), weights)):
        keras.utils.set_random_seed(0)
        model = joint(seed=1, gamma=7.0)
        with tf.GradientTape() as tape:
            loss = model.training_loss(rows, sample_weight=weight)
        gradients.append(tape.gradient(loss, model.trainable_weights))
    for first, second in zip(*gradients, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-6)


def test_one_seed_for_two_latents_of_a_model():
    """Their noises must differ, or the bound is wrong."""
    encoders = [dense((6,), (5,)), dense((5,), (5,))]
    decoders = [dense((5,), (6,)), dense((5,), (5,))]
    latents = [layers.BinConcreteSample(seed=7), layers.BinConcreteSample(seed=7)]
    model = tfc.models.DiscreteVAE(encoders, decoders, latents)
    with tfc.layers.record_calls() as calls:
        model.training_terms(tf.constant(X), None)
    noises = [
        np.log(v / (1 - v)) * 2 / 3 - p
        for _, p, v in ((c[0], c[1].numpy(), c[2].numpy()) for c in calls)
    ]
    correlation = np.corrcoef(noises[0].ravel(), noises[1].ravel())[0, 1]
    assert abs(correlation) < 4.5 / np.sqrt(noises[0].size)


def test_one_seed_for_two_layers_of_a_functional_model():
    inputs = keras.Input([4])
    first, second = tfc.ConcreteSample(seed=3), tfc.ConcreteSample(seed=3)
    model = keras.Model(inputs, [first(inputs), second(inputs)])
    logits = np.zeros([50, 4], "float32")
    together = [np.asarray(z) for z in model(logits, training=True)]
    assert np.abs(together[0] - together[1]).max() > 0.1
    alone = [np.asarray(tfc.ConcreteSample(seed=3)(logits, training=True)) for _ in range(2)]
    np.testing.assert_array_equal(*alone)


def test_generate_reads_the_whole_seed():
    model = tfc.models.StructuredPredictor(
        dense((6,), (5,)), dense((5,), (6,)), layers.BinConcreteSample(seed=0)
    )
    seeds = [[1, 0], [1, 1], [-1, 0], [2**31 - 1, 0]]
    outputs = [model.generate(X, seed=tf.constant(seed, tf.int32)) for seed in seeds]
    for i in range(len(seeds)):
        for j in range(i):
            assert np.abs(outputs[i] - outputs[j]).max() > 1e-3, (seeds[i], seeds[j])
    generator = keras.random.SeedGenerator(0)
    first, second = (model.generate(X, seed=generator) for _ in range(2))
    assert np.abs(first - second).max() > 1e-3
    np.testing.assert_allclose(
        model.generate(X, seed=3, batch_size=5), model.generate(X, seed=3), rtol=1e-5
    )


def test_keras_export_names_the_right_function(tmp_path):
    model = vae()
    model.compile("adam")
    model.fit(X, verbose=0)
    with pytest.raises(NotImplementedError, match="save_discrete"):
        model.export(tmp_path / "m")


def test_joint_vae_encodes_its_gaussian():
    model = joint(seed=0)
    codes, continuous = model.encode(X, continuous=True)
    np.testing.assert_array_equal(codes, model.encode(X))
    np.testing.assert_allclose(continuous, model.encoder(X)[1], rtol=1e-5)
    expected = model.predict(X, verbose=0)
    np.testing.assert_allclose(model.decode(codes, continuous), expected, rtol=1e-4)


def test_joint_vae_decodes_what_fits():
    model = joint(seed=0)
    codes, continuous = model.encode(X, continuous=True)
    for wrong in (continuous[:3], continuous[:, :1], continuous.astype(str)):
        with pytest.raises(ValueError, match=r"`continuous`.*\(32, 2\)"):
            model.decode(codes, wrong)
    with pytest.raises(ValueError, match="`codes`.*whole numbers"):
        model.decode(codes + 0.5, continuous)


def test_variables_that_would_be_read_once_are_refused():
    with pytest.raises(TypeError, match="`prior_logits`.*read once"):
        vae(prior_logits=tf.Variable(tf.zeros([2, 3])))
    with pytest.raises(TypeError, match="`value`"):
        tfc.schedules.Constant(tf.Variable(0.5))


def test_scheduler_functions_of_the_present_temperature():
    layer = tfc.ConcreteSample(1.0, name="z")
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(3), layer])
    model.compile("sgd", "mse")
    scheduler = tfc.callbacks.TemperatureScheduler(lambda epoch, temperature: temperature * 0.5)
    x = np.ones([4, 3])
    history = model.fit(x, x, epochs=3, callbacks=[scheduler], verbose=0).history
    np.testing.assert_allclose(history["temperature"], [0.5, 0.25, 0.125])


def test_sparse_callbacks_write_their_columns(tmp_path):
    model = vae()
    model.compile("adam")
    callbacks = [
        tfc.callbacks.DiscretizationGap(X, every=2),
        tfc.callbacks.GradientDiagnostics(X, every=2, num_samples=2),
        keras.callbacks.CSVLogger(tmp_path / "log.csv"),
    ]
    model.fit(X, epochs=3, callbacks=callbacks, verbose=0)
    header, *rows = (tmp_path / "log.csv").read_text().splitlines()
    columns = header.split(",")
    assert {"discretization_gap", "argmax_gap", "gradient_variance"} <= set(columns)
    table = [dict(zip(columns, row.split(","), strict=True)) for row in rows]
    assert [row["argmax_gap"] == "NA" for row in table] == [False, True, False]


def test_the_gap_of_serving_the_argmax():
    """Straight-through samples are exact draws: what serving loses is argmax against draws."""
    model = vae(tfc.GapStraightThrough(seed=0, name="z"))
    model.compile("adam")
    gap = tfc.diagnostics.discretization_gap(model, X)
    np.testing.assert_allclose(gap.gap["loss"], 0.0, atol=1e-4)
    logits = model.encoder(X).numpy()
    hot = np.eye(3)[logits.argmax(-1)].astype("float32")
    expected = -model.likelihood.log_prob(tf.constant(X), model.decoder(hot)).numpy().mean()
    np.testing.assert_allclose(gap.argmax["reconstruction"], expected, rtol=1e-5)
    kl = tfc.objectives.categorical_kl(logits, np.zeros_like(logits)).numpy().sum(-1).mean()
    np.testing.assert_allclose(gap.argmax["kl"], kl, rtol=1e-4)
    np.testing.assert_allclose(
        gap.argmax_gap["loss"], gap.argmax["loss"] - gap.discrete["loss"], rtol=1e-6
    )


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ([X, X], "`x`"),
        ({"x": X}, "`x`"),
        (tf.RaggedTensor.from_tensor(X), "`x`"),
        (tf.sparse.from_dense(X), "`x`"),
        (X[:, :5], "`x`.*6"),
    ],
)
def test_data_of_the_wrong_kind_are_named(data, match):
    model = vae()
    model.compile("adam")
    with pytest.raises((TypeError, ValueError), match=match):
        model.fit(data, verbose=0)


@pytest.mark.parametrize(
    "data", [{"x": X}, tf.RaggedTensor.from_tensor(X), tf.sparse.from_dense(X), None, "x"]
)
def test_encode_names_what_is_no_array(data):
    for model in (vae(), joint()):
        with pytest.raises(TypeError, match="argument `x`"):
            model.encode(data)


def test_encode_takes_a_dataset():
    model = vae()
    found = model.encode(tf.data.Dataset.from_tensor_slices(X).batch(5))
    np.testing.assert_array_equal(found, np.argmax(model.encoder(X), -1))


@pytest.mark.parametrize("as_dataset", [False, True])
def test_targets_of_the_wrong_kind_are_named(as_dataset):
    model = tfc.models.StructuredPredictor(
        dense((6,), (3,)), dense((3,), (2, 2, 1)), layers.BinConcreteSample()
    )
    model.compile("adam")
    y = np.zeros([32, 2, 2, 1], "float32")
    for wrong, match in ((y[..., 0], r"`y`.*2, 2, 1.*\((32|None), 2, 2\)"), ({"y": y}, "`y`")):
        data = (tf.data.Dataset.from_tensor_slices((X, wrong)).batch(8),)
        with pytest.raises((TypeError, ValueError), match=match):
            model.fit(*(data if as_dataset else (X, wrong)), verbose=0)


@pytest.mark.parametrize("as_dataset", [False, True])
def test_greys_are_no_categories(as_dataset):
    encoder, decoder = dense((6,), (2, 3)), dense((2, 3), (6, 4))
    model = tfc.models.DiscreteVAE(encoder, decoder, tfc.ConcreteSample(), likelihood="categorical")
    model.compile("adam")
    data = tf.data.Dataset.from_tensors(0.5 * X) if as_dataset else 0.5 * X
    error = tf.errors.InvalidArgumentError if as_dataset else ValueError
    with pytest.raises(error, match="whole numbers from 0 to 3. Number the classes"):
        model.fit(data, verbose=0)


def test_images_without_their_channel_are_named():
    encoder, decoder = dense((4, 4, 1), (3,)), dense((3,), (4, 4, 1))
    model = tfc.models.DiscreteVAE(encoder, decoder, tfc.ConcreteSample())
    model.compile("adam")
    with pytest.raises(ValueError, match=r"`x`.*\(examples, 4, 4, 1\).*\(8, 4, 4\)"):
        model.fit(np.zeros([8, 4, 4], "float32"), verbose=0)


@pytest.mark.parametrize(
    "logits",
    [
        [tf.zeros([2, 3]), tf.zeros([2, 3])],
        {"logits": tf.zeros([2, 3])},
        tf.RaggedTensor.from_tensor(tf.zeros([2, 3])),
        tf.sparse.from_dense(tf.ones([2, 3])),
    ],
)
def test_layers_name_inputs_of_the_wrong_kind(logits):
    with pytest.raises((TypeError, ValueError), match="`logits`"):
        tfc.ConcreteSample()(logits)


def test_a_mask_by_keras_name_is_named():
    with pytest.raises(TypeError, match="class_mask"):
        tfc.ConcreteSample()(tf.zeros([2, 3]), mask=tf.constant([True, True, False]))


@pytest.mark.parametrize("training", [True, False])
def test_a_choice_over_time_respects_the_sequence_mask(training):
    tokens = keras.Input([5], dtype="int32")
    hidden = keras.layers.Embedding(7, 4, mask_zero=True)(tokens)
    scores = keras.layers.Dense(1)(hidden)
    model = keras.Model(tokens, tfc.GapStraightThrough(axis=1, seed=0)(scores))
    x = np.array([[1, 2, 0, 0, 0], [3, 0, 0, 0, 0], [1, 2, 3, 4, 5]] * 20)
    choice = np.asarray(model(x, training=training))[..., 0]
    np.testing.assert_array_equal(choice.sum(1), 1.0)
    assert not choice[x == 0].any()


def test_nan_data_have_no_code():
    model = vae()
    x = X.copy()
    x[0, 0] = np.nan
    codes = model.encode(x)
    assert np.all(codes[0] == -1) and np.all(codes[1:] >= 0)
    assert np.all(np.isnan(model.predict(x, verbose=0)[0]))
    empty = model.decode(np.full([1, 2], -1, "int32"))
    expected = tf.sigmoid(model.decoder(np.zeros([1, 2, 3], "float32")))
    np.testing.assert_allclose(empty, expected, rtol=1e-6)
    for wrong in (3, -2):
        with pytest.raises(ValueError, match="`codes`"):
            model.decode(np.full([1, 2], wrong, "int32"))
        assert np.all(np.isnan(model.decode_tensors(tf.constant([[wrong, 0]]))))
