"""XLA's program for a GPU is the one for a CPU: no GPU is needed to lower it."""

import collections
import math
import re

import pytest
import tensorflow as tf

from tests.devices.densities import DENSITIES, MOMENTS
from tests.devices.functions import ESTIMATORS, SHAPE, with_gradient

CASES = {**ESTIMATORS, **DENSITIES, **MOMENTS}
QUICK = ("concrete", "categorical", "gapped", "gumbel_rao", "Concrete.log_prob")

# Ops that leave the program, and one that adds in no fixed order on a GPU.
UNWANTED = re.compile(r"custom-call|infeed|outfeed|send|recv|scatter")
_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%\S+ = (\(.*?\)|\S+) ([a-z][a-z0-9-]*)\(", re.MULTILINE)


def lower(function, platform, *arguments):
    """`[(shape, opcode)]` of the program before any platform's own passes."""
    compiler = function.experimental_get_compiler_ir(*arguments)
    return _INSTRUCTION.findall(compiler(stage="hlo", platform_name=platform))


def random_words(instructions):
    """32-bit words that a program draws, by XLA's own op or by Philox written out."""
    total = 0
    for shape, opcode in instructions:
        written_out = re.fullmatch(r"u32\[(\d+),4\]\S*", shape)
        if opcode == "rng-bit-generator":
            bits, sizes = re.search(r", u(32|64)\[([\d,]*)\]", shape).groups()
            total += math.prod(map(int, sizes.split(","))) * int(bits) // 32
        elif opcode == "select" and written_out:
            # The words of a block are chosen by three selections.
            total += 4 * int(written_out[1]) / 3
    return round(total)


def marked(name):
    return name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)


@pytest.mark.parametrize("name", [marked(name) for name in CASES])
def test_the_same_program(name):
    function = tf.function(with_gradient(CASES[name]), jit_compile=True)
    arguments = tf.zeros(SHAPE), tf.constant([1, 2])
    cpu, gpu = (lower(function, platform, *arguments) for platform in ("CPU", "GPU"))
    counts = collections.Counter(opcode for _, opcode in gpu)
    assert not [opcode for opcode in counts if UNWANTED.search(opcode)]
    assert counts == collections.Counter(opcode for _, opcode in cpu)
    assert random_words(gpu) == random_words(cpu)
    assert bool(random_words(gpu)) == (name not in MOMENTS)


@pytest.mark.parametrize(
    ("name", "draws"),
    [
        ("concrete", 1),
        pytest.param("exp_concrete", 1, marks=pytest.mark.slow),
        pytest.param("bin_concrete", 1, marks=pytest.mark.slow),
        ("straight_through_gumbel_softmax", 1),
        pytest.param("gapped", 1, marks=pytest.mark.slow),
        pytest.param("rloo", 2, marks=pytest.mark.slow),
        pytest.param("vimco", 5, marks=pytest.mark.slow),
        pytest.param("Concrete fused", 1, marks=pytest.mark.slow),
    ],
)
def test_one_word_for_each_noise(name, draws):
    function = tf.function(with_gradient(CASES[name]), jit_compile=True)
    gpu = lower(function, "GPU", tf.zeros(SHAPE), tf.constant([1, 2]))
    assert random_words(gpu) == draws * math.prod(SHAPE)


def test_an_unwanted_op_would_be_seen():
    function = tf.function(lambda x: tf.math.top_k(x, 2).values, jit_compile=True)
    opcodes = [opcode for _, opcode in lower(function, "GPU", tf.zeros(SHAPE))]
    update = tf.function(lambda x: tf.tensor_scatter_nd_add(x, [[1]], [2.0]), jit_compile=True)
    opcodes += [opcode for _, opcode in lower(update, "GPU", tf.zeros([3]))]
    assert "scatter" in [opcode for opcode in opcodes if UNWANTED.search(opcode)]
