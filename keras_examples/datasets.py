"""Data for the examples: the embedded MNIST images, or full sets through TFDS.

Nothing is downloaded behind a reader's back: without a data directory the examples use
the 6,000 + 1,000 MNIST images in `keras_examples/data`, and say so.
"""

import os
import pathlib

import numpy as np
from common import fail

EMBEDDED = pathlib.Path(__file__).parent / "data" / "mnist_mini.npz"


def data_directory(given=None):
    """The TFDS directory to read: `--data-dir`, else TFDS_DATA_DIR, else None."""
    return given or os.environ.get("TFDS_DATA_DIR") or None


def load_images(name="mnist", splits=("train", "test"), data_dir=None, smoke=False):
    """Images as float32 in [0, 1], with labels where the set has them.

    Args:
        name: a TFDS name: `mnist`, `fashion_mnist`, `binarized_mnist`, `omniglot`.
        splits: which splits to return.
        data_dir: a TFDS directory; None for the embedded MNIST images.
        smoke: whether to keep only a few hundred images.

    Returns:
        A list with `(images [n, height, width], labels [n] or None)` for each split.
    """
    if data_dir is None:
        pairs = _embedded(name, splits)
    else:
        pairs = [_from_tfds(name, split, data_dir) for split in splits]
    if smoke:
        pairs = [(x[:256], None if y is None else y[:256]) for x, y in pairs]
    return pairs


def _embedded(name, splits):
    if name not in ("mnist", "binarized_mnist"):
        fail(
            f"{name} is not embedded: give --data-dir a TFDS directory that holds it "
            f"(tfds build {name}), or set TFDS_DATA_DIR"
        )
    print(f"data: the embedded 6,000 + 1,000 MNIST images ({EMBEDDED.name}); "
          "--data-dir gives the full set")  # fmt: skip
    with np.load(EMBEDDED) as arrays:
        loaded = {key: arrays[key] for key in arrays.files}
    pairs = []
    for split in splits:
        part = "train" if split == "train" else "test"
        images = loaded[f"x_{part}"].astype(np.float32) / 255.0
        pairs.append((images, loaded[f"y_{part}"].astype(np.int32)))
    if name == "binarized_mnist":
        # The fixed binarization is a set of its own; here it is drawn once, from seed 0.
        rng = np.random.default_rng(0)
        pairs = [((rng.random(x.shape) < x).astype(np.float32), y) for x, y in pairs]
    return pairs


def _from_tfds(name, split, data_dir):
    try:
        import tensorflow_datasets as tfds
    except ImportError:
        fail("--data-dir needs tensorflow-datasets: pip install tfconcrete[examples]")
    try:
        builder = tfds.builder(name, data_dir=str(data_dir))
        source = builder.as_dataset(split=split, batch_size=-1)
    except Exception as error:  # TFDS raises many kinds; each means: not to be had there
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        fail(f"{name}/{split} cannot be read from {data_dir}: {reason}")
    print(f"data: {name}/{split} from {data_dir}")
    images = np.asarray(source["image"])
    scale = 255.0 if images.dtype == np.uint8 and images.max() > 1 else 1.0
    images = images.astype(np.float32) / scale
    if images.shape[-1] == 1:
        images = images[..., 0]
    labels = source.get("label")
    return images, None if labels is None else np.asarray(labels).astype(np.int32)


def omniglot_28(images, seed=0):
    """Omniglot as in the Concrete paper: inverted, 28 x 28, binarized once."""
    import tensorflow as tf

    grey = 1.0 - images.mean(-1, keepdims=True)
    small = tf.image.resize(grey, [28, 28], method="area").numpy()[..., 0]
    return (np.random.default_rng(seed).random(small.shape) < small).astype(np.float32)


def binarized_batches(images, batch_size, seed=0):
    """Batches for `fit`, shuffled and binarized anew in every epoch, pixels as probabilities.

    Args:
        images: float array `[n, ...]` in [0, 1].
        batch_size: images in a batch; the last, smaller one is left out.
        seed: seed of order and binarization.

    Returns:
        A `tf.data.Dataset` of float32 `[batch_size, ...]`.
    """
    import tensorflow as tf

    order = tf.data.Dataset.from_tensor_slices(images)
    order = order.shuffle(len(images), seed=seed, reshuffle_each_iteration=True)
    batches = order.batch(batch_size, drop_remainder=len(images) >= batch_size)
    noise = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True).batch(2)

    def binarize(batch, words):
        uniform = tf.random.stateless_uniform(tf.shape(batch), words)
        return tf.cast(uniform < batch, tf.float32)

    return tf.data.Dataset.zip((batches, noise)).map(binarize).prefetch(4)
