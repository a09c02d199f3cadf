"""ListOps: nested list operations and their values, read, generated and batched by length.

An expression is a digit, or `[OP x1 .. xn ]` with OP one of MAX, MIN, MED (the integer part
of the median) and SM (the sum modulo 10), and two to five expressions as arguments (Nangia &
Bowman, 2018). Here it is a tuple of tokens; `[MAX` is one token.
"""

import collections
import os
import pathlib
import random
import statistics

import numpy as np
import tensorflow as tf

from keras_examples.common import fail

DIGITS = tuple("0123456789")
OPERATORS = {
    "[MAX": max,
    "[MIN": min,
    "[MED": lambda values: int(statistics.median(values)),
    "[SM": lambda values: sum(values) % 10,
}
END = "]"
# Index 0 is padding.
VOCABULARY = ("", *DIGITS, *OPERATORS, END)
INDEX = {token: index for index, token in enumerate(VOCABULARY)}

LIST_PROBABILITY = 0.25
MAX_ARGUMENTS = 5
MAX_DEPTH = 20
# How many different expressions the published sets were divided from. Small ones are few and
# soon all taken, so the lengths of a set depend on it.
POOL = 100_000

Example = collections.namedtuple("Example", ["label", "tokens"])


def evaluate(tokens):
    """The value of an expression, 0 to 9."""
    stack = [[]]
    for token in tokens:
        if token in OPERATORS:
            stack.append([OPERATORS[token]])
        elif token == END:
            operator, *values = stack.pop()
            stack[-1].append(operator(values))
        else:
            stack[-1].append(int(token))
    [[value]] = stack
    return value


def gold_merges(tokens):
    """The tree of an expression as merges, its lists composed from the left.

    Returns:
        List of `len(tokens) - 1` positions: each step merges the node at that position with
        its right neighbour.
    """
    merges, nodes = [], 0

    def merge():
        nonlocal nodes
        nodes -= 1
        merges.append(nodes - 1)

    for token in tokens:
        nodes += 1
        if token not in OPERATORS and nodes > 1:
            merge()
            if token == END and nodes > 1:
                merge()
    return merges


def generate(number, seed, max_length=None, exclude=()):
    """Different expressions, drawn by the grammar as the published sets were.

    A pool of at least 100,000 different expressions is drawn; those that are excluded or too
    long are left out of it, and `number` of the rest are chosen at random.

    Args:
        number: how many.
        seed: int; the same one gives the same expressions, on any machine.
        max_length: the most tokens an expression may have, or None.
        exclude: expressions (tuples of tokens) that must not occur.

    Returns:
        A list of `Example`, in random order.
    """
    draw = random.Random(seed).random
    exclude = set(exclude)
    # Of an expression that begins as a digit there are ten: every large pool has them all.
    pool = dict.fromkeys((digit,) for digit in DIGITS)
    kept = sum(_wanted(tokens, max_length, exclude) for tokens in pool)
    while len(pool) < POOL or kept < number:
        tokens = []
        _append_list(tokens, draw, 1)
        tokens = tuple(tokens)
        if tokens not in pool:
            pool[tokens] = None
            kept += _wanted(tokens, max_length, exclude)
    wanted = [tokens for tokens in pool if _wanted(tokens, max_length, exclude)]
    # Sorting by drawn numbers: what `random.shuffle` gives is not promised to stay.
    order = sorted((draw(), index) for index in range(len(wanted)))[:number]
    return [Example(evaluate(wanted[index]), wanted[index]) for _, index in order]


def _wanted(tokens, max_length, exclude):
    return (max_length is None or len(tokens) <= max_length) and tokens not in exclude


def _append_list(tokens, draw, depth):
    """Appends a list whose arguments stand at `depth + 1`."""
    tokens.append(tuple(OPERATORS)[int(draw() * len(OPERATORS))])
    for _ in range(2 + int(draw() * (MAX_ARGUMENTS - 1))):
        if depth + 1 < MAX_DEPTH and draw() < LIST_PROBABILITY:
            _append_list(tokens, draw, depth + 1)
        else:
            tokens.append(DIGITS[int(draw() * len(DIGITS))])
    tokens.append(END)


def data_directory(given=None):
    """The folder of `valid.tsv` and `test.tsv`: `--data-dir`, else beside TFDS_DATA_DIR."""
    if given is not None or "TFDS_DATA_DIR" not in os.environ:
        return given
    beside = pathlib.Path(os.environ["TFDS_DATA_DIR"]).parent / "listops"
    return beside if beside.is_dir() else None


def read(path, max_length=None):
    """The lines `label<TAB>expression` of a file, without the brackets of its trees."""
    if not path.is_file():
        fail(f"{path} is not there: --data-dir takes a folder with valid.tsv and test.tsv")
    examples = []
    for line in path.read_text().splitlines():
        label, expression = line.split("\t")
        tokens = tuple(token for token in expression.split() if token not in "()")
        if max_length is None or len(tokens) <= max_length:
            examples.append(Example(int(label), tokens))
    return examples


def encode(examples, length=None):
    """Token indices, int32 `[n, length]` with 0 after the end, and labels `[n]`."""
    length = length or max(len(example.tokens) for example in examples)
    tokens = np.zeros([len(examples), length], np.int32)
    for row, example in zip(tokens, examples, strict=True):
        row[: len(example.tokens)] = [INDEX[token] for token in example.tokens]
    return tokens, np.array([example.label for example in examples], np.int32)


def length_buckets(lengths, number, growth=2):
    """At most `number` widths to pad to, such that the sum of `width**growth` is least."""
    values, counts = np.unique(np.asarray(lengths), return_counts=True)
    before = np.concatenate([[0], np.cumsum(counts)])
    # cost[i]: the least sum for the i smallest values, with the buckets used so far.
    cost, chosen = np.full(len(values) + 1, np.inf), [[] for _ in range(len(values) + 1)]
    cost[0] = 0.0
    for _ in range(min(number, len(values))):
        new_cost, new_chosen = cost.copy(), list(chosen)
        for end, width in enumerate(values, start=1):
            totals = cost[:end] + (before[end] - before[:end]) * float(width) ** growth
            start = int(np.argmin(totals))
            if totals[start] < new_cost[end]:
                new_cost[end], new_chosen[end] = totals[start], [*chosen[start], int(width)]
        cost, chosen = new_cost, new_chosen
    return chosen[-1]


def batches(examples, batch_size, widths, seed=None):
    """A `tf.data` set of batches of similar lengths, all of one size.

    Args:
        examples: list of `Example`, none longer than the last width.
        batch_size: rows of every batch; the last ones of an epoch are filled up with empty
            rows of weight 0, so that a compiled step never meets another shape.
        widths: increasing list; a batch is padded to the first that holds it.
        seed: int to shuffle by, anew in every epoch; None to keep the order.

    Returns:
        A dataset of `(tokens int32 [batch_size, width], labels int32 [batch_size],
        weights float32 [batch_size])`.
    """
    data = tf.data.Dataset.from_tensor_slices(encode(examples, widths[-1]))
    if seed is not None:
        data = data.shuffle(len(examples), seed=seed, reshuffle_each_iteration=True)

    def length(tokens):
        return tf.math.count_nonzero(tokens, dtype=tf.int32)

    data = data.map(lambda tokens, label: (tokens[: length(tokens)], label))
    data = data.bucket_by_sequence_length(
        lambda tokens, label: length(tokens),
        bucket_boundaries=[width + 1 for width in widths],
        bucket_batch_sizes=[batch_size] * (len(widths) + 1),
        pad_to_bucket_boundary=True,
    )

    def fill(tokens, labels):
        missing = batch_size - tf.shape(labels)[0]
        weights = tf.pad(tf.ones_like(labels, tf.float32), [[0, missing]])
        filled = tf.pad(tokens, [[0, missing], [0, 0]]), tf.pad(labels, [[0, missing]]), weights
        for tensor in filled:
            tensor.set_shape([batch_size, *tensor.shape[1:]])
        return filled

    lengths = [len(example.tokens) for example in examples]
    counts = np.bincount(np.searchsorted(widths, lengths))
    number = int(np.sum(-(-counts // batch_size)))
    return data.map(fill).apply(tf.data.experimental.assert_cardinality(number)).prefetch(2)
