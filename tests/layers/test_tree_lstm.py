"""The latent-tree LSTM against plain transcriptions, its choices, its gradients, its loop."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

ESTIMATORS = {
    "stgs": lambda **kw: tfc.ConcreteSample(0.5, hard=True, **kw),
    "gumbel_rao": lambda **kw: tfc.layers.GumbelRao(0.5, num_samples=20, **kw),
    "gst": lambda **kw: tfc.GapStraightThrough(0.5, **kw),
    "gst_pi": lambda **kw: tfc.GapStraightThrough(0.5, gap="pi", **kw),
    "reinmax": lambda **kw: tfc.layers.ReinMax(1.0, **kw),
    "straight_through": lambda **kw: tfc.layers.StraightThrough(1.0, **kw),
}
LENGTHS = np.array([7, 4, 1, 2, 6, 3])


def make_tree(choice=None, units=5, features=3, leaf_lstm=False, seed=0, query_scale=1.0):
    """A built layer with weights large enough for its choices to differ."""
    keras.utils.set_random_seed(seed)
    tree = tfc.layers.LatentTreeLSTM(units, choice or ESTIMATORS["gst"](seed=1), leaf_lstm)
    tree.build((None, None, features))
    rng = np.random.default_rng(seed)
    tree.query.assign(query_scale * rng.normal(size=[units]))
    tree.bias.assign(rng.normal(size=[5 * units]))
    return tree


def make_inputs(lengths=LENGTHS, features=3, width=7, seed=0):
    """Sequences whose padding holds large numbers, and their mask."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=[len(lengths), width, features]).astype("float32")
    mask = np.arange(width) < lengths[:, None]
    x[~mask] = 50.0
    return tf.constant(x), tf.constant(mask)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_tree(tree, leaves):
    """One sequence of leaves `[length, 2 * units]`, merged greedily: its root and merges."""
    kernel, bias, query = (np.float64(w) for w in (tree.kernel, tree.bias, tree.query))
    nodes = [np.split(np.float64(leaf), 2) for leaf in leaves]
    merges = []
    while len(nodes) > 1:
        parents = []
        for (h_left, c_left), (h_right, c_right) in zip(nodes, nodes[1:], strict=False):
            i, f_left, f_right, u, o = np.split(
                np.concatenate([h_left, h_right]) @ kernel + bias, 5
            )
            c = sigmoid(f_left + 1) * c_left + sigmoid(f_right + 1) * c_right
            c += sigmoid(i) * np.tanh(u)
            parents.append((sigmoid(o) * np.tanh(c), c))
        position = int(np.argmax([h @ query for h, _ in parents]))
        nodes[position : position + 2] = [parents[position]]
        merges.append(position)
    return nodes[0][0], merges


@pytest.mark.parametrize("leaf_lstm", [False, True])
def test_greedy_trees_are_those_of_a_plain_transcription(leaf_lstm):
    tree = make_tree(leaf_lstm=leaf_lstm)
    x, mask = make_inputs()
    root, merges = tree(x, mask=mask)
    assert merges.dtype == tf.int32 and merges.shape == (6, 6)
    for row, length in enumerate(LENGTHS):
        leaves = tree.leaves(x[row : row + 1, :length])[0].numpy()
        expected_root, expected = numpy_tree(tree, leaves)
        assert merges[row].numpy().tolist() == [*expected, *[-1] * (7 - length)]
        np.testing.assert_allclose(root[row], expected_root, rtol=2e-4, atol=2e-6)
    assert len({tuple(row) for row in merges.numpy()[[0, 1, 4]]}) == 3


def test_leaves_of_an_lstm_are_its_states():
    tree = make_tree(leaf_lstm=True)
    lstm = keras.layers.LSTM(5, return_sequences=True, return_state=True)
    lstm.build((None, None, 3))
    lstm.set_weights(tree.leaves.get_weights())
    x, _ = make_inputs()
    leaves = tree.leaves(x)
    hidden, last_hidden, last_memory = lstm(x)
    np.testing.assert_allclose(leaves[..., :5], hidden, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(leaves[:, -1], tf.concat([last_hidden, last_memory], -1), rtol=1e-5)


@keras.saving.register_keras_serializable("tests")
class Noiseless(tfc.layers.StraightThrough):
    """The most probable class forward, the softmax's gradient backward."""

    def relax(self, logits, temperature, class_mask=None, seed=None):
        filled = tf.where(class_mask, logits, -1e9)
        soft = tf.where(class_mask, tf.nn.softmax(filled / temperature), 0.0)
        hard = tf.where(class_mask, tfc.relaxations.discretize(filled), 0.0)
        return tf.stop_gradient(hard - soft) + soft


def shrinking_tree(tree, leaves):
    """Choi et al.: lists of nodes that get shorter, each new one a mixture of three old."""
    kernel, bias, query = (tf.convert_to_tensor(w) for w in (tree.kernel, tree.bias, tree.query))
    hidden, memory = tf.split(leaves, 2, -1)
    while hidden.shape[0] > 1:
        gates = tf.concat([hidden[:-1], hidden[1:]], -1) @ kernel + bias
        i, f_left, f_right, u, o = tf.split(gates, 5, -1)
        new_memory = tf.sigmoid(f_left + 1) * memory[:-1] + tf.sigmoid(f_right + 1) * memory[1:]
        new_memory += tf.sigmoid(i) * tf.tanh(u)
        new_hidden = tf.sigmoid(o) * tf.tanh(new_memory)
        scores = tf.linalg.matvec(new_hidden, query) / np.sqrt(tree.units).astype("float32")
        soft = tf.nn.softmax(scores / tree.choice.temperature)
        pick = tf.stop_gradient(tfc.relaxations.discretize(scores) - soft) + soft
        before = 1 - tf.cumsum(pick)
        after = tf.cumsum(pick, exclusive=True)
        pick, before, after = (x[:, None] for x in (pick, before, after))
        hidden = pick * new_hidden + before * hidden[:-1] + after * hidden[1:]
        memory = pick * new_memory + before * memory[:-1] + after * memory[1:]
    return hidden[0]


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_gradients_are_those_of_the_shrinking_form(jit_compile):
    tree = make_tree(Noiseless(0.7), query_scale=3.0)
    x, mask = make_inputs()
    target = np.random.default_rng(1).normal(size=[6, 5]).astype("float32")

    @tf.function(jit_compile=jit_compile)
    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(target * tree(x, mask=mask, training=True)[0])
        return loss, tape.gradient(loss, [w.value for w in tree.trainable_variables])

    with tf.GradientTape() as tape:
        roots = [
            shrinking_tree(tree, tree.leaves(x[row : row + 1, :length])[0])
            for row, length in enumerate(LENGTHS)
        ]
        expected_loss = tf.reduce_sum(target * tf.stack(roots))
    expected = tape.gradient(expected_loss, [w.value for w in tree.trainable_variables])
    loss, found = gradients()
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-4)
    for variable, a, b in zip(tree.trainable_variables, found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-4, err_msg=variable.name)
    assert np.abs(expected[-1]).max() > 0.01, "the query learns"


@pytest.mark.parametrize("name", ESTIMATORS)
def test_only_pairs_that_exist_are_merged(name):
    tree = make_tree(ESTIMATORS[name](seed=0), query_scale=0.1)
    lengths = np.tile(LENGTHS, 40)
    x, mask = make_inputs(lengths)
    root, merges = tree(x, mask=mask, training=True)
    left = lengths[:, None] - 1 - np.arange(6)
    assert np.all(np.where(left > 0, merges >= 0, merges == -1))
    assert np.all(merges < np.maximum(left, 0))
    assert len(np.unique(merges.numpy()[::6, 0])) == 6, "every pair of the longest is drawn"
    other = tf.where(mask[..., None], x, -3.0)
    tree.choice.seed_generator.state.assign([0, 0])
    first, _ = tree(x, mask=mask, training=True)
    tree.choice.seed_generator.state.assign([0, 0])
    second, _ = tree(other, mask=mask, training=True)
    np.testing.assert_array_equal(first, second)
    assert root.shape == (240, 5)


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_merge_draws_noise_of_its_own(jit_compile):
    """With equal scores a choice says nothing about the next one, nor the next call's."""
    tree = make_tree(query_scale=0.0)
    rows, width = 2000, 6
    x = tf.random.normal([rows, width, 3], seed=0)

    @tf.function(jit_compile=jit_compile)
    def draw():
        return tree(x, training=True)[1]

    first, second = draw().numpy(), draw().numpy()
    for a, b, classes in ((first[:, 0], first[:, 1], 4), (first[:, 0], second[:, 0], 5)):
        both = a < classes
        same = np.mean(a[both] == b[both])
        error = np.sqrt((1 / classes) * (1 - 1 / classes) / both.sum())
        assert abs(same - 1 / classes) < 5 * error
    counts = np.bincount(first[:, 0], minlength=5)
    assert np.all(np.abs(counts - rows / 5) < 5 * np.sqrt(rows * 0.2 * 0.8))


def test_compiled_draws_are_those_of_eager_mode():
    results = []
    for wrap in (lambda f: f, tf.function, lambda f: tf.function(f, jit_compile=True)):
        tree = make_tree(ESTIMATORS["stgs"](seed=3))
        x, mask = make_inputs()
        call = wrap(lambda x, mask, tree=tree: tree(x, mask=mask, training=True))
        results.append([call(x, mask) for _ in range(2)])
    for others in results[1:]:
        for (root, merges), (other_root, other_merges) in zip(results[0], others, strict=True):
            np.testing.assert_array_equal(merges, other_merges)
            np.testing.assert_allclose(root, other_root, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_trains_compiled(name):
    """A step under XLA, with an unknown length at tracing time, moves every weight."""
    keras.utils.set_random_seed(0)
    tokens = keras.Input([None], dtype="int32")
    words = keras.layers.Embedding(9, 4, mask_zero=True)(tokens)
    tree = make_tree(ESTIMATORS[name](seed=0), units=4, features=4, leaf_lstm=True)
    root, _ = tree(words)
    model = keras.Model(tokens, keras.layers.Dense(3)(root))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1.0), loss, jit_compile=True)
    before = [w.numpy() for w in model.trainable_variables]
    rng = np.random.default_rng(0)
    for width in (5, 8):
        x = rng.integers(1, 9, size=[16, width])
        x[:8, 3:] = 0
        history = model.fit(x, rng.integers(3, size=16), batch_size=16, verbose=0).history
        assert np.isfinite(history["loss"][0])
    for variable, value in zip(model.trainable_variables, before, strict=True):
        assert np.all(np.isfinite(variable)), variable.path
        assert np.abs(variable - value).max() > 0, variable.path


def test_a_schedule_advances_once_for_each_tree():
    schedule = tfc.schedules.ExponentialAnnealing(2.0, 0.1, 0.5)
    tree = make_tree(tfc.GapStraightThrough(schedule, seed=0))
    x, mask = make_inputs()
    call = tf.function(lambda: tree(x, mask=mask, training=True))
    for step in range(3):
        call()
        np.testing.assert_allclose(tree.choice.temperature, schedule(step), rtol=1e-6)


def test_what_lies_behind_a_sequence_is_never_read():
    tree = make_tree(leaf_lstm=True)
    x, mask = make_inputs()
    expected = tree(x, mask=mask)
    for filler in (np.nan, np.inf):
        found = tree(tf.where(mask[..., None], x, filler), mask=mask)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("leaf_lstm", [False, True])
def test_masked_elements_may_stand_anywhere(leaf_lstm):
    """Before a sequence or inside of it: as if they were not there, also to the gradient."""
    tree = make_tree(leaf_lstm=leaf_lstm)
    x, mask = make_inputs()
    order = np.random.default_rng(2).permuted(np.tile(np.arange(7), [6, 1]), axis=1)
    order[0], order[1] = np.arange(7), np.roll(np.arange(7), 3)
    # Elements keep their order among the masked ones.
    scattered_mask = np.take_along_axis(mask.numpy(), order, 1)
    scattered = np.full(x.shape, np.nan, "float32")
    scattered[scattered_mask] = x.numpy()[mask.numpy()]
    scattered = tf.constant(scattered)
    results, gradients = [], []
    for sequence, kept in ((x, mask), (scattered, scattered_mask)):
        tree.choice.seed_generator.state.assign([0, 0])
        with tf.GradientTape() as tape:
            tape.watch(sequence)
            found = tree(sequence, mask=kept, training=True)
        results.append(found)
        gradients.append(tape.gradient(found[0], sequence).numpy()[np.asarray(kept)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(*gradients)


def test_saved_and_restored(tmp_path):
    tokens = keras.Input([None], dtype="int32", name="tokens")
    words = keras.layers.Embedding(9, 4, mask_zero=True)(tokens)
    choice = tfc.GapStraightThrough(0.3, gap="pi", seed=2)
    root, merges = tfc.layers.LatentTreeLSTM(6, choice, leaf_lstm=True, name="tree")(words)
    model = keras.Model(tokens, {"root": root, "merges": merges})
    model.save(tmp_path / "tree.keras")
    restored = keras.models.load_model(tmp_path / "tree.keras")
    assert restored.get_layer("tree").choice.gap == "pi"
    x = np.random.default_rng(0).integers(1, 9, size=[8, 7])
    x[:4, 5:] = 0
    for training in (False, True):
        for name, value in model(x, training=training).items():
            again = restored(x, training=training)[name]
            if not training:
                np.testing.assert_array_equal(value, again, err_msg=name)
            assert value.shape == again.shape


def test_the_mask_of_an_embedding_is_used():
    tokens = keras.Input([None], dtype="int32")
    words = keras.layers.Embedding(9, 4, mask_zero=True)(tokens)
    _, merges = tfc.layers.LatentTreeLSTM(6, tfc.GapStraightThrough(0.3))(words)
    model = keras.Model(tokens, merges)
    assert model.output_shape == (None, None)
    found = model.predict(np.array([[1, 2, 3, 4], [1, 2, 0, 0]]), verbose=0)
    assert found[0].min() >= 0 and found[1].tolist() == [0, -1, -1]


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float64"])
def test_other_precisions(policy):
    choice = tfc.GapStraightThrough(0.5, dtype=policy, seed=0)
    tree = tfc.layers.LatentTreeLSTM(4, choice, leaf_lstm=True, dtype=policy)
    x, mask = make_inputs()
    with tf.GradientTape() as tape:
        root, merges = tree(x, mask=mask, training=True)
        loss = tf.reduce_sum(tf.cast(root, "float32") ** 2)
    gradients = tape.gradient(loss, [w.value for w in tree.trainable_variables])
    assert root.dtype == tree.compute_dtype and merges.dtype == tf.int32
    for value in [root, *gradients]:
        assert np.all(np.isfinite(tf.cast(value, "float64")))


def test_short_sequences():
    tree = make_tree()
    root, merges = tree(tf.ones([3, 2, 3]))
    assert merges.numpy().tolist() == [[0]] * 3
    alone, none = tree(tf.ones([3, 1, 3]))
    assert none.shape == (3, 0)
    np.testing.assert_allclose(alone, tf.split(tree.leaves(tf.ones([3, 1, 3])), 2, -1)[0][:, 0])


@pytest.mark.parametrize(
    "arguments, error",
    [
        ({"units": 0}, ValueError),
        ({"choice": keras.layers.Softmax()}, TypeError),
        ({"choice": tfc.ConcreteSample()}, TypeError),
        ({"choice": tfc.IGRSample()}, TypeError),
        ({"choice": tfc.GapStraightThrough(axis=0)}, ValueError),
        ({"leaf_lstm": "yes"}, TypeError),
    ],
)
def test_errors(arguments, error):
    [name] = arguments
    arguments = {"units": 4, "choice": tfc.GapStraightThrough(), **arguments}
    with pytest.raises(error, match=f"`{name}`.*Expected.*Received"):
        tfc.layers.LatentTreeLSTM(**arguments)


@pytest.mark.parametrize(
    "shape, mask, error, name",
    [
        ([2, 5], None, ValueError, "sequence"),
        ([2, 5, 3], np.ones([2, 5], "float32"), TypeError, "mask"),
        ([2, 5, 3], np.ones([2, 4], bool), ValueError, "mask"),
    ],
)
def test_wrong_sequences(shape, mask, error, name):
    tree = tfc.layers.LatentTreeLSTM(4, tfc.GapStraightThrough())
    with pytest.raises(error, match=f"`{name}`.*Expected.*Received"):
        tree(tf.zeros(shape), mask=mask)
