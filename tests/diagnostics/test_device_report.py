"""`device_report` on functions whose way over a GPU is known."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

report = tfc.diagnostics.device_report
X = tf.zeros([4, 3])


def found(function, *example):
    """`(op type, reason)` of each finding."""
    findings = report(function, example).findings
    return [(finding.op.split("(")[0], finding.reason) for finding in findings]


def in_host(x):
    """A sum of int32 numbers, which only the host computes."""
    return tf.reduce_sum(tf.cast(x, tf.int32), -1)


HOST = [("Sum", "in host memory")]


def test_ops_that_the_device_computes_are_no_finding():
    def function(x):
        noise = tf.random.stateless_uniform(tf.shape(x), [1, 2])
        y = tf.matmul(tf.nn.softmax(x + noise), x, transpose_b=True)
        return tf.reshape(tf.sort(y, -1), [-1]), tf.argmax(y, -1)

    assert found(function, X) == []


def test_int32_arithmetic_is_in_host_memory():
    assert found(in_host, X) == HOST
    (finding,) = report(in_host, X).findings
    assert (finding.shape, finding.dtype, finding.num_bytes) == ((4, 3), "int32", 48)
    assert finding.op == "Sum(int32, int32)" and finding.step == "in_host"
    assert "test_device_report.py" in finding.source


def test_the_same_in_floats_or_in_int64_is_not():
    assert found(lambda x: tf.reduce_sum(x, -1), X) == []
    assert found(lambda x: tf.reduce_sum(tf.cast(x, tf.int64), -1), X) == []


def test_scalars_and_shapes_are_no_finding():
    def function(x, y):
        rows = tf.shape(x)[0] * tf.shape(y)[1] + 1 - tf.size(y)
        counted = tf.cast(tf.reduce_sum(x), tf.int32) + 1
        return tf.zeros(tf.stack([rows, 2])), tf.tile(x, tf.shape(y)), counted

    spec = tf.TensorSpec([None, None])
    graph = tf.function(function, input_signature=[spec, spec])
    assert found(graph, X, X) == []


def test_a_constant_for_the_device_that_lives_in_host_memory():
    def function(x):
        return tf.gather(x, tf.constant([2, 1, 1, 0], tf.int32), axis=-1)

    assert found(function, X) == [("GatherV2", "constant in host memory")]
    assert found(lambda x: tf.gather(x, tf.constant([2, 1], tf.int64), axis=-1), X) == []


def test_an_op_without_a_kernel():
    (finding,) = report(tf.strings.as_string, X).findings
    assert finding.op == "AsString(float32)" and finding.reason == "no GPU kernel"
    assert report(tf.strings.as_string, X, device="CPU").findings == ()


def test_arguments_and_results_are_copied_by_the_caller():
    codes = tf.zeros([4], tf.int32)
    assert found(lambda c: tf.one_hot(c, 3), codes) == []
    assert found(lambda x: tf.argmax(x, -1, tf.int32), X) == []
    assert found(lambda c: c + 1, codes) == [("AddV2", "in host memory")]


def test_variables_of_int32_are_held_by_the_host():
    variable = tf.Variable(tf.zeros([4], tf.int32))
    assert ("AssignAddVariableOp", "no GPU kernel") in found(
        lambda x: variable.assign_add(tf.cast(x[:, 0], tf.int32)), X
    )


def test_loops_branches_and_calls_are_entered():
    called = tf.function(in_host)

    def branch(x):
        return tf.cond(tf.reduce_sum(x) > 0.0, lambda: in_host(x), lambda: in_host(x + 1.0))

    def loop(x):
        for _ in tf.range(3):
            x += tf.cast(in_host(x), tf.float32)[:, tf.newaxis]
        return x

    assert found(lambda x: called(x), X) == HOST
    assert found(branch, X) == HOST * 2
    assert found(loop, X) == HOST
    assert report(loop, X).findings[0].name.startswith("while/")


def test_a_loop_variable_that_becomes_data_on_the_way():
    """Nothing in the first round depends on data, the second reads what the first wrote."""

    def loop(x):
        first = second = tf.zeros([4], tf.int32)
        for _ in tf.range(3):
            second = first * 2
            first = tf.cast(x[:, 0], tf.int32)
        return second

    assert found(loop, X) == [("Mul", "in host memory")]


def test_assertions_copy_only_what_failed():
    def function(x):
        tf.debugging.assert_positive(x)
        return x * 2.0

    assert found(function, X) == []


def test_what_nothing_reads_is_not_run():
    def function(x):
        in_host(x)
        return x + 1.0

    def printing(x):
        tf.print(in_host(x))
        return x + 1.0

    assert found(function, X) == []
    assert HOST[0] in found(printing, X)


def test_what_xla_compiles_is_named_and_left_alone():
    compiled = tf.function(in_host, jit_compile=True)
    whole = report(compiled, X)
    assert whole.findings == () and whole.compiled == ("in_host",)
    inner = report(lambda x: compiled(x + 1.0), X)
    assert inner.findings == () and len(inner.compiled) == 1
    assert "Compiled by XLA" in str(inner)


def test_a_layer_is_traced_with_its_gradient():
    class Rounded(keras.layers.Layer):
        def call(self, x, training=None):
            return tf.cast(in_host(x), tf.float32) if training else x

    steps = {finding.step for finding in report(Rounded(), X).findings}
    assert steps == {"training"}
    functional = keras.Sequential([keras.Input([3]), keras.layers.Dense(3), Rounded()])
    assert {finding.step for finding in report(functional, X).findings} == {"training"}


def test_what_a_gradient_does_with_the_one_before_it():
    """The upstream gradient is data: a constant would be folded, with all that is made of it."""

    class Rounding(keras.layers.Layer):
        def call(self, x):
            @tf.custom_gradient
            def rounding(x):
                return x + 0.0, lambda upstream: tf.cast(in_host(upstream), x.dtype)[:, tf.newaxis]

            return rounding(x)

    (finding,) = report(Rounding(), X).findings
    assert finding.op == "Sum(int32, int32)" and finding.step == "training"


def test_ops_that_the_user_placed_on_the_cpu():
    inner = tf.function(tf.exp)

    def on_cpu(x):
        with tf.device("CPU:0"):
            made = tf.zeros(tf.shape(x))
            total = tf.reduce_sum(x) + 1.0
            return inner(x) + made + total

    expected = ["Sum", "PartitionedCall", "AddV2", "AddV2"]
    assert sorted(found(on_cpu, X)) == sorted((op, "placed on the CPU") for op in expected)
    assert report(on_cpu, X, device="CPU").findings == ()


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_compiled_model_by_its_steps(jit_compile):
    def rounded(x):
        return x + tf.cast(in_host(x), tf.float32)[:, tf.newaxis]

    model = keras.Sequential([keras.layers.Dense(1), keras.layers.Lambda(rounded)])
    model.compile("adam", "mse", metrics=["mae"], jit_compile=jit_compile)
    y, weight = np.zeros([4], np.float32), np.ones([4], np.float32)
    for example in [(X, y), (X, y, weight)]:
        found = report(model, example)
        steps = ("train_step", "test_step", "predict_step")
        assert found.steps == steps
        assert found.compiled == (steps if jit_compile else ())
        assert {f.step for f in found.findings} == (set() if jit_compile else set(steps))


def test_arguments_by_place_by_name_and_as_specs():
    def function(x, temperature, codes=None):
        return in_host(x / temperature)

    for example in [(X, 0.5), (X, 0.5, None), {"x": X, "temperature": 0.5}]:
        assert [f.op for f in report(function, example).findings] == ["Sum(int32, int32)"]
    spec = tf.TensorSpec([None, 3])
    assert report(function, (spec, 0.5)).findings[0].shape == (None, 3)
    assert report(lambda d: in_host(d["x"]), {"x": X}).findings[0].num_bytes == 48
    ragged = tf.ragged.constant([[1.0, 2.0], [3.0]])
    assert report(lambda x: in_host(x.to_tensor()), ragged).num_ops


def test_layers_of_several_arguments():
    layer = tfc.ConcreteSample(hard=True, seed=0)
    mask = np.array([True, True, False])
    for example in [(X, mask), {"logits": X, "class_mask": mask}]:
        assert report(layer, example).findings == ()
    assert report(keras.layers.MultiHeadAttention(2, 3), (X[tf.newaxis], X[tf.newaxis])).num_ops


def test_the_gradient_of_a_loop():
    """It gives the loop inputs that are made after the loop."""
    found = report(keras.layers.SimpleRNN(3), tf.zeros([2, 5, 4]))
    assert found.steps == ("training", "inference") and found.findings == ()


def test_models_of_several_inputs_and_outputs():
    a, b = keras.Input([3], name="a"), keras.Input([3], name="b")
    outputs = [keras.layers.Dense(2, name="c")(a), keras.layers.Dense(1, name="d")(b)]
    y = {"c": np.zeros([4, 2]), "d": np.zeros([4, 1])}
    for inputs, x in [([a, b], [X, X]), ({"a": a, "b": b}, {"a": X, "b": X})]:
        model = keras.Model(inputs, outputs)
        assert report(model, x).steps == ("training", "inference")
        model.compile("sgd", {"c": "mse", "d": "mae"})
        assert report(model, (x, y)).findings == ()


def test_steps_and_datasets():
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(3), keras.layers.Dropout(0.5)])
    model.compile("sgd", "mse", jit_compile=True)
    alone = report(model.train_step, (X, X))
    assert alone.steps == ("train_step",) and alone.compiled == ()
    # Keras' own dropout: nobody's line of code but Keras' made it.
    (finding,) = alone.findings
    assert finding.op.startswith("StatelessRandomGetKeyCounter") and finding.source == ""
    batches = tf.data.Dataset.from_tensor_slices((X, X)).batch(2)
    assert len(report(model, batches).compiled) == 3


def test_strings():
    words = np.array(["a", "bb"])
    (finding,) = report(lambda x: tf.strings.length(x), words).findings
    assert finding.reason == "no GPU kernel" and finding.dtype == "int32"
    lookup = keras.layers.StringLookup(vocabulary=["a"])
    assert {f.step for f in report(lookup, words).findings} == {"training", "inference"}


def test_nothing_is_run_or_changed():
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(3), tfc.ConcreteSample()])
    model.compile("adam", "mse")
    before = [v.numpy() for v in model.variables]
    report(model, (X, X))
    for variable, value in zip(model.variables[: len(before)], before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)
    assert int(model.optimizer.iterations) == 0


def test_the_table():
    lines = str(report(in_host, X)).splitlines()
    assert lines[0] == "GPU, in_host: 4 ops, 1 that leave the device."
    assert lines[2].split("  ")[0] == "step" and "int32[4,3]" in lines[3] and "48" in lines[3]


def test_errors():
    with pytest.raises(ValueError, match="Invalid value received for argument `device`"):
        report(in_host, X, device="TPU")
    for value in (3, keras.layers.Dense):
        with pytest.raises(TypeError, match="Invalid value received for argument `fn_or_model`"):
            report(value, X)
    with pytest.raises(TypeError, match="Invalid value received for argument `example`"):
        report(in_host, keras.Input([3]))
