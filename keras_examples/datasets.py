"""Data for the examples: the embedded MNIST images, or full sets through TFDS.

Nothing is downloaded behind a reader's back: without a data directory the examples use
the 6,000 + 1,000 MNIST images in `keras_examples/data`, and say so.
"""

import os
import pathlib

import numpy as np

from keras_examples.common import fail

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
    print(
        f"data: the embedded 6,000 + 1,000 MNIST images ({EMBEDDED.name}); "
        "--data-dir gives the full set"
    )
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


def _tfds_source(name, split, data_dir, **options):
    """A TFDS split, or one line about why it is not to be had."""
    try:
        import tensorflow_datasets as tfds
    except ImportError:
        fail("--data-dir needs tensorflow-datasets: pip install tfconcrete[examples]")
    try:
        source = tfds.builder(name, data_dir=str(data_dir)).as_dataset(split=split, **options)
    except Exception as error:  # TFDS raises many kinds; each means: not to be had there
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        fail(f"{name}/{split} cannot be read from {data_dir}: {reason}")
    print(f"data: {name}/{split} from {data_dir}")
    return source


def _from_tfds(name, split, data_dir):
    source = _tfds_source(name, split, data_dir, batch_size=-1)
    images = np.asarray(source["image"])
    scale = 255.0 if images.dtype == np.uint8 and images.max() > 1 else 1.0
    images = images.astype(np.float32) / scale
    if images.shape[-1] == 1:
        images = images[..., 0]
    labels = source.get("label")
    return images, None if labels is None else np.asarray(labels).astype(np.int32)


def load_splits(name, data_dir=None, smoke=False, limit=None):
    """Training and test images of MNIST, Fashion-MNIST or CelebA, and the test labels.

    Args:
        name: `mnist`, `fashion_mnist` or `celeb_a`.
        data_dir: a TFDS directory; None for embedded or generated images.
        smoke: whether to keep only a few images.
        limit: how many images of each split to keep at most; None for all.
    """
    if name == "celeb_a":
        train, test = load_faces(data_dir=data_dir, smoke=smoke, limit=limit)
        return train, test, None
    (train, _), (test, labels) = load_images(name, data_dir=data_dir, smoke=smoke)
    return train[:limit], test[:limit], labels[:limit]


def image_batches(images, binarize=False, seed=None, batch_size=64):
    """A `tf.data.Dataset` of float32 images in [0, 1] from images of floats or bytes.

    With a seed, for training, in a new order in every epoch, and binarized where asked.
    """
    import tensorflow as tf

    source = tf.data.Dataset.from_tensor_slices(images)
    if seed is not None:
        source = source.shuffle(len(images), seed=seed)
    source = source.batch(batch_size).map(lambda x: tf.image.convert_image_dtype(x, tf.float32))
    if seed is not None and binarize:
        generator = tf.random.Generator.from_seed(seed)
        source = source.map(lambda x: tf.cast(generator.uniform(tf.shape(x)) < x, tf.float32))
    return source.prefetch(2)


def load_faces(splits=("train", "test"), data_dir=None, smoke=False, limit=None):
    """CelebA as uint8 images `[n, 64, 64, 3]`, cut to the face; generated ones without data.

    Args:
        splits: which splits to return.
        data_dir: a TFDS directory that holds `celeb_a`; None for generated faces.
        smoke: whether to keep only a few dozen images.
        limit: how many images of each split to read at most; None for all.

    Returns:
        A list with an array for each split.
    """
    if smoke:
        limit = 128
    if data_dir is None:
        print(
            "data: generated faces of 64 x 64 x 3, not CelebA; --data-dir gives the real ones "
            "(a TFDS directory that holds celeb_a)"
        )
        sizes = [min(limit or size, size) for size in (4_000, 500, 500)]
        return [generated_faces(n, seed) for seed, n in enumerate(sizes[: len(splits)])]
    return [_faces_from_tfds(split, data_dir, limit) for split in splits]


def _faces_from_tfds(split, data_dir, limit):
    import tensorflow as tf

    def small(example):
        face = tf.image.resize_with_crop_or_pad(example["image"], 148, 148)
        face = tf.image.resize(face, [64, 64], method="area")
        return tf.cast(tf.round(face), tf.uint8)

    source = _tfds_source("celeb_a", split, data_dir)
    source = source.take(limit or -1).map(small, num_parallel_calls=tf.data.AUTOTUNE)
    return np.concatenate([batch.numpy() for batch in source.batch(500)])


def generated_faces(number, seed=0):
    """Cartoon faces: an oval of skin, hair, two eyes and a mouth, uint8 `[n, 64, 64, 3]`."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[-1:1:64j, -1:1:64j]

    def each(low, high, *shape):
        return rng.uniform(low, high, [number, 1, 1, *shape])

    def paint(images, where, color):
        return np.where(where[..., np.newaxis], color, images)

    turn, width = each(-0.15, 0.15), each(0.45, 0.6)
    oval = ((x - turn) / width) ** 2 + (y / 0.75) ** 2
    tone = each(0.35, 1.0, 1)
    skin = tone * np.array([1.0, 0.78, 0.65])
    hair = each(0.05, 0.8, 1) * np.array([1.0, 0.75, 0.45])
    images = np.broadcast_to(each(0.2, 0.95, 3), [number, 64, 64, 3])
    images = paint(images, (oval < 1.5) & (y < each(-0.1, 0.7)), hair)
    images = paint(images, (oval < 1.0) & (y > each(-0.6, -0.35)), skin)
    for side in (-1, 1):
        eye = (x - 1.3 * turn - side * 0.22) ** 2 + (1.4 * (y + 0.1)) ** 2
        images = paint(images, eye < 0.006, each(0.0, 0.3, 3))
    smile = y - 0.4 + each(-0.5, 1.5) * (x - 1.3 * turn) ** 2
    images = paint(
        images, (abs(smile) < 0.04) & (abs(x - 1.3 * turn) < 0.22), tone * np.array([0.8, 0.3, 0.3])
    )
    return np.uint8(np.round(255 * images))


def omniglot_28(images, seed=0):
    """Omniglot as in the Concrete paper: inverted, 28 x 28, binarized once."""
    import tensorflow as tf

    grey = 1.0 - images.mean(-1, keepdims=True)
    small = tf.image.resize(grey, [28, 28], method="area").numpy()[..., 0]
    return (np.random.default_rng(seed).random(small.shape) < small).astype(np.float32)
