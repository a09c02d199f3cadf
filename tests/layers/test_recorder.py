"""Codes of all sampling layers of a model, wherever they are in it."""

import threading

import keras
import numpy as np
import tensorflow as tf

import tfconcrete as tfc

LOGITS = tf.random.stateless_normal([5, 4], [0, 1])


def test_codes_of_every_layer(masked_layer):
    case = masked_layer
    layer = case.make(name="z")
    with tfc.layers.record_codes() as records:
        output = layer(case.inputs(LOGITS))
        layer(case.inputs(LOGITS), training=True)
    assert [name for name, _ in records] == ["z"]
    codes = records[0][1]
    assert codes.dtype == tf.int32
    value = case.simplex(output)
    expected = value if case.is_binary else value.argmax(-1)
    np.testing.assert_array_equal(tf.reshape(codes, expected.shape), expected)
    before = len(records)
    layer(case.inputs(LOGITS))
    assert len(records) == before


def test_call_order_in_nested_and_traced_models():
    inner = keras.Sequential([keras.Input([4]), tfc.ConcreteSample(name="inner")])
    inputs = keras.Input([4])
    shared = tfc.GapStraightThrough(name="shared")
    outputs = shared(inner(shared(inputs)))
    model = keras.Model(inputs, outputs)

    @tf.function
    def serve(x):
        with tfc.layers.record_codes() as records:
            model(x)
        return {f"{i}_{name}": codes for i, (name, codes) in enumerate(records)}

    codes = serve(LOGITS)
    assert sorted(codes) == ["0_shared", "1_inner", "2_shared"]
    np.testing.assert_array_equal(codes["2_shared"], np.argmax(LOGITS, -1))


def test_a_distribution_has_codes_where_it_is_discrete():
    def posterior(logits):
        return tfc.distributions.ExpConcrete(0.5, logits=logits)

    layer = tfc.layers.DistributionSample(posterior, prior=posterior, name="d")
    with tfc.layers.record_codes() as records:
        layer(LOGITS)
    np.testing.assert_array_equal(records[0][1], np.argmax(LOGITS, -1))
    assert layer.losses, "recording codes only records"
    with tfc.layers.inference_mode(layer, "serving"):
        layer(LOGITS)
    assert not layer.losses, "an export needs no KL"


def test_other_threads_and_nesting():
    layer = tfc.ConcreteSample(name="z")
    with tfc.layers.record_codes() as outer:
        thread = threading.Thread(target=lambda: layer(LOGITS))
        thread.start()
        thread.join()
        with tfc.layers.record_codes() as inner:
            layer(LOGITS)
        layer(LOGITS)
    assert len(inner) == len(outer) == 1
    layer(LOGITS)
    assert len(outer) == 1


def test_argmax_needs_no_random_op_and_no_state():
    layer = tfc.ConcreteSample()
    function = tf.function(lambda x: layer(x)).get_concrete_function(LOGITS)
    operations = {op.type for op in function.graph.get_operations()}
    assert not {name for name in operations if "Random" in name or "Assign" in name}
    assert not {"Bitcast", "BitwiseAnd"} & operations


def test_modes_are_restored():
    layer = tfc.ConcreteSample(inference="probs", seed=0)
    model = keras.Sequential([layer])
    state = layer.seed_generator.state.numpy()
    with tfc.layers.preserved_state(model):
        with tfc.layers.inference_mode(model, "relaxed"):
            relaxed = model(LOGITS).numpy()
        with tfc.layers.inference_mode(model, "discrete"):
            discrete = model(LOGITS).numpy()
    assert len(np.unique(relaxed)) > 2 and set(np.unique(discrete)) == {0.0, 1.0}
    np.testing.assert_allclose(model(LOGITS), tf.nn.softmax(LOGITS), rtol=1e-6)
    np.testing.assert_array_equal(layer.seed_generator.state.numpy(), state)
