"""Mistakes are named where they are made, in one wording."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.models.enumeration import PIXELS, dense, gaussian_encoder, make_data
from tfconcrete.models.data import check_data

layers = tfc.layers
VAE = tfc.models.DiscreteVAE
BAD_INPUT, BAD_OUTPUT = dense((3, 2), (PIXELS,), 1), dense((2, 3), (5,), 1)
ENCODER, DECODER = dense((PIXELS,), (2, 3), 0), dense((2, 3), (PIXELS,), 1)


def concrete():
    return layers.ConcreteSample(seed=0)


def with_prior(prior_logits):
    return VAE(ENCODER, DECODER, concrete(), prior_logits=prior_logits)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: VAE(ENCODER, BAD_INPUT, concrete()), r"`decoder`.*\(None, 2, 3\)"),
        (lambda: VAE(ENCODER, BAD_OUTPUT, concrete()), r"`decoder`.*\(batch, 6\)"),
        (lambda: VAE(dense((PIXELS,), (2, 1), 0), DECODER, concrete()), "two classes"),
        (lambda: VAE(gaussian_encoder(), DECODER, concrete()), "`encoder`"),
        (lambda: VAE(ENCODER, DECODER, layers.IGRSample()), r"\[loc, log_scale\]"),
        (lambda: VAE(ENCODER, DECODER, concrete(), num_samples=0), "`num_samples`.*at least 1"),
        (lambda: with_prior(np.zeros(4)), r"`prior_logits`.*\(4,\)"),
        (lambda: with_prior(np.zeros([5, 2, 3])), "`prior_logits`"),
        (lambda: with_prior("learned"), "trainable"),
        (lambda: with_prior(np.nan), "`prior_logits`"),
        (lambda: VAE(ENCODER, DECODER, concrete(), prior_temperature=0.0), "`prior_temperature`"),
        (lambda: VAE(ENCODER, DECODER, concrete(), likelihood="poisson"), "`likelihood`"),
        (lambda: VAE(ENCODER, DECODER, concrete(), beta=-1.0), "`beta`"),
        (lambda: VAE(ENCODER, DECODER, concrete(), kl="exact"), "`kl`"),
        (lambda: VAE([ENCODER], [DECODER], [concrete(), concrete()]), "equal length"),
        (
            lambda: VAE(
                [ENCODER, dense((2, 3), (2, 3), 2)],
                [DECODER, dense((2, 3), (3, 3), 3)],
                [concrete(), concrete()],
            ),
            r"decoder\[1\]",
        ),
        (lambda: tfc.models.JointVAE(ENCODER, DECODER, concrete()), "`encoder`"),
        (lambda: tfc.models.JointVAE(ENCODER, DECODER, concrete(), gamma=-1.0), "`gamma`"),
    ],
)
def test_bad_values_raise_when_the_model_is_made(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: VAE(ENCODER, DECODER, keras.layers.Dense(3)), "`latent`"),
        (lambda: VAE(lambda x: x, DECODER, concrete()), "`encoder`"),
        (lambda: VAE(ENCODER, DECODER, concrete(), num_samples=1.5), "`num_samples`"),
        (lambda: VAE(ENCODER, DECODER, concrete(), likelihood=3), "`likelihood`"),
        (lambda: tfc.models.JointVAE([ENCODER], DECODER, concrete()), "`encoder`"),
        (lambda: tfc.models.StructuredPredictor(ENCODER, [DECODER], concrete()), "`decoder`"),
        (
            lambda: tfc.models.ScoreFunctionVAE(gaussian_encoder(), DECODER, layers.IGRSample()),
            "`latent`",
        ),
    ],
)
def test_wrong_types_raise_when_the_model_is_made(make, words):
    with pytest.raises(TypeError, match=words):
        make()


@pytest.fixture(scope="module")
def model():
    model = VAE(ENCODER, DECODER, concrete())
    model.compile("adam")
    return model


def test_another_loss_or_metric_raises(model):
    for arguments in ({"loss": "mse"}, {"metrics": ["mae"]}):
        with pytest.raises(ValueError, match="own bound"):
            VAE(ENCODER, DECODER, concrete()).compile("adam", **arguments)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_in_arrays_is_named_before_the_first_step(model, bad):
    x = make_data(8)
    x[3, 2] = bad
    before = [w.numpy() for w in model.trainable_weights]
    for call in (
        lambda: model.fit(x, verbose=0),
        lambda: model.fit(make_data(8), validation_data=(x, None), verbose=0),
        lambda: model.evaluate(x, verbose=0),
        lambda: model.log_likelihood(x, 10, verbose=0),
    ):
        with pytest.raises(ValueError, match=r"without NaN or infinity.*index.*3, 2"):
            call()
    for weight, value in zip(model.trainable_weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_nan_in_a_dataset_is_named_also_under_xla(jit_compile):
    x = make_data(8)
    x[3, 2] = np.nan
    model = VAE(ENCODER, DECODER, concrete())
    model.compile("adam", jit_compile=jit_compile)
    data = tf.data.Dataset.from_tensor_slices(x).batch(8)
    with pytest.raises(tf.errors.InvalidArgumentError, match="without NaN or infinity"):
        model.fit(data, verbose=0)


class Batches(keras.utils.PyDataset):
    """Two batches; counts what Keras calls."""

    def __init__(self, x):
        super().__init__()
        self.x, self.epochs = x, 0

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return (self.x[4 * index : 4 * index + 4],)

    def on_epoch_end(self):
        self.epochs += 1


def generate(x):
    while True:
        yield from (Batches(x)[index] for index in range(2))


def none_beside(x):
    return ((*batch, None) for batch in generate(x))


@pytest.mark.parametrize("make", [Batches, generate, none_beside])
@pytest.mark.parametrize("steps_per_execution", [1, 2])
def test_batches_from_python_are_checked_under_xla(make, steps_per_execution):
    x = make_data(8)
    model = VAE(ENCODER, DECODER, concrete())
    model.compile("adam", jit_compile=True, steps_per_execution=steps_per_execution)
    before = [w.numpy() for w in model.trainable_weights]
    x[7, 2] = np.nan
    for bad, words in ((x, "without NaN or infinity"), (x[:4] + 2.0, "values from 0")):
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=words):
            model.evaluate(make(np.resize(bad, x.shape)), steps=2, verbose=0)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=words):
        model.fit(make(np.resize(bad, x.shape)), steps_per_epoch=2, verbose=0)
    for weight, value in zip(model.trainable_weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)


def test_a_checked_dataset_does_what_it_did():
    data = Batches(make_data(8))
    data.max_queue_size = 3
    checked = check_data(data, "x", jit_compile=True)
    assert checked.num_batches == 2 and checked.max_queue_size == 3
    np.testing.assert_array_equal(checked[1][0], data[1][0])
    checked.on_epoch_end()
    assert data.epochs == 1


def test_data_of_the_wrong_shape_raise(model):
    with pytest.raises(ValueError):
        model.fit(np.zeros([4, 5], np.float32), verbose=0)


@pytest.mark.parametrize(
    "codes, words",
    [
        (np.zeros([4, 3], np.int32), "shape"),
        (np.zeros([4, 2], np.float32), "whole numbers from 0 to 2"),
        (np.full([4, 2], 3), "from 3 to 3"),
    ],
)
def test_codes_that_are_none(model, codes, words):
    with pytest.raises(ValueError, match=words):
        model.decode(codes)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"estimator": "vimco", "num_samples": 1}, "at least 2"),
        ({"estimator": "disarm_tree", "num_samples": 3}, "even"),
        ({"estimator": "disarm"}, "disarm_tree"),
        ({"estimator": "muprop"}, "`estimator`"),
        ({"estimator": "rloo", "baseline": DECODER}, "nvil"),
    ],
)
def test_score_function_models_say_what_they_need(arguments, words):
    with pytest.raises(ValueError, match=words):
        tfc.models.ScoreFunctionVAE(ENCODER, DECODER, concrete(), **arguments)


def test_no_disarm_for_stacks():
    with pytest.raises(ValueError, match='"vimco".*stack'):
        tfc.models.ScoreFunctionVAE(
            [ENCODER, dense((2, 3), (2, 3), 2)],
            [DECODER, dense((2, 3), (2, 3), 3)],
            [concrete(), concrete()],
            estimator="disarm_tree",
        )
