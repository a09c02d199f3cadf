"""No two draws of a layer's calls, or of one model's step, read the same random words."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.layers.conftest import TABLE
from tfconcrete._streams import record_reads

layers = tfc.layers
LOGITS = tf.zeros([3, 5])
X = tf.constant(np.random.default_rng(0).integers(0, 2, [4, 6]), tf.float32)


def assert_disjoint(reads):
    assert reads
    by_stream = {}
    for read in reads:
        by_stream.setdefault((read.generator, read.key, read.stream), []).append(read)
    for stream, found in by_stream.items():
        spans = sorted((read.first, read.end) for read in found)
        for (_, end), (first, _) in itertools.pairwise(spans):
            assert end <= first, f"{stream} is read twice: {spans}"


# TFP draws for a `DistributionSample` in its own way, and its Monte Carlo KL repeats itself
# outside training on purpose.
OWN_NOISE = [case for case in TABLE if case.has_mask]


@pytest.mark.parametrize("case", OWN_NOISE, ids=lambda case: case.name)
def test_the_calls_of_a_layer(case):
    layer = case.make(inference="sample", seed=0)
    inputs = tf.nest.map_structure(tf.Variable, case.inputs(LOGITS))
    with record_reads() as reads:
        for _ in range(3):
            with tf.GradientTape() as tape:
                sample = layer(inputs, training=True)
            tape.gradient(sample, inputs)
            layer(inputs)
    assert_disjoint(reads)


def dense(inputs, outputs):
    return keras.Sequential([keras.Input((inputs,)), keras.layers.Dense(outputs)])


def stack():
    latents = [layers.BinConcreteSample(seed=7), layers.BinConcreteSample(seed=7)]
    return tfc.models.DiscreteVAE(
        [dense(6, 4), dense(4, 3)], [dense(4, 6), dense(3, 4)], latents, num_samples=2
    )


def joint():
    x = keras.Input((6,))
    encoder = keras.Model(x, [keras.layers.Dense(n)(x) for n in (3, 2, 2)])
    z = [keras.Input((3,)), keras.Input((2,))]
    decoder = keras.Model(z, keras.layers.Dense(6)(keras.layers.Concatenate()(z)))
    return tfc.models.JointVAE(encoder, decoder, tfc.ConcreteSample(seed=7), seed=7)


def predictor():
    latents = [layers.BinConcreteSample(seed=7), layers.BinConcreteSample(seed=7)]
    return tfc.models.StructuredPredictor([dense(6, 4), dense(4, 3)], dense(3, 6), latents)


def score_function_predictor():
    latents = [layers.BinConcreteSample(seed=7), layers.BinConcreteSample(seed=7)]
    networks = [dense(6, 4), dense(4, 3)], dense(3, 6)
    return tfc.models.ScoreFunctionPredictor(*networks, latents, estimator="nvil")


def score_function():
    return tfc.models.ScoreFunctionVAE(dense(6, 4), dense(4, 6), layers.BinConcreteSample(seed=7))


PREDICTORS = (predictor, score_function_predictor)
MODELS = (stack, joint, score_function, *PREDICTORS)


@pytest.mark.parametrize("make", MODELS)
def test_the_steps_of_a_model(make):
    model = make()
    with record_reads() as reads:
        for _ in range(2):
            model.training_loss(X, X)
    assert_disjoint(reads)


class TwoCodes(tfc.models.BoundModel):
    """A model of a user's, whose latents have one seed."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = dense(6, 3), dense(3, 6)
        self.codes = [tfc.ConcreteSample(seed=7), tfc.GapStraightThrough(seed=7)]
        self.built = True

    def training_terms(self, x, y):
        logits = self.encoder(x)
        value = sum(code.sample(logits).value for code in self.codes)
        return {"loss": -self.likelihood.log_prob(x, self.decoder(value))}

    def discrete_terms(self, x, y):
        logits = self.encoder(x)
        draws = [code.variable.draw(logits, seed=code.next_seed()) for code in self.codes]
        loss = -self.likelihood.log_prob(x, self.decoder(sum(draws)))
        return {"loss": loss, "relaxed_loss": loss}


@pytest.mark.parametrize("step", ["training_loss", "train_step", "test_step"])
def test_twins_in_a_model_of_a_user(step):
    model = TwoCodes()
    model.compile("sgd")
    with record_reads() as reads:
        for _ in range(2):
            getattr(model, step)(X)
    assert len(reads) >= 4
    assert_disjoint(reads)


def test_twins_in_a_functional_model():
    inputs = keras.Input([5])
    hidden = [
        tfc.ConcreteSample(seed=7)(inputs),
        tfc.GapStraightThrough(seed=7)(inputs),
        layers.GumbelRao(seed=7, num_samples=3)(inputs),
    ]
    model = keras.Model(inputs, hidden)
    with record_reads() as reads:
        for _ in range(2):
            model(LOGITS, training=True)
    assert_disjoint(reads)


@pytest.fixture
def eager_functions():
    """Compiled methods run eagerly: XLA's programs tell nobody what they read."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.mark.parametrize("make", MODELS)
def test_likelihoods_of_many_chunks_and_batches(make, eager_functions):
    model = make()
    x = (X, X) if make in PREDICTORS else (X,)
    with record_reads() as reads:
        model.log_likelihood(*x, num_samples=7, chunk=3, seed=5, batch_size=2, verbose=0)
    assert_disjoint(reads)


@pytest.mark.parametrize("make", MODELS)
def test_generated_batches(make, eager_functions):
    model = make()
    with record_reads() as reads:
        model.generate(X if make in PREDICTORS else 5, seed=5, batch_size=2)
    assert_disjoint(reads)


@pytest.mark.parametrize("make", [stack, joint])
def test_generated_rows(make):
    model = make()
    seeds = tf.constant([[1, 2], [1, 3], [-1, 2]], tf.int32)
    with record_reads() as reads:
        model.generate_tensors(seeds)
    assert_disjoint(reads)
