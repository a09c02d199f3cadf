"""Images that several tables train on, read once."""

import functools

from keras_examples import datasets


@functools.lru_cache(maxsize=1)
def mnist_images(data_dir, smoke):
    """Grey training and test images of MNIST."""
    return [x for x, _ in datasets.load_images("mnist", data_dir=data_dir, smoke=smoke)]
