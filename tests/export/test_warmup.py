"""The warm-up file: requests that the artifact itself can answer."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.export.small import FEATURES, functional, images, vae
from tfconcrete.export import warmup

pytest.importorskip("tensorflow_serving")
from tensorflow_serving.apis import prediction_log_pb2


def records(path):
    """The requests in a warm-up file in order: model, signature and arrays."""
    file = path / "assets.extra" / "tf_serving_warmup_requests"
    for record in tf.data.TFRecordDataset(str(file)):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        request = log.predict_log.request
        arrays = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        yield request.model_spec.name, request.model_spec.signature_name, arrays


def requests(path):
    """The requests in a warm-up file by signature, which has one: model and arrays."""
    return {signature: (name, arrays) for name, signature, arrays in records(path)}


def test_every_signature_of_a_vae_has_a_request_that_runs(tmp_path):
    model, x = vae(), images(4)
    path = tfc.export.save_discrete(model, tmp_path / "digits", warmup=x)
    found = requests(path)
    assert set(found) == {"serving_default", "encode", "decode", "generate"}
    served = tf.saved_model.load(str(path)).signatures
    for signature, (name, arrays) in found.items():
        assert name == "digits"
        answer = served[signature](**{key: tf.constant(x) for key, x in arrays.items()})
        assert all(len(value) == 4 for value in answer.values())
    np.testing.assert_array_equal(found["encode"][1]["image"], x)
    np.testing.assert_array_equal(found["decode"][1]["codes"], model.encode(x))
    assert tfc.export.inspect(path).servable


def test_many_examples_become_records_that_a_server_takes(tmp_path):
    x = images(300)
    path = tfc.export.save_discrete(functional(), tmp_path / "m", warmup=x)
    parts = [arrays["image"] for _, _, arrays in records(path)]
    assert [len(part) for part in parts] == [128, 128, 44]
    np.testing.assert_array_equal(np.concatenate(parts), x)


def test_more_records_than_a_server_reads_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(warmup, "MAX_ROWS", 1)
    with pytest.raises(ValueError, match="at most 1000 records.*Received: examples for 1001"):
        tfc.export.save_discrete(functional(), tmp_path / "m", warmup=images(1001))
    assert not (tmp_path / "m").exists()


def test_a_request_that_would_fail_the_load_stops_the_export(tmp_path):
    """Every record runs through the C++ loader before the version appears."""

    @keras.saving.register_keras_serializable("test_warmup")
    class Positive(keras.layers.Layer):
        def call(self, x):
            return tf.debugging.check_numerics(tf.math.log(x), "no logarithm")

    inputs = keras.Input([4], name="x")
    model = keras.Model(inputs, tfc.ConcreteSample(name="z")(Positive()(inputs)))
    x = np.ones([200, 4], np.float32)
    assert tfc.export.save_discrete(model, tmp_path / "m", warmup=x).name == "1"
    x[150] = 0.0  # in the second record
    with pytest.raises(RuntimeError, match="Not exported.*warm-up.*: no logarithm"):
        tfc.export.save_discrete(model, tmp_path / "m", warmup=x)
    assert [entry.name for entry in (tmp_path / "m").iterdir()] == ["1"]


def test_no_file_without_examples(tmp_path):
    path = tfc.export.save_discrete(functional(), tmp_path / "m")
    assert not (path / "assets.extra").exists()


def two_inputs():
    a, b = keras.Input([3], name="a"), keras.Input([4], dtype="int32", name="b")
    z = tfc.ConcreteSample(name="z")(a)
    return keras.Model([a, b], [z, keras.layers.Embedding(9, 2)(b)])


@pytest.mark.parametrize("as_dict", [True, False])
def test_several_inputs_in_their_dtypes(tmp_path, as_dict):
    a, b = np.zeros([2, 3]), np.ones([2, 4], np.int64)
    warmup = {"b": b, "a": a} if as_dict else [a, b]
    path = tfc.export.save_discrete(two_inputs(), tmp_path / "m", warmup=warmup)
    _, arrays = requests(path)["serving_default"]
    assert arrays["a"].dtype == np.float32 and arrays["b"].dtype == np.int32


WRONG = {
    "shape": np.zeros([2, FEATURES + 1]),
    "rank": np.zeros([FEATURES]),
    "dtype": np.array([["a"] * FEATURES]),
    "empty": np.zeros([0, FEATURES]),
    "name": {"picture": np.zeros([2, FEATURES])},
    "structure": [np.zeros([2, FEATURES])] * 2,
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_examples_leave_nothing(tmp_path, kind):
    with pytest.raises((ValueError, TypeError), match="argument `warmup`"):
        tfc.export.save_discrete(functional(), tmp_path / "m", warmup=WRONG[kind])
    assert not (tmp_path / "m").exists()


def test_the_missing_extra_is_named(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "tensorflow_serving.apis", None)
    with pytest.raises(ImportError, match=r"tfconcrete\[serving\]"):
        tfc.export.save_discrete(functional(), tmp_path / "m", warmup=images(1))
    assert not (tmp_path / "m").exists()
