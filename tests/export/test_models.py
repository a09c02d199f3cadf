"""The signatures of the models in `tfc.models`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.export.small import vae

FEATURES = 9
SEEDS = np.arange(12, dtype=np.int32).reshape(6, 2)


def network(size, units, shape=None):
    layers = [keras.Input(size), keras.layers.Flatten(), keras.layers.Dense(units)]
    return keras.Sequential(layers + ([keras.layers.Reshape(shape)] if shape else []))


def stack():
    return tfc.models.DiscreteVAE(
        [network([FEATURES], 6, [2, 3]), network([2, 3], 4)],
        [network([2, 3], FEATURES), network([4], 6, [2, 3])],
        [tfc.ConcreteSample(name="a"), tfc.layers.BinConcreteSample(name="b")],
    )


def joint():
    x = keras.Input([FEATURES], name="picture")
    z = [keras.Input([3]), keras.Input([2])]
    return tfc.models.JointVAE(
        keras.Model(x, [keras.layers.Dense(n)(x) for n in (3, 2, 2)]),
        keras.Model(z, keras.layers.Dense(FEATURES)(keras.layers.Concatenate()(z))),
        tfc.ConcreteSample(name="z"),
    )


def igr():
    x = keras.Input([FEATURES])
    heads = [keras.layers.Reshape([2, 3])(keras.layers.Dense(6)(x)) for _ in range(2)]
    decoder = network([2, 4], FEATURES)
    return tfc.models.DiscreteVAE(keras.Model(x, heads), decoder, tfc.layers.IGRSample(name="z"))


def score_function():
    latent = tfc.layers.BinConcreteSample(name="z", hard=True)
    return tfc.models.ScoreFunctionVAE(
        network([FEATURES], 5), network([5], FEATURES), latent, estimator="reinforce"
    )


def predictor(kind=tfc.models.StructuredPredictor):
    latents = [tfc.layers.BinConcreteSample(name="a"), tfc.ConcreteSample(name="b")]
    return kind([network([FEATURES], 5), network([5], 4)], network([4], 3), latents)


def exp_concrete():
    return tfc.models.DiscreteVAE(
        network([FEATURES], 6, [2, 3]), network([2, 3], FEATURES), tfc.ExpConcreteSample(name="z")
    )


@pytest.fixture
def x():
    return np.random.default_rng(0).random([6, FEATURES], np.float32).round()


def export(model, folder):
    """The signatures, as functions from arrays to arrays, and the report."""
    path = tfc.export.save_discrete(model, folder / "model")
    loaded = tf.saved_model.load(str(path))

    def run(signature, **inputs):
        answer = loaded.signatures[signature](
            **{name: tf.constant(value) for name, value in inputs.items()}
        )
        return {name: value.numpy() for name, value in answer.items()}

    return run, tfc.export.inspect(path)


def check_nothing_draws(report):
    """`generate` computes its noise from the request's seeds with ordinary ops."""
    assert report.servable, str(report)
    drawing = [name for name, signature in report.signatures.items() if signature.random_ops]
    assert drawing == []
    assert not any(signature.assignments for signature in report.signatures.values())
    assert not any("cannot be batched" in note for note in report.notes)


@pytest.mark.parametrize("make", [stack, igr, score_function, exp_concrete])
def test_vaes(make, tmp_path, x):
    model = make()
    run, report = export(model, tmp_path)
    check_nothing_draws(report)
    codes = model.encode(x)
    answer = run("encode", x=x)
    if isinstance(codes, list):
        for name, level in zip(["codes", "codes_1"], codes, strict=True):
            np.testing.assert_array_equal(answer[name], level)
        codes = codes[0]
    np.testing.assert_array_equal(answer["codes"], codes)
    decoded = run("decode", codes=codes)["images"]
    np.testing.assert_allclose(decoded, model.decode(codes), atol=1e-6)
    reconstruction = run("serving_default", x=x)["reconstruction"]
    np.testing.assert_allclose(reconstruction, model.predict(x, verbose=0), atol=1e-6)


@pytest.mark.parametrize("make", [stack, igr, joint])
def test_generate_does_not_depend_on_the_batch(make, tmp_path):
    run, _ = export(make(), tmp_path)
    together = run("generate", seeds=SEEDS)["images"]
    for rows in ([3], [5, 3, 3], [0, 1]):
        part = run("generate", seeds=SEEDS[rows])["images"]
        np.testing.assert_allclose(part, together[rows], atol=1e-6)
    assert len(np.unique(together.round(4), axis=0)) > 1


def test_generate_draws_from_the_prior(tmp_path):
    """The share of each code over many seeds is the prior's, by an exact decoder."""
    prior = np.log([[0.5, 0.3, 0.15, 0.05]] * 3).astype(np.float32)
    model = vae(prior_logits=prior)
    # The decoder shows the one-hot codes themselves, through the sigmoid.
    model.decoder.layers[-1].kernel.assign(50 * np.eye(12))
    model.decoder.layers[-1].bias.assign(np.full([12], -25.0))
    run, _ = export(model, tmp_path)
    rows = 4_000
    seeds = np.stack([np.zeros(rows), np.arange(rows)], 1).astype(np.int32)
    draws = run("generate", seeds=seeds)["images"].reshape([rows, 3, 4]).round()
    assert np.all(draws.sum(-1) == 1)
    shares, expected = draws.mean(0), np.exp(prior)
    error = np.sqrt(expected * (1 - expected) / rows)
    assert np.all(np.abs(shares - expected) < 4.5 * error)
    # Neighbouring seeds and variables of a row are independent.
    centred = draws[:, :, 0] - 0.5
    for product in (centred[:, 0] * centred[:, 1], centred[1:, 0] * centred[:-1, 0]):
        assert abs(product.mean()) < 4.5 * 0.25 / np.sqrt(rows - 1)


def test_joint_vae_carries_its_gaussian(tmp_path, x):
    model = joint()
    run, report = export(model, tmp_path)
    check_nothing_draws(report)
    answer = run("encode", picture=x)
    decoded = run("decode", **answer)["images"]
    np.testing.assert_allclose(decoded, model.predict(x, verbose=0), atol=1e-6)
    assert report.signatures["decode"].inputs["continuous"].shape == (None, 2)


@pytest.mark.parametrize(
    "kind", [tfc.models.StructuredPredictor, tfc.models.ScoreFunctionPredictor]
)
def test_structured_predictor(tmp_path, x, kind):
    model = predictor(kind)
    run, report = export(model, tmp_path)
    check_nothing_draws(report)
    answer = run("serving_default", x=x)
    assert sorted(answer) == ["a_codes", "b_codes", "prediction"]
    np.testing.assert_allclose(answer["prediction"], model.predict(x, verbose=0), atol=1e-6)
    together = run("generate", x=x, seeds=SEEDS)["prediction"]
    alone = run("generate", x=x[4:5], seeds=SEEDS[4:5])["prediction"]
    np.testing.assert_allclose(alone, together[4:5], atol=1e-6)


def test_a_model_restored_from_a_keras_file(tmp_path, x):
    model = exp_concrete()
    model.save(tmp_path / "model.keras")
    run, _ = export(keras.saving.load_model(tmp_path / "model.keras"), tmp_path)
    np.testing.assert_array_equal(run("encode", x=x)["codes"], model.encode(x))


def test_a_vae_that_does_not_know_its_input_yet(tmp_path):
    encoder = keras.Sequential([keras.layers.Dense(6), keras.layers.Reshape([2, 3])])
    decoder = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(FEATURES)])
    model = tfc.models.DiscreteVAE(encoder, decoder, tfc.ConcreteSample(name="z"))
    with pytest.raises(ValueError, match="has not been built"):
        tfc.export.save_discrete(model, tmp_path / "model")
    model.build((None, FEATURES))
    run, _ = export(model, tmp_path)
    assert run("encode", x=np.ones([2, FEATURES], np.float32))["codes"].shape == (2, 2)
