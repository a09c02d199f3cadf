"""Steps as one program, and arrays as datasets: the same training as step by step."""

import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.models.enumeration import PIXELS, make_data, make_networks
from tfconcrete.models import compiled_steps
from tfconcrete.models.compiled_steps import CompiledSteps
from tfconcrete.models.data import array_batches

X = make_data(43)


def make_model(cls=tfc.models.DiscreteVAE, **compile_options):
    keras.utils.set_random_seed(0)
    schedule = tfc.schedules.ExponentialAnnealing(1.0, 0.1, 0.05)
    layer = tfc.ConcreteSample(schedule, seed=0)
    model = cls(*make_networks(layer)[:2], layer)
    model.compile(keras.optimizers.SGD(0.1), **compile_options)
    return model


def batches(sizes):
    """Batches of given sizes, one after another from the data."""

    def generate():
        start = 0
        for size in sizes:
            yield X[start : start + size]
            start += size

    spec = tf.TensorSpec([None, PIXELS])
    data = tf.data.Dataset.from_generator(generate, output_signature=spec)
    return data.apply(tf.data.experimental.assert_cardinality(len(sizes)))


class Steps(keras.callbacks.Callback):
    """The last step of each execution, and its running loss."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append((batch, float(logs["loss"])))


@pytest.fixture(scope="module")
def step_by_step():
    """Weights and logs of two epochs without XLA, one step a time."""
    found = {}

    def train(sizes):
        if sizes not in found:
            model, steps = make_model(), Steps()
            data = batches(sizes)
            history = model.fit(data, epochs=2, verbose=0, callbacks=[steps], validation_data=data)
            found[sizes] = model.get_weights(), history.history, dict(steps.seen)
        return found[sizes]

    return train


# A ragged end, other sizes between, and fewer steps than an execution has.
RAGGED, MIXED, FEW = (8, 8, 8, 8, 8, 3), (8, 8, 5, 5, 8, 5), (8,)
ALL_HELD, SOME_HELD = 2**26, 20 * PIXELS * 4


@pytest.mark.parametrize(
    ("sizes", "held"),
    [
        (MIXED, SOME_HELD),
        pytest.param(FEW, ALL_HELD, marks=pytest.mark.slow),
        pytest.param(RAGGED, ALL_HELD, marks=pytest.mark.slow),
        pytest.param(RAGGED, SOME_HELD, marks=pytest.mark.slow),
        pytest.param(MIXED, ALL_HELD, marks=pytest.mark.slow),
        pytest.param(FEW, SOME_HELD, marks=pytest.mark.slow),
    ],
)
def test_the_same_weights_and_logs(sizes, held, step_by_step, monkeypatch):
    monkeypatch.setattr(compiled_steps, "_HELD_BYTES", held)
    model, steps = make_model(jit_compile=True, steps_per_execution=4), Steps()
    data = batches(sizes)
    history = model.fit(data, epochs=2, verbose=0, callbacks=[steps], validation_data=data).history
    assert isinstance(model.train_function, CompiledSteps)
    assert isinstance(model.test_function, CompiledSteps)
    weights, expected, losses = step_by_step(sizes)
    for value, reference in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_allclose(value, reference, atol=2e-5)
    assert set(history) == set(expected)
    for name, values in history.items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-4, atol=1e-4, err_msg=name)
    assert [step for step, _ in steps.seen] == 2 * list(range(3, len(sizes) + 3, 4))
    assert int(model.optimizer.iterations) == 2 * len(sizes)
    np.testing.assert_allclose(steps.seen[-1][1], losses[len(sizes) - 1], rtol=1e-4)


def test_when_keras_does_the_steps():
    class Own(tfc.models.DiscreteVAE):
        def train_step(self, data):
            return {**super().train_step(data), "own": tf.constant(7.0)}

    model = make_model(Own, jit_compile=True, steps_per_execution=2)
    assert model.fit(X, verbose=0).history["own"] == [7.0]
    assert not isinstance(model.train_function, CompiledSteps)
    for options in (
        {"jit_compile": False, "steps_per_execution": 2},
        {"jit_compile": True, "steps_per_execution": 1},
        {"run_eagerly": True, "jit_compile": False, "steps_per_execution": 2},
    ):
        model = make_model(**options)
        assert not isinstance(model.make_train_function(), CompiledSteps)


def test_one_batch_by_hand():
    model = make_model(jit_compile=True, steps_per_execution=4)
    for function in (model.train_on_batch, model.test_on_batch):
        with pytest.raises(ValueError, match="values from 0"):
            function(X[:8] + 2.0)
    first = model.train_on_batch(X[:8], return_dict=True)
    assert np.isfinite(first["loss"]) and int(model.optimizer.iterations) == 1
    assert np.isfinite(model.test_on_batch(X[:8], return_dict=True)["loss"])


def test_a_network_that_knows_its_input_by_the_data_alone():
    encoder = keras.Sequential([keras.layers.Dense(6), keras.layers.Reshape([2, 3])])
    decoder = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(PIXELS)])
    model = tfc.models.DiscreteVAE(encoder, decoder, tfc.ConcreteSample(seed=0))
    model.compile("adam", jit_compile=True, steps_per_execution=3)
    model.fit(X, batch_size=8, verbose=0)  # the last batch is smaller
    assert int(model.optimizer.iterations) == 6


def test_arrays_and_datasets_train_alike():
    by_array, by_dataset = make_model(), make_model()
    weight = np.linspace(0.0, 2.0, len(X), dtype=np.float32)
    by_array.fit(X, X, 8, 2, 0, sample_weight=weight, shuffle=False)
    data = tf.data.Dataset.from_tensor_slices((X, X, weight)).batch(8)
    by_dataset.fit(data, epochs=2, verbose=0)
    for value, reference in zip(by_array.get_weights(), by_dataset.get_weights(), strict=True):
        np.testing.assert_array_equal(value, reference)
    found = [model.evaluate(d, batch_size=b, verbose=0)
             for model, d, b in ((by_array, X, 8), (by_dataset, data, None))]  # fmt: skip
    assert np.isfinite(found).all()


def test_weights_without_labels_count():
    weight = np.zeros(len(X), np.float32)
    weight[:16] = 1.0
    other = np.where(weight[:, None] > 0, X, 1.0 - X)
    models = [make_model(), make_model()]
    for model, x in zip(models, (X, other), strict=True):
        model.fit(x, batch_size=8, sample_weight=weight, shuffle=False, verbose=0)
    for value, reference in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_array_equal(value, reference)
    found = [
        model.evaluate(x, sample_weight=weight, batch_size=8, verbose=0)[0]
        for model, x in zip(models, (X, other), strict=True)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "compile_options",
    [
        {},
        pytest.param({"jit_compile": True, "steps_per_execution": 3}, marks=pytest.mark.slow),
    ],
)
def test_arrays_are_let_go(compile_options):
    """What read them from NumPy inside of TensorFlow would hold them for ever."""
    model = make_model(**compile_options)
    for use in (
        lambda x: model.fit(x, batch_size=8, verbose=0),
        lambda x: model.fit(x, batch_size=8, shuffle=False, validation_data=(x,), verbose=0),
        lambda x: model.evaluate(x, batch_size=8, verbose=0),
    ):
        array = X.copy()
        alive = weakref.ref(array)
        use(array)
        del array
        gc.collect()
        assert alive() is None


def test_what_keras_does_with_arrays_still_works():
    model = make_model()
    history = model.fit(X, batch_size=8, epochs=2, validation_split=0.25, verbose=0).history
    assert len(history["val_loss"]) == 2
    model.fit(X, steps_per_epoch=3, verbose=0)
    assert np.isfinite(model.evaluate(X, steps=2, batch_size=8, verbose=0)[0])


def test_every_example_once_an_epoch_in_a_new_order():
    rows = np.arange(50, dtype=np.int64)
    data = array_batches(rows, np.float64(rows), batch_size=8, shuffle=True)
    assert int(data.cardinality()) == 7
    orders = []
    for _ in range(3):
        x, y = zip(*data.as_numpy_iterator(), strict=True)
        assert [len(part) for part in x] == [8] * 6 + [2] and y[0].dtype == np.float32
        orders.append(np.concatenate(x))
        np.testing.assert_array_equal(np.concatenate(y), orders[-1])
        np.testing.assert_array_equal(np.sort(orders[-1]), rows)
    assert len({tuple(order) for order in orders}) == 3
    in_order = array_batches(rows, batch_size=20)
    np.testing.assert_array_equal(np.concatenate([x for (x,) in in_order]), rows)


@pytest.mark.parametrize(
    "given",
    [
        ([X],),
        ({"x": X},),
        (X, None, np.ones(43)),
        (X, np.ones(42)),
        (np.array(["a", "b"]),),
        (X, X, None, 8, "batch"),
    ],
)
def test_other_data_are_left_to_keras(given):
    assert array_batches(*given) is None
