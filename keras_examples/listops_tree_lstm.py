"""The value of nested list operations, read along trees that a model finds by itself.

Title: ListOps with a Gumbel Tree-LSTM
Reference: Fan, Chi, Rudnicky & Ramadge (2022), Section 5.2, Table 6; Choi, Yoo & Lee (2018);
    data: Nangia & Bowman (2018).

`[MAX 2 9 [MIN 4 7 ] 0 ]` is 9. The model reads such an expression by merging neighbours, two
at a time, until one node is left, and guesses the value from it. Which pair to merge is a
discrete choice at each step, made by a straight-through layer: the lower its temperature,
the less biased and the noisier its gradient. Nothing tells the model what the brackets mean.

With several estimators, temperatures or seeds each run is written to `listops.json` as it
ends, and left out when the command is repeated.
"""

import collections
import dataclasses
import itertools
import json
import pathlib
import statistics
import time

import keras
import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from keras_examples import common
from keras_examples import listops_data as listops

ESTIMATORS = {
    "STGS": lambda t, seed: tfc.ConcreteSample(t, hard=True, seed=seed, name="merge"),
    "GR-MC100": lambda t, seed: tfc.layers.GumbelRao(t, 100, seed=seed, name="merge"),
    "GST-0.8": lambda t, seed: tfc.GapStraightThrough(t, 0.8, seed=seed, name="merge"),
    "GST-1.0": lambda t, seed: tfc.GapStraightThrough(t, 1.0, seed=seed, name="merge"),
    "GST-1.2": lambda t, seed: tfc.GapStraightThrough(t, 1.2, seed=seed, name="merge"),
    "GST-pi": lambda t, seed: tfc.GapStraightThrough(t, "pi", seed=seed, name="merge"),
    "ReinMax": lambda t, seed: tfc.layers.ReinMax(t, seed=seed, name="merge"),
}

# Table 6: accuracy and standard deviation over five seeds, by estimator and temperature.
PAPER = {
    "STGS": {1.0: (0.659, 0.006), 0.1: (0.645, 0.014), 0.01: (0.479, 0.258)},
    "GR-MC100": {1.0: (0.651, 0.009), 0.1: (0.637, 0.049), 0.01: (0.662, 0.002)},
    "GST-0.8": {1.0: (0.660, 0.010), 0.1: (0.664, 0.020), 0.01: (0.660, 0.012)},
    "GST-1.0": {1.0: (0.662, 0.005), 0.1: (0.664, 0.012), 0.01: (0.661, 0.004)},
    "GST-1.2": {1.0: (0.660, 0.011), 0.1: (0.660, 0.018), 0.01: (0.661, 0.004)},
    "GST-pi": {1.0: (0.659, 0.006), 0.1: (0.659, 0.015), 0.01: (0.652, 0.018)},
}


@dataclasses.dataclass(frozen=True)
class Preset:
    """Sizes of the networks, and what they are trained on."""

    word_units: int
    units: int
    classifier_units: int
    dropout: float
    max_length: int
    train_size: int
    epochs: int
    learning_rate: float = 1e-3
    batch_size: int = 16
    leaf_lstm: bool = True
    buckets: int = 7


PRESETS = {
    # The paper's, but for GloVe: there are sixteen tokens, and their vectors are learned. (So
    # they were in the published code: it reads GloVe vectors and drops them again.)
    "paper": Preset(300, 300, 300, 0.5, max_length=100, train_size=90_000, epochs=20),
    "small": Preset(
        64, 64, 64, 0.0, max_length=50, train_size=20_000, epochs=4, learning_rate=3e-3
    ),
    "smoke": Preset(16, 16, 16, 0.0, max_length=12, train_size=160, epochs=1, buckets=2),
}


def build_model(preset, choice):
    """The classifier, and the same network with its parse, for plots and the export."""
    tokens = keras.Input([None], name="tokens", dtype="int32")
    words = keras.layers.Embedding(
        len(listops.VOCABULARY),
        preset.word_units,
        keras.initializers.RandomNormal(stddev=0.01),
        mask_zero=True,
    )(tokens)
    dropout = keras.layers.Dropout(preset.dropout)
    root, parse = tfc.layers.LatentTreeLSTM(
        preset.units, choice, leaf_lstm=preset.leaf_lstm, name="tree"
    )(dropout(words))
    hidden = keras.layers.Dense(preset.classifier_units, "relu", kernel_initializer="he_normal")(
        dropout(root)
    )
    logits = keras.layers.Dense(
        10, kernel_initializer=keras.initializers.RandomUniform(-0.002, 0.002), name="logits"
    )(dropout(hidden))
    probs = keras.layers.Softmax(name="probs", dtype="float32")(logits)
    answer = tfc.layers.Codes(name="answer")(probs)
    reader = keras.Model(tokens, {"answer": answer, "probs": probs, "parse": parse})
    return keras.Model(tokens, logits), reader


def compile_model(model, preset, jit_compile=True):
    """Adam on the answer's cross-entropy, gradients clipped at norm 5."""
    model.compile(
        keras.optimizers.Adam(preset.learning_rate, global_clipnorm=5.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=["accuracy"],
        jit_compile=jit_compile,
    )


class Data:
    """Training expressions by the grammar, validation and test expressions from the files."""

    def __init__(self, preset, folder, smoke=False):
        self.preset = preset
        longest = preset.max_length
        if folder is None:
            print("data: --data-dir is not given: validation and test expressions are generated")
            self.test, self.valid = self._generate(2_000, 1, ()), self._generate(1_000, 2, ())
        else:
            self.test = listops.read(folder / "test.tsv", longest)
            self.valid = listops.read(folder / "valid.tsv", longest)
        if smoke:
            self.test, self.valid = self.test[:64], self.valid[:64]
        known = {example.tokens for example in self.test + self.valid}
        self.train = self._generate(preset.train_size, 0, known)
        lengths = [len(example.tokens) for example in self.train]
        self.widths = listops.length_buckets([*lengths, longest], preset.buckets)
        print(
            f"data: {len(self.train):,} generated expressions of up to {longest} tokens, "
            f"{len(self.valid):,} to validate, {len(self.test):,} to test; "
            f"padded to {self.widths}"
        )

    def _generate(self, number, seed, exclude):
        return listops.generate(number, seed, self.preset.max_length, exclude)

    def batches(self, examples, batch_size=None, seed=None):
        return listops.batches(examples, batch_size or self.preset.batch_size, self.widths, seed)


class Trainer:
    """Trains runs one after the other; those of one estimator share a compiled step.

    Args:
        preset: a `Preset`.
        data: a `Data`.
        jit_compile: whether XLA compiles the steps.
    """

    def __init__(self, preset, data, jit_compile=True):
        self.preset, self.data, self.jit_compile = preset, data, jit_compile
        self._compiled = {}

    def _model(self, estimator, temperature, seed):
        """A new model, in the place of one that is compiled already if there is one."""
        keras.utils.set_random_seed(seed)
        new = build_model(self.preset, ESTIMATORS[estimator](temperature, seed))
        if estimator not in self._compiled:
            compile_model(new[0], self.preset, self.jit_compile)
            self._compiled[estimator] = new
        model, reader = self._compiled[estimator]
        for variable, value in zip(model.variables, new[0].variables, strict=True):
            variable.assign(value)
        for variable in model.optimizer.variables:
            variable.assign(tf.zeros_like(variable))
        model.optimizer.learning_rate = self.preset.learning_rate
        return model, reader

    def run(self, estimator, temperature, seed):
        """One run; the weights are those of the epoch that validated best.

        Returns:
            The model that gives answers and parses, and a dict of what was measured.
        """
        preset, data = self.preset, self.data
        model, reader = self._model(estimator, temperature, seed)
        best = keras.callbacks.EarlyStopping(
            "val_accuracy", mode="max", patience=preset.epochs, restore_best_weights=True
        )
        halve = keras.callbacks.ReduceLROnPlateau(
            "val_accuracy", factor=0.5, patience=2, mode="max"
        )
        start = time.time()
        history = model.fit(
            data.batches(data.train, seed=seed),
            validation_data=data.batches(data.valid),
            epochs=preset.epochs,
            callbacks=[best, halve],
            shuffle=False,
            verbose=2,
        ).history
        seconds = time.time() - start
        return reader, {
            "estimator": estimator,
            "temperature": temperature,
            "seed": seed,
            "valid_accuracy": max(history["val_accuracy"]),
            **measure(reader, data.batches(data.test, 64)),
            "seconds": round(seconds),
            "train_loss": history["loss"],
            "train_accuracy": history["accuracy"],
            "val_loss": history["val_loss"],
            "val_accuracy": history["val_accuracy"],
        }


def reference_merges(tokens):
    """Merges of the gold, the left- and the right-branching tree of each row of tokens."""
    shape = [len(tokens), tokens.shape[1] - 1]
    merges = {name: np.full(shape, -1) for name in ("gold", "left", "right")}
    for row, indices in enumerate(tokens):
        words = [listops.VOCABULARY[index] for index in indices if index]
        steps = len(words) - 1
        merges["gold"][row, :steps] = listops.gold_merges(words)
        merges["left"][row, :steps] = 0
        merges["right"][row, :steps] = np.arange(steps)[::-1]
    return merges


def measure(reader, batches):
    """Accuracy, and the mean F1 of the learned trees against gold and trivial ones."""
    found = collections.defaultdict(list)
    for batch in batches:
        tokens, labels, weights = (x.numpy() for x in batch)
        answers = reader.predict_on_batch(tokens)
        used = weights > 0
        found["test_accuracy"].append((answers["answer"] == labels)[used])
        for name, merges in reference_merges(tokens[used]).items():
            f1 = tfc.diagnostics.tree_f1(answers["parse"][used], merges)
            found[f"f1_{name}"].append(f1)
    return {name: float(np.mean(np.concatenate(values))) for name, values in found.items()}


def draw_parses(reader, examples, widths, title):
    """Learned trees beside the gold ones; spans that the gold tree lacks are red."""
    import matplotlib.pyplot as plt

    answers = reader.predict(listops.encode(examples, widths[-1])[0], verbose=0)
    figure, axes = plt.subplots(
        len(examples), 2, figsize=(11, 2.7 * len(examples)), layout="constrained", squeeze=False
    )
    for row, example, answer, merges in zip(
        axes, examples, answers["answer"], answers["parse"], strict=True
    ):
        learned = tfc.diagnostics.tree_spans(merges)
        gold = tfc.diagnostics.tree_spans(listops.gold_merges(example.tokens))
        wrong = set(learned) - set(gold)
        tfc.plots.binary_tree(example.tokens, learned, row[0], f"learned: {answer}", wrong)
        tfc.plots.binary_tree(example.tokens, gold, row[1], f"gold: {example.label}")
    figure.suptitle(title)
    return figure


class Results:
    """The runs so far, in a JSON file that is written after each."""

    def __init__(self, path, settings):
        self.path, self.settings, self.runs = path, settings, []
        if path.exists():
            stored = json.loads(path.read_text())
            if stored["settings"] != settings:
                common.fail(f"{path} holds runs of other settings: give another --output")
            self.runs = stored["runs"]

    def find(self, **key):
        """The finished runs that agree with `key`."""
        return [run for run in self.runs if all(run[name] == key[name] for name in key)]

    def add(self, run):
        self.runs.append(run)
        text = json.dumps({"settings": self.settings, "runs": self.runs}, indent=1)
        incomplete = self.path.with_suffix(".tmp")
        incomplete.write_text(text + "\n")
        incomplete.replace(self.path)


def table_rows(results):
    """One row for each estimator and temperature: mean, spread and what the paper has."""
    cells = dict.fromkeys((run["temperature"], run["estimator"]) for run in results.runs)
    order = list(ESTIMATORS)
    for temperature, name in sorted(cells, key=lambda cell: (-cell[0], order.index(cell[1]))):
        runs = results.find(estimator=name, temperature=temperature)
        published = PAPER.get(name, {}).get(temperature)
        yield (
            f"{temperature:g}",
            name,
            f"{mean(runs, 'test_accuracy'):.3f}",
            ", ".join(f"{run['test_accuracy']:.3f}" for run in runs),
            "" if published is None else f"{published[0]:.3f} +- {published[1]:.3f}",
            *(f"{mean(runs, key):.2f}" for key in ("f1_gold", "f1_left", "f1_right")),
        )


def mean(runs, key):
    return statistics.fmean(run[key] for run in runs)


HEADER = (
    "temperature",
    "estimator",
    "accuracy",
    "by seed",
    "paper",
    "F1 gold",
    "F1 left",
    "F1 right",
)


def choose_preset(settings):
    """The preset of the command line, with what other options change in it."""
    preset = PRESETS["smoke" if settings.smoke else settings.preset]
    changes = (
        {}
        if settings.smoke
        else {
            "max_length": settings.max_length,
            "train_size": settings.train_size,
            "epochs": settings.epochs,
        }
    )
    preset = dataclasses.replace(preset, **{k: v for k, v in changes.items() if v is not None})
    if preset.max_length < 4 or preset.train_size < 1:
        common.fail("--max-length must be at least 4, --train-size at least 1")
    return preset


def main(arguments=None):
    options = common.parser(__doc__)
    options.add_argument(
        "--data-dir",
        type=pathlib.Path,
        help="folder with valid.tsv and test.tsv (default: generated expressions)",
    )
    options.add_argument(
        "--preset",
        choices=("small", "paper"),
        default="small",
        help="sizes of the networks and the data",
    )
    options.add_argument(
        "--estimators",
        nargs="+",
        choices=ESTIMATORS,
        default=["GST-1.0"],
        help="what chooses the merges",
    )
    options.add_argument(
        "--temperatures",
        nargs="+",
        type=common.positive,
        default=[1.0],
        help="temperatures to train at",
    )
    options.add_argument("--seeds", type=int, default=1, help="runs of each, from --seed upwards")
    options.add_argument("--epochs", type=int, help="passes over the data (default: the preset's)")
    options.add_argument("--train-size", type=int, help="expressions to generate")
    options.add_argument("--max-length", type=int, help="most tokens of an expression")
    settings = common.parse(options, arguments)
    if settings.seeds < 1:
        common.fail(f"--seeds must be at least 1, not {settings.seeds}")
    preset = choose_preset(settings)
    folder = listops.data_directory(settings.data_dir)
    results = Results(settings.output / "listops.json", dataclasses.asdict(preset))
    seeds = range(settings.seed, settings.seed + settings.seeds)
    runs = [
        {"seed": seed, "temperature": temperature, "estimator": name}
        for seed, temperature, name in itertools.product(
            seeds, settings.temperatures, settings.estimators
        )
    ]
    left = [run for run in runs if not results.find(**run)]
    # Buckets of several widths are several compiled steps; TensorFlow takes that for retracing.
    tf.get_logger().setLevel("ERROR")
    data = Data(preset, folder, settings.smoke) if left else None
    trainer = Trainer(preset, data, jit_compile=not settings.smoke)
    started = time.time()
    for index, run in enumerate(left):
        print(
            f"{run['estimator']} at {run['temperature']:g}, seed {run['seed']} "
            f"({index + 1} of {len(left)})"
        )
        reader, result = trainer.run(**run)
        results.add(result)
        remaining = (time.time() - started) / (index + 1) * (len(left) - index - 1)
        print(
            f"accuracy {result['test_accuracy']:.3f}, F1 {result['f1_gold']:.2f}; "
            f"{remaining / 60:.0f} minutes left"
        )
        shown = [x for x in data.test if 6 <= len(x.tokens) <= 24 or settings.smoke][:4]
        title = f"{result['estimator']} at {result['temperature']:g}, seed {result['seed']}"
        figure = draw_parses(reader, shown, data.widths, title)
        picture = common.save_figure(figure, settings.output, "listops_parses")
        exported = tfc.export.save_discrete(reader, settings.output / "listops_tree")
        print(f"wrote {picture}, {exported}")
    table = common.write_table(
        settings.output / "listops.md",
        f"ListOps of up to {preset.max_length} tokens, {preset.units} units",
        HEADER,
        list(table_rows(results)),
        f"accuracy: on the test expressions of up to {preset.max_length} tokens, weights of the "
        f"best of {preset.epochs} epochs over {preset.train_size:,} generated expressions; paper: "
        "Table 6, up to 100 tokens, 300 units, 90,000 expressions, five seeds. F1: of the spans "
        "of the learned trees, against the gold, a left- and a right-branching tree.",
    )
    print(f"wrote {table}, {results.path}")


if __name__ == "__main__":
    main()
