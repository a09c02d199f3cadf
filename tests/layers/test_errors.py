"""Bad arguments are named when the layer is built, or first called."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

L = tfc.layers
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("temperature", [0, 0.0, -1, NAN, INF, -INF, 1e-60, lambda step: -1.0])
def test_temperature_values(masked_layer, temperature):
    with pytest.raises(
        ValueError,
        match=r"Invalid value received for argument `temperature`\. Expected .* Received: ",
    ):
        masked_layer.make(temperature=temperature)


@pytest.mark.parametrize("temperature", [None, "0.5", [0.5, 1.0], True])
def test_temperature_types(masked_layer, temperature):
    with pytest.raises(TypeError, match="`temperature`. Expected a positive finite number"):
        masked_layer.make(temperature=temperature)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: L.ConcreteSample(inference="mode"), ValueError, '"argmax", "sample", "probs"'),
        (lambda: L.ConcreteSample(inference=1), TypeError, "`inference`"),
        (lambda: L.ConcreteSample(hard="yes"), TypeError, "`hard`. Expected True or False"),
        (lambda: L.ConcreteSample(axis=0.5), TypeError, "`axis`. Expected a whole number"),
        (lambda: L.ConcreteSample(seed="a"), TypeError, "`seed`"),
        (lambda: L.ConcreteSample(seed=0.5), TypeError, "`seed`"),
        (lambda: L.BinConcreteSample(axis=0), ValueError, "axis"),
        (lambda: L.BinConcreteSample(levels=(1, 1)), ValueError, "`levels`"),
        (lambda: L.BinConcreteSample(levels=(0, 1, 2)), ValueError, "`levels`"),
        (lambda: L.BinConcreteSample(levels=(0, INF)), ValueError, "`levels`"),
        (lambda: L.BinConcreteSample(levels="ab"), TypeError, "`levels`"),
        (
            lambda: L.GapStraightThrough(gap=-1),
            ValueError,
            'argument `gap`. Expected a non-negative float or "pi". Received: gap=-1',
        ),
        (lambda: L.GapStraightThrough(gap="tau"), ValueError, "`gap`"),
        (lambda: L.GapStraightThrough(gap=NAN), ValueError, "`gap`"),
        (lambda: L.GumbelRao(num_samples=0), ValueError, "`num_samples`"),
        (lambda: L.GumbelRao(num_samples=1.5), TypeError, "`num_samples`"),
        (lambda: L.DistributionSample(None), TypeError, "`distribution`"),
        (lambda: L.DistributionSample(abs, prior=3), TypeError, "`prior`"),
        (lambda: L.DistributionSample(abs, kl_weight=-1), ValueError, "`kl_weight`"),
        (lambda: L.DistributionSample(abs, kl_samples=0), ValueError, "`kl_samples`"),
        (lambda: L.DistributionSample(abs, inference="x"), ValueError, "`inference`"),
        (lambda: L.HypercubeCode(6), ValueError, "`num_classes`. Expected a power of two"),
        (lambda: L.HypercubeCode(1), ValueError, "`num_classes`"),
        (lambda: L.Centering(decay=1.5), ValueError, "`decay`"),
        (lambda: L.ConcreteSample(temprature=1.0), ValueError, "Unrecognized keyword"),
    ],
)
def test_construction(make, error, message):
    with pytest.raises(error) as raised:
        make()
    assert message in str(raised.value)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    ("arguments", "shape", "dtype", "mask", "message"),
    [
        ({}, [2, 3], "int32", None, "`logits`. Expected floating-point"),
        ({}, [2, 1], "float32", None, "`logits`. Expected at least two classes"),
        ({"axis": 1}, [2, 1, 3], "float32", None, "`logits`. Expected at least two classes"),
        ({"axis": 2}, [2, 3], "float32", None, "`axis`. Expected an axis of logits of rank 2"),
        ({"axis": -3}, [2, 3], "float32", None, "`axis`. Expected an axis of logits of rank 2"),
        ({}, [2, 3], "float32", np.ones([2, 3]), "`class_mask`. Expected a boolean mask"),
        ({}, [2, 3], "float32", np.ones([2, 3], int), "`class_mask`. Expected a boolean"),
        ({}, [2, 3], "float32", np.ones([2, 4], bool), "`class_mask`. Expected a shape"),
        ({}, [2, 3], "float32", np.ones([1, 2, 3], bool), "`class_mask`. Expected a shape"),
    ],
)
def test_calls(arguments, shape, dtype, mask, message, symbolic):
    layer = tfc.GapStraightThrough(**arguments)
    logits = keras.Input(batch_shape=shape, dtype=dtype) if symbolic else tf.ones(shape, dtype)
    with pytest.raises((ValueError, TypeError)) as raised:
        layer(logits, class_mask=mask)
    assert message in str(raised.value)


def test_unbroadcastable_symbolic_mask():
    with pytest.raises(ValueError, match="`class_mask`"):
        tfc.ConcreteSample()(keras.Input([3]), keras.Input([4], dtype="bool"))


def test_the_axis_of_a_hypercube_code():
    with pytest.raises(ValueError, match="`inputs`"):
        L.HypercubeCode(4)(tf.ones([2, 3, 8]))


def test_a_layer_that_returns_no_distribution():
    with pytest.raises(TypeError, match="returns a TFP distribution"):
        L.DistributionSample(tf.identity)(tf.ones([2, 3]))


@pytest.mark.parametrize(
    "logits",
    [
        [[0.0, 1.0]],
        [np.zeros([1, 2], np.float32)],
        {"logits": np.zeros([1, 2], np.float32)},
        tf.ragged.constant([[0.0, 1.0], [2.0]]),
        tf.sparse.from_dense(tf.ones([1, 2])),
        None,
    ],
    ids=["numbers", "list", "dict", "ragged", "sparse", "none"],
)
def test_what_is_no_dense_tensor_is_named(logits):
    with pytest.raises(TypeError, match="argument `logits`"):
        tfc.ConcreteSample()(logits)


@pytest.mark.parametrize(
    "params",
    [[[0.0, 1.0], [1.0, 2.0]], 1.0, None, {"loc": np.zeros([1, 2], np.float32)}],
    ids=["numbers", "number", "none", "dict"],
)
def test_what_is_no_pair_of_tensors_is_named(params):
    with pytest.raises(TypeError, match="argument `params`"):
        tfc.IGRSample()(params)


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (tfc.layers.HypercubeCode(2), "inputs"),
        (tfc.layers.Centering(), "inputs"),
        (tfc.layers.Codes(), "samples"),
    ],
)
def test_layers_after_the_samples_name_what_is_no_dense_tensor(layer, name):
    ragged = tf.RaggedTensor.from_row_lengths(tf.zeros([3, 2]), [1, 2])
    for value in (ragged, tf.sparse.from_dense(tf.ones([1, 2, 2])), tf.zeros([1, 2, 2], tf.int32)):
        with pytest.raises(TypeError, match=f"argument `{name}`"):
            layer(value)
