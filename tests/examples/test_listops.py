"""ListOps: values, trees, the generator against the published file, batches, results."""

import collections
import itertools
import json
import os
import pathlib

import keras
import numpy as np
import pytest

import tfconcrete as tfc

LINES = [
    ("0", "( ( ( ( ( [SM 6 ) 5 ) 9 ) 0 ) ] )"),
    ("2", "( ( ( [MED 2 ) 3 ) ] )"),
    ("9", "( ( ( ( [MAX 2 ) 9 ) ( ( ( [MIN 4 ) 7 ) ] ) ) ] )"),
    ("4", "( ( ( ( [MED ( ( ( [MIN 4 ) 7 ) ] ) ) 9 ) 0 ) ] )"),
    ("7", "7"),
]

_BESIDE = os.environ.get("TFDS_DATA_DIR")
FOLDER = pathlib.Path(_BESIDE).parent / "listops" if _BESIDE else None
needs_files = pytest.mark.skipif(
    FOLDER is None or not (FOLDER / "test.tsv").is_file(),
    reason="needs listops/valid.tsv and test.tsv beside TFDS_DATA_DIR",
)


@pytest.fixture
def listops(example):
    return example("listops_data")


def bracketed_spans(text):
    """The spans of a fully bracketed tree, as a set."""
    spans, open_at, position = set(), [], 0
    for token in text.split():
        if token == "(":
            open_at.append(position)
        elif token == ")":
            spans.add((open_at.pop(), position))
        else:
            position += 1
    return spans


@pytest.fixture
def published(listops):
    return {name: listops.read(FOLDER / f"{name}.tsv") for name in ("valid", "test")}


def write(folder, lines):
    path = folder / "lines.tsv"
    path.write_text("".join(f"{label}\t{text}\n" for label, text in lines))
    return path


def test_values_and_trees(listops, tmp_path):
    examples = listops.read(write(tmp_path, LINES))
    for (label, text), example in zip(LINES, examples, strict=True):
        assert listops.evaluate(example.tokens) == example.label == int(label)
        check_tree(listops, example.tokens, text)


def check_tree(listops, tokens, text):
    spans = tfc.diagnostics.tree_spans(listops.gold_merges(tokens))
    assert len(spans) == len(tokens) - 1
    assert set(spans) == bracketed_spans(text)


@needs_files
def test_every_published_label_and_tree(listops, published):
    assert [len(published[name]) for name in ("valid", "test")] == [1_000, 10_000]
    for name, examples in published.items():
        lines = (FOLDER / f"{name}.tsv").read_text().splitlines()
        for line, example in zip(lines, examples, strict=True):
            assert listops.evaluate(example.tokens) == example.label
            check_tree(listops, example.tokens, line.split("\t")[1])


@needs_files
def test_generated_expressions_are_distributed_as_the_published_ones(listops, published):
    """Lengths by Kolmogorov's distance at the level of 0.1%, labels by their errors."""
    test = published["test"]
    generated = listops.generate(90_000, 7, exclude=[example.tokens for example in test])
    assert not {x.tokens for x in generated} & {x.tokens for x in test}
    lengths = [np.sort([len(x.tokens) for x in examples]) for examples in (generated, test)]
    assert np.median(lengths[0]) == np.median(lengths[1]) == 16
    grid = np.arange(1, 1_000)
    below = [np.searchsorted(x, grid, side="right") / len(x) for x in lengths]
    assert np.abs(below[0] - below[1]).max() < 1.95 * np.sqrt(1 / 90_000 + 1 / 10_000)
    shares = [
        np.bincount([x.label for x in examples], minlength=10) / len(examples)
        for examples in (generated, test)
    ]
    assert np.all(np.abs(shares[0] - shares[1]) < 4 * np.sqrt(0.1 * 0.9 * (1 / 9e4 + 1 / 1e4)))


def test_generated_expressions(listops, monkeypatch):
    monkeypatch.setattr(listops, "POOL", 3_000)
    first = listops.generate(500, 3, max_length=30)
    assert first == listops.generate(500, 3, max_length=30)
    assert first != listops.generate(500, 4, max_length=30)
    assert len({x.tokens for x in first}) == 500
    assert max(len(x.tokens) for x in first) <= 30
    rest = listops.generate(500, 3, max_length=30, exclude=[x.tokens for x in first])
    assert not {x.tokens for x in first} & {x.tokens for x in rest}
    for example in first:
        assert listops.evaluate(example.tokens) == example.label
    arities, depths = collections.Counter(), collections.Counter()
    for example in listops.generate(2_000, 5):
        open_lists = []
        for token in example.tokens:
            if token == listops.END:
                arities[open_lists.pop()] += 1
                continue
            if open_lists:
                open_lists[-1] += 1
            if token in listops.OPERATORS:
                open_lists.append(0)
                depths[len(open_lists)] += 1
    assert set(arities) == {2, 3, 4, 5} and max(depths) <= 19


def test_the_same_seed_on_every_machine(listops, monkeypatch):
    monkeypatch.setattr(listops, "POOL", 100)
    [example] = listops.generate(1, 0, max_length=12)
    assert " ".join(example.tokens) == "[SM 3 8 6 ]"


def test_buckets_are_the_best_ones(listops):
    lengths = [1, 1, 1, 5, 6, 6, 9, 9, 20]

    def cost(widths):
        return sum(min(w for w in widths if w >= x) ** 2 for x in lengths)

    values = sorted(set(lengths))
    for number in (1, 2, 3, 4, 9):
        found = listops.length_buckets(lengths, number)
        size = min(number, len(values))
        best = min(cost([*c, 20]) for c in itertools.combinations(values[:-1], size - 1))
        assert found[-1] == 20 and len(found) <= number and cost(found) == best


def test_batches_have_few_shapes_and_lose_nothing(listops, monkeypatch):
    monkeypatch.setattr(listops, "POOL", 500)
    examples = listops.generate(101, 0, max_length=20)
    widths = [6, 11, 20]
    for seed in (None, 0):
        seen, data = [], listops.batches(examples, 8, widths, seed)
        for tokens, labels, weights in data:
            assert tokens.shape[0] == labels.shape[0] == weights.shape[0] == 8
            lengths = np.count_nonzero(tokens, axis=1)
            width = tokens.shape[1]
            assert width in widths
            lower = max([w for w in widths if w < width], default=0)
            used = weights.numpy() == 1
            assert np.all((lengths[used] > lower) & (lengths[used] <= width))
            assert np.all(lengths[~used] == 0)
            for row, label in zip(tokens.numpy()[used], labels.numpy()[used], strict=True):
                words = tuple(listops.VOCABULARY[i] for i in row if i)
                seen.append(listops.Example(int(label), words))
        assert sorted(seen) == sorted(examples)
        assert len(data) == len(list(data))
    data = listops.batches(examples, 8, widths, seed=0)
    epochs = [np.concatenate([labels for _, labels, _ in data]) for _ in range(2)]
    assert not np.array_equal(*epochs), "every epoch has an order of its own"


def test_results_are_resumed_and_belong_to_their_settings(example, tmp_path, capsys):
    tree = example("listops_tree_lstm")
    path = tmp_path / "listops.json"
    run = {
        "estimator": "STGS",
        "temperature": 0.01,
        "seed": 0,
        "test_accuracy": 0.5,
        "f1_gold": 0.1,
        "f1_left": 0.2,
        "f1_right": 0.3,
    }
    tree.Results(path, {"epochs": 1}).add(run)
    again = tree.Results(path, {"epochs": 1})
    assert again.find(estimator="STGS", temperature=0.01, seed=0) == [run]
    assert not again.find(estimator="STGS", temperature=0.01, seed=1)
    again.add({**run, "seed": 1, "test_accuracy": 0.6})
    [row] = tree.table_rows(tree.Results(path, {"epochs": 1}))
    assert row[:5] == ("0.01", "STGS", "0.550", "0.500, 0.600", "0.479 +- 0.258")
    assert json.loads(path.read_text())["settings"] == {"epochs": 1}
    with pytest.raises(SystemExit):
        tree.Results(path, {"epochs": 2})
    assert "other settings" in capsys.readouterr().err


def test_reference_trees(example, listops):
    tree = example("listops_tree_lstm")
    examples = [listops.Example(1, ("[MAX", "1", "0", "]")), listops.Example(7, ("7",))]
    merges = tree.reference_merges(listops.encode(examples, 5)[0])
    assert merges["gold"].tolist() == [[0, 0, 0, -1], [-1] * 4]
    assert merges["left"].tolist() == [[0, 0, 0, -1], [-1] * 4]
    assert merges["right"].tolist() == [[2, 1, 0, -1], [-1] * 4]


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator", ["STGS", "GR-MC100", "GST-0.8", "GST-1.0", "GST-1.2", "GST-pi", "ReinMax"]
)
def test_overfits_64_expressions(estimator, example, listops, monkeypatch):
    """Every answer right, along greedy trees, in at most 800 steps."""
    tree = example("listops_tree_lstm")
    assert estimator in tree.ESTIMATORS
    monkeypatch.setattr(listops, "POOL", 2_000)
    tokens, labels = listops.encode(listops.generate(64, 0, max_length=16), 16)
    preset = tree.Preset(32, 32, 32, 0.0, 16, 64, epochs=20, learning_rate=5e-3)
    keras.utils.set_random_seed(0)
    model, _ = tree.build_model(preset, tree.ESTIMATORS[estimator](1.0, 0))
    tree.compile_model(model, preset)
    for _ in range(20):
        model.fit(tokens, labels, batch_size=32, epochs=20, verbose=0)
        accuracy = model.evaluate(tokens, labels, batch_size=64, verbose=0)[1]
        if accuracy == 1.0:
            return
    raise AssertionError(f"{accuracy:.3f} of the answers are right")
