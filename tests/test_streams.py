"""No two reads of one call share a random word, for everything that takes a seed."""

import inspect

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc
from tests.streams import overlaps
from tfconcrete._seeds import RowSeeds, Stream, as_seed, fold_in, random_words, split
from tfconcrete._streams import Read, record_reads

SEED = tf.constant([3, -4])


def logits(*shape):
    return tf.constant(np.random.default_rng(0).normal(size=shape), tf.float32)


def objective(sample, log_q):
    return tf.reduce_sum(sample[..., 0], axis=-1) + 0.0 * log_q


def _straight_through_family(module, name, **kwargs):
    def call(num_classes):
        return getattr(module, name)(logits(4, 3, num_classes), 0.5, seed=SEED, **kwargs)

    return call


def _score_function(name, **kwargs):
    def call(num_classes):
        estimate = getattr(tfc.estimators, name)
        return estimate(objective, logits(4, 3, num_classes), seed=SEED, **kwargs)

    return call


def _normal(*shape):
    return tfp.distributions.Normal(tf.zeros(shape), 1.0)


r, e, n = tfc.relaxations, tfc.estimators, tfc.noise
# From a number of classes to a call of the public function of that name.
CALLS = {
    n: {
        "uniform": lambda k: n.uniform([3, k], SEED),
        "gumbel": lambda k: n.gumbel([3, k], SEED),
        "logistic": lambda k: n.logistic([3, k], SEED),
        "normal": lambda k: n.normal([3, k], SEED),
        "gumbel_given_winner": lambda k: n.gumbel_given_winner(
            logits(2, k), tf.one_hot([0, 1], k), num_samples=3, seed=SEED
        ),
    },
    r: {
        "concrete": _straight_through_family(r, "concrete"),
        "exp_concrete": _straight_through_family(r, "exp_concrete"),
        "bin_concrete": _straight_through_family(r, "bin_concrete"),
        "logit_bin_concrete": _straight_through_family(r, "logit_bin_concrete"),
        "categorical": lambda k: r.categorical(logits(4, 3, k), seed=SEED),
        "k_subset": lambda k: r.k_subset(logits(4, 3, k), 2, seed=SEED),
        "relaxed_k_subset": lambda k: r.relaxed_k_subset(logits(4, 3, k), 2, 0.5, seed=SEED),
        "distinct_concrete": lambda k: r.distinct_concrete(logits(4, k), 0.5, seed=SEED),
        "relaxed_top_k": lambda k: r.relaxed_top_k(logits(4, 3, k), 2, 0.5, seed=SEED),
        "binary_from_quantile": lambda k: r.binary_from_quantile(
            logits(4, k), 0.5, _normal(), seed=SEED
        ),
        "igr": lambda k: r.igr(logits(4, k), logits(4, k), 0.5, seed=SEED),
        "igr_and_truncation": lambda k: r.igr_and_truncation(
            logits(4, k), logits(4, k), 0.5, "stick_breaking", precision=0.9, seed=SEED
        ),
    },
    e: {
        "bin_concrete_straight_through": _straight_through_family(
            e, "bin_concrete_straight_through"
        ),
        "straight_through": _straight_through_family(e, "straight_through"),
        "straight_through_gumbel_softmax": _straight_through_family(
            e, "straight_through_gumbel_softmax"
        ),
        "straight_through_k_subset": lambda k: e.straight_through_k_subset(
            logits(4, 3, k), 2, seed=SEED
        ),
        "straight_through_gumbel_top_k": lambda k: e.straight_through_gumbel_top_k(
            logits(4, 3, k), 2, 0.5, seed=SEED
        ),
        "gumbel_softmax": _straight_through_family(e, "gumbel_softmax", hard=True),
        "gumbel_rao": _straight_through_family(e, "gumbel_rao", num_samples=25),
        "gapped_straight_through": _straight_through_family(e, "gapped_straight_through"),
        "reinmax": _straight_through_family(e, "reinmax"),
        "sample_and_log_prob": lambda k: e.sample_and_log_prob(
            logits(4, 3, k), num_samples=5, seed=SEED
        ),
        "reinforce": _score_function("reinforce", num_samples=3),
        "nvil": _score_function("nvil", num_samples=3),
        "vimco": _score_function("vimco", num_samples=3),
        "rloo": _score_function("rloo", num_samples=3),
        "disarm": lambda k: e.disarm(objective, logits(4, 3, k), seed=SEED),
        "disarm_tree": _score_function("disarm_tree", num_samples=4),
    },
}
CASES = [(module, name) for module, calls in CALLS.items() for name in calls]
# Draws by TFP's own sampler, with the whole seed.
ELSEWHERE = {"binary_from_quantile"}


def test_every_function_that_takes_a_seed_is_here():
    for module, calls in CALLS.items():
        public = {
            name
            for name in module.__all__
            if callable(getattr(module, name))
            and "seed" in inspect.signature(getattr(module, name)).parameters
        }
        assert public == set(calls), module.__name__


@pytest.mark.parametrize("num_classes", [5, 100])
@pytest.mark.parametrize(("module", "name"), CASES, ids=lambda x: x if isinstance(x, str) else "")
def test_a_call_and_its_gradient_read_no_word_twice(module, name, num_classes, monkeypatch):
    with record_reads() as reads, tf.GradientTape() as tape:
        variable = tf.Variable(logits(4, 3, num_classes))
        monkeypatch.setitem(globals(), "logits", lambda *shape: _first(variable, shape))
        outputs = CALLS[module][name](num_classes)
        tape.gradient([x for x in tf.nest.flatten(outputs) if x is not None], variable)
    assert bool(reads) != (name in ELSEWHERE)
    assert not overlaps(reads)


def _first(variable, shape):
    """As many entries of a variable as a shape needs, so that the gradient is taken too."""
    return tf.reshape(tf.reshape(variable, [-1])[: int(np.prod(shape))], shape)


D = tfc.distributions
LAWS = {
    "Concrete": lambda: D.Concrete(0.5, logits=logits(3, 100)),
    "ExpConcrete": lambda: D.ExpConcrete(0.5, logits=logits(3, 100)),
    "BinConcrete": lambda: D.BinConcrete(0.5, logits=logits(3, 100)),
    "LogitBinConcrete": lambda: D.LogitBinConcrete(0.5, logits=logits(3, 100)),
    "LogisticNormal": lambda: D.LogisticNormal(logits(3, 100), tf.ones([3, 100]), 0.5),
    "IGR": lambda: D.IGR(logits(3, 100), tf.ones([3, 100]), 0.5, "stick_breaking", precision=0.99),
    "KSubset": lambda: D.KSubset(4, logits(3, 100)),
}


@pytest.mark.parametrize("name", D.__all__)
def test_distributions_read_no_word_twice(name):
    law = LAWS[name]()
    draws = [law.sample, law.experimental_sample_and_log_prob]
    if name == "IGR":
        draws += [law.sample_with_truncation, lambda shape, seed: law.discrete(50, seed)]
    for draw in draws:
        with record_reads() as reads:
            draw([4], seed=SEED)
        assert reads and not overlaps(reads)


# The other rooms. What compares temperatures does so on one noise, and reads it again for
# each of them: here there is one.
ELSEWHERE_CALLS = {
    "bijectors.PlanarFlow.create": lambda: tfc.bijectors.PlanarFlow.create(4, 3, seed=SEED),
    "diagnostics.relaxation_gradients": lambda: tfc.diagnostics.relaxation_gradients(
        "igr", 0.5, np.zeros(3), np.ones(3), num_samples=50, seed=SEED
    ),
    "diagnostics.compare_relaxations": lambda: tfc.diagnostics.compare_relaxations(
        [(0.5, 0.1)], num_classes=3, num_samples=50, seed=SEED
    ),
    "diagnostics.numeric_report": lambda: tfc.diagnostics.numeric_report(
        tfc.layers.GumbelRao(num_samples=25), 100, 0.5, num_samples=5, seed=SEED
    ),
    "objectives.streamed_bound": lambda: tfc.objectives.streamed_bound(
        lambda chunk, seed: tfc.noise.uniform([chunk, 3], seed), 25, 10, SEED
    ),
}


@pytest.mark.parametrize("name", ELSEWHERE_CALLS)
def test_calls_of_other_rooms_read_no_word_twice(name):
    with record_reads() as reads:
        ELSEWHERE_CALLS[name]()
    assert reads and not overlaps(reads)


def test_every_seed_of_the_other_rooms_is_here():
    """`calibration` draws the same noise at each temperature that it tries, on purpose."""
    found = {
        f"{room}.{name}"
        for room in ("bijectors", "diagnostics", "objectives", "schedules", "plots")
        for name in getattr(tfc, room).__all__
        if "seed" in _arguments(getattr(getattr(tfc, room), name))
    }
    assert found | {"bijectors.PlanarFlow.create"} == set(ELSEWHERE_CALLS)


def _arguments(value):
    return inspect.signature(value).parameters if callable(value) else ()


def test_an_overlap_would_be_seen():
    seed = as_seed(1)
    with record_reads() as reads:
        random_words([2, 4], seed)  # blocks 0 and 1
        random_words([4], seed, Stream.BLOCK)
        fold_in(seed, 0)
    assert reads == [
        Read("Philox", 1, Stream.NOISE, 0, 2),
        Read("Philox", 1, Stream.BLOCK, 0, 1),
        Read("Philox", 1, Stream.FOLD, 0, 1),
    ]
    assert not overlaps(reads)
    with record_reads() as more:
        random_words([1], seed)
        split(seed, 2)
    assert len(overlaps(reads + more)) == 2


def test_reads_of_a_traced_function_are_noted_when_it_runs():
    @tf.function
    def draw(seed, rows):
        tfc.noise.uniform([rows, 4], seed)
        return tfc.noise.uniform([3, 2], RowSeeds(tf.stack([seed, seed + 1, seed + 2])))

    with record_reads() as reads:
        draw(tf.constant([5, 0]), tf.constant(3))
        draw(tf.constant([9, 1]), tf.constant(7))
    assert {read for read in reads if read.generator == "Philox"} == {
        Read("Philox", 5, 0, 0, 3),
        Read("Philox", 9 + 2**32, 0, 0, 7),
    }
    assert len([read for read in reads if read.generator == "SplitMix64"]) == 6


def test_streams_have_different_numbers():
    assert len({stream.value for stream in Stream.__members__.values()}) == len(Stream.__members__)
