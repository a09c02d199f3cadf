"""The benchmark on one kind of device, and whether it computes what the CPU does.

    make bench-gpu        # python -m benchmarks --device GPU

runs every section of the benchmark on a GPU, and three more: `codes`, the words, samples and
codes of the device beside the CPU's; `grid`, the numeric grid; `determinism`, every layer twice
under `enable_op_determinism`. All of it goes into one Markdown file, `<output>/benchmarks_gpu.md`.
`--device CPU` takes the same way without a GPU.
"""

import platform

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfconcrete as tfc
from benchmarks import numeric_grid
from benchmarks.memory import in_fresh_process
from benchmarks.report import Figure, markdown

NAMES = ("CPU", "GPU")
SHAPE, CLASSES, SEED = (200, 30), (10, 1000), (3, 4)
MODES = {
    "eager": lambda f: f,
    "graph": tf.function,
    "XLA": lambda f: tf.function(f, jit_compile=True),
}
# Words are equal bit for bit. Logarithms differ in the last bit, which decides a draw where two
# classes come within a few parts in 1e7 of each other: 1e-5 of all draws is ten times that.
TIES = 1e-5


def check(device):
    """Raises `ValueError` where TensorFlow sees no such device."""
    if not tf.config.list_physical_devices(device):
        raise ValueError(
            f"TensorFlow {tf.__version__} sees no {device} here, only "
            f"{', '.join(d.name for d in tf.config.list_physical_devices())}. With a GPU and its "
            'driver, `pip install "tfconcrete[gpu]"` brings the libraries.'
        )


def about(device):
    """The heading of the file: what it was measured on."""
    found = tf.config.list_logical_devices(device)[0]
    physical = tf.config.list_physical_devices(device)[0]
    details = tf.config.experimental.get_device_details(physical)
    name = details.get("device_name", platform.processor() or platform.machine())
    return (
        f"# {device}: {name}\n\n`{found.name}` with TensorFlow {tf.__version__}, Keras "
        f"{keras.__version__}, TFP {tfp.__version__}, NumPy {np.__version__}, tfconcrete "
        f"{tfc.__version__}, Python {platform.python_version()}.\n"
    )


def samplers():
    """`{name: function(logits, seed)}` whose outputs are codes, or words."""
    e, r = tfc.estimators, tfc.relaxations

    def coded(draw):
        return lambda logits, seed: r.codes(draw(logits, seed))

    return {
        "uniform words": lambda x, seed: tf.bitcast(tfc.noise.uniform(tf.shape(x), seed), tf.int32),
        "codes of the argmax": lambda x, seed: r.codes(x),
        "codes of the k largest": lambda x, seed: r.top_k_codes(x, 3),
        "exact draws": coded(lambda x, seed: r.categorical(x, seed=seed)),
        "gapped straight-through": coded(
            lambda x, seed: e.gapped_straight_through(x, 0.5, seed=seed)
        ),
        "Gumbel-Rao": coded(lambda x, seed: e.gumbel_rao(x, 0.5, 10, seed=seed)),
        "ReinMax": coded(lambda x, seed: e.reinmax(x, seed=seed)),
        "binary draws": lambda x, seed: tf.cast(
            e.bin_concrete_straight_through(x, 0.5, seed=seed), tf.int32
        ),
        "rounded Gaussian": coded(lambda x, seed: r.igr(x, 0.1 * x, 0.5, seed=seed)),
        "exact subsets": lambda x, seed: tf.cast(
            tfc.relaxations.k_subset(x[..., :10], 3, seed=seed), tf.int32
        ),
    }


def codes(device, quick=False):
    """How many codes differ between the device and the CPU, which computes eagerly."""
    tf.config.experimental.enable_tensor_float_32_execution(False)
    seed = tf.constant(SEED)
    for classes in CLASSES[:1] if quick else CLASSES:
        logits = np.random.default_rng(0).normal(size=[*SHAPE, classes]).astype("float32")
        for name, sampler in samplers().items():
            with tf.device("/CPU:0"):
                expected = sampler(tf.constant(logits), seed).numpy()
            exact = "words" in name or "of the" in name
            for mode, make in MODES.items():
                with tf.device(f"/{device}:0"):
                    found = make(sampler)(tf.constant(logits), seed).numpy()
                yield Figure(
                    f"{name}, {classes} classes, {mode}: of {expected.size:,} differ",
                    int(np.sum(found != expected)),
                    0 if exact else np.ceil(TIES * expected.size),
                    at_least=False,
                    unit="",
                )
    yield _encoder(device)


def _encoder(device):
    """A whole network's codes, whose matrix products add in another order on each device."""
    keras.utils.set_random_seed(0)
    encoder = keras.Sequential(
        [keras.Input([784]), keras.layers.Dense(512, "relu"), keras.layers.Dense(300)]
    )
    x = np.random.default_rng(1).random([500, 784], np.float32)
    found = []
    for place in ("CPU", device):
        with tf.device(f"/{place}:0"):
            logits = tf.reshape(encoder(tf.constant(x)), [500, 30, 10])
            found.append(tfc.relaxations.codes(logits).numpy())
    differ = int(np.sum(found[0] != found[1]))
    goal = np.ceil(1e-4 * found[0].size)
    what = f"codes of a 784-512-300 encoder, without TF32: of {found[0].size:,} differ"
    return Figure(what, differ, goal, at_least=False, unit="")


def grid(device, quick=False):
    """In how many cells of `numeric_grid` samples, densities and gradients are finite."""
    subset = {"num_classes": (2, 10), "dtypes": ("float32",)} if quick else {}
    for jit_compile in (False, True):
        with tf.device(f"/{device}:0"):
            column = numeric_grid.tensorflow_column(
                numeric_grid.TFCONCRETE, jit_compile=jit_compile, **subset
            )
        mode = "XLA" if jit_compile else "eager"
        yield Figure(f"finite cells, {mode}", sum(column.values()), len(column), unit="")


def repeats(device):
    """How many layers give other numbers the second time under `enable_op_determinism`."""
    tf.config.experimental.enable_op_determinism()
    logits = tf.constant(np.random.default_rng(0).normal(size=[64, 8, 16]), tf.float32)
    layers = tfc.layers
    others = 0
    for make in (
        lambda: layers.ConcreteSample(hard=True),
        layers.ExpConcreteSample,
        layers.BinConcreteSample,
        layers.StraightThrough,
        layers.GumbelRao,
        layers.GapStraightThrough,
        layers.ReinMax,
        lambda: layers.SubsetSample(3),
        layers.IGRSample,
    ):
        runs = []
        for _ in range(2):
            keras.utils.set_random_seed(1)
            layer = make()
            x = [logits, 0.1 * logits] if make is layers.IGRSample else logits

            @tf.function
            def step(layer=layer, x=x):
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    outputs = layer(x, training=True)
                    loss = tf.reduce_sum(outputs * tf.linspace(0.0, 1.0, outputs.shape[-1]))
                return outputs, tape.gradient(loss, x), layer(x, training=False)

            with tf.device(f"/{device}:0"):
                runs.append([value.numpy() for value in tf.nest.flatten(step())])
        others += any(not np.array_equal(x, y) for x, y in zip(*runs, strict=True))
    return others


def determinism(device, quick=False):
    differ = in_fresh_process("devices", "repeats", device)
    what = "layers that do not repeat themselves under `enable_op_determinism`"
    yield Figure(what, differ, 0, at_least=False, unit="")


OWN_SECTIONS = {"codes": codes, "grid": grid, "determinism": determinism}


def run(device, chosen, sections, output, quick=False):
    """Runs sections on a device.

    Args:
        device: `"CPU"` or `"GPU"`.
        chosen: Names of sections.
        sections: `{name: function() -> figures}` of the benchmark.
        output: Folder.
        quick: Whether the sections of this file are cut short.

    Returns:
        Path of the Markdown file.
    """
    tables = [about(device)]
    print(tables[0], flush=True)
    for name in chosen:
        with tf.device(f"/{device}:0"):
            own = name in OWN_SECTIONS
            figures = OWN_SECTIONS[name](device, quick) if own else sections[name]()
            tables.append(markdown(name, list(figures)))
        print(tables[-1], flush=True)
    path = output / f"benchmarks_{device.lower()}.md"
    path.write_text("\n".join(tables))
    return path
