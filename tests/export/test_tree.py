"""A model with a loop of choices: its answer and its parse through the C++ loader."""

import keras
import numpy as np
from tensorflow.core.protobuf import saved_model_pb2

import tfconcrete as tfc
from tfconcrete.export.c_loader import run_separately


def reader(seed=0, units=8):
    """From tokens to an answer and a parse, with scores far enough apart to be compared."""
    keras.utils.set_random_seed(seed)
    tokens = keras.Input([None], dtype="int32", name="tokens")
    words = keras.layers.Embedding(9, units, mask_zero=True)(tokens)
    choice = tfc.GapStraightThrough(0.1, name="merge")
    tree = tfc.layers.LatentTreeLSTM(units, choice, leaf_lstm=True)
    root, parse = tree(words)
    tree.query.assign(np.random.default_rng(seed).normal(size=[units]))
    probs = keras.layers.Dense(5, "softmax")(root)
    answer = tfc.layers.Codes(name="answer")(probs)
    return keras.Model(tokens, {"answer": answer, "parse": parse})


def expressions(lengths, width, seed=0):
    tokens = np.random.default_rng(seed).integers(1, 9, size=[len(lengths), width])
    tokens[np.arange(width) >= np.array(lengths)[:, None]] = 0
    return tokens.astype(np.int32)


def test_answer_and_parse_of_mixed_lengths(tmp_path):
    model = reader()
    path = tfc.export.save_discrete(model, tmp_path / "tree")
    inputs = {
        "mixed": expressions([12, 3, 1, 7, 2, 12], 12),
        "wide": expressions([40, 5], 60),
        "one": expressions([4], 4),
    }
    requests = {name: ("serving_default", {"tokens": x}) for name, x in inputs.items()}
    for name, found in run_separately(path, requests).items():
        x = inputs[name]
        assert sorted(found) == ["answer", "parse"]
        assert found["answer"].dtype == found["parse"].dtype == np.int32
        assert found["answer"].shape == x.shape[:1]
        assert found["parse"].shape == (x.shape[0], x.shape[1] - 1)
        expected = model(x)
        for key in ("answer", "parse"):
            np.testing.assert_array_equal(found[key], expected[key])
        merged = found["parse"] >= 0
        np.testing.assert_array_equal(merged.sum(1), np.maximum((x > 0).sum(1) - 1, 0))
        tfc.diagnostics.tree_f1(found["parse"], found["parse"])


def test_one_loop_and_nothing_random(tmp_path):
    path = tfc.export.save_discrete(reader(), tmp_path / "tree")
    saved = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0].graph_def
    nodes = [*graph.node, *(n for function in graph.library.function for n in function.node_def)]
    ops = [node.op for node in nodes]
    # The leaves' LSTM, and the merges.
    assert len([op for op in ops if op in ("While", "StatelessWhile")]) == 2
    assert not [op for op in ops if "Random" in op]
