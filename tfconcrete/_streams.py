"""What the words of a seed are for, and records of which are read and what they become."""

import contextlib
import enum
from typing import NamedTuple

import numpy as np
import tensorflow as tf


class Stream(enum.IntEnum):
    """What the words of a seed are for; every use has a number of its own.

    It is the upper half of the generator's counter, so that two uses of one seed can never
    read the same words.
    """

    NOISE = 0  # the noise of a draw
    FOLD = 1  # seeds that callers derive with numbers of their own
    BLOCK = 2  # a draw by blocks of classes: which block
    CLASS_IN_BLOCK = 3  # and which class of it
    GIVEN_DRAW = 4  # noises given the class drawn, chunk by chunk (Gumbel-Rao)
    REPLICA = 5  # a replica of a distribution strategy
    STEP = 6  # a step, a batch or a chunk of samples
    LATENT = 7  # a stochastic layer of a model
    CONTINUOUS = 8  # a model's Gaussian latent
    ROW = 9  # an example of a batch
    PARAMETER = 10  # an initial value
    TWIN = 11  # another layer of a model with the same seed
    CALL = 12  # a call of a layer whose noise was given for a whole step


class Read(NamedTuple):
    """The blocks `first` to `end - 1` of one seed's stream, as Python ints."""

    generator: str
    key: int
    stream: int
    first: int
    end: int


_listeners = []
_law_listeners = []


@contextlib.contextmanager
def record_reads():
    """For tests: which words are read inside the block.

    Yields:
        A list that grows by a `Read` for each read. Those inside a `tf.function` that is
        traced here are noted whenever it runs; under XLA nothing can be.
    """
    reads = []
    _listeners.append(reads)
    try:
        yield reads
    finally:
        _listeners.remove(reads)


def note_read(generator, seeds, stream, first, num_blocks):
    """Tells whoever is recording.

    Args:
        generator: name of the generator.
        seeds: int32 tensor `[2]` or `[rows, 2]`.
        stream: a `Stream`.
        first: number of the first block.
        num_blocks: callable that gives how many blocks there are.
    """
    if not _listeners:
        return
    listeners = list(_listeners)

    def note(seeds, first, blocks):
        for key in np.ascontiguousarray(seeds).view(np.uint64).ravel().tolist():
            read = Read(generator, key, int(stream), int(first), int(first) + int(blocks))
            for reads in listeners:
                reads.append(read)

    arguments = [seeds, tf.cast(first, tf.int64), tf.cast(num_blocks(), tf.int64)]
    if tf.executing_eagerly():
        note(*[argument.numpy() for argument in arguments])
    else:
        tf.numpy_function(note, arguments, [])


@contextlib.contextmanager
def record_laws():
    """Which laws the noise drawn inside the block follows.

    Yields:
        A set that grows by the name of each law, when it is drawn or its draw is traced.
    """
    laws = set()
    _law_listeners.append(laws)
    try:
        yield laws
    finally:
        # Equal sets are not the same one.
        _law_listeners[:] = [other for other in _law_listeners if other is not laws]


def note_law(law):
    """Tells whoever is recording laws."""
    for laws in _law_listeners:
        laws.add(law)
