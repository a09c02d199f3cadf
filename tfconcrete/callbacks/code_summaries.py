"""`CodeSummaries`: which codes a model uses, and what they decode to, in TensorBoard."""

import importlib
import importlib.util
import os
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfconcrete._checks import check_count, invalid_value
from tfconcrete._workers import is_chief
from tfconcrete.callbacks.chosen_layers import layers_with
from tfconcrete.callbacks.sparse import SparseCallback
from tfconcrete.diagnostics.category_usage import category_usage
from tfconcrete.layers import inference_mode, preserved_state, record_codes


class CodeSummaries(SparseCallback):
    """Writes the use of codes as histograms, and decoded codes as images, for TensorBoard.

    At the end of an epoch the model is called on `data`, every sampling layer in argmax
    mode. For each layer the event file gets

    - `codes/<layer>`: a histogram of the codes, one bar for each class;
    - `usage/<layer>`: a histogram of the classes' frequencies (a bar at 0 is dead classes);

    and for a model with `encode` and `decode` (a VAE of `tfc.models`)

    - `data`: the first examples, once;
    - `decoded`: what their codes decode to;
    - `generated`: decoded draws from the prior, always from the same seeds.

    The scalars of the other callbacks come from `keras.callbacks.TensorBoard`, listed after
    them; give it the folder above this one. Weights, seeds and schedules are left alone. Of
    several workers the first writes.

    Args:
        log_dir: Folder of the event file, for instance `"runs/first/codes"`.
        data: Array of examples `[examples, ...]`, as the model takes them, or a batched
            `tf.data.Dataset`, whose first batch is taken (its first element, where a batch
            is a tuple).
        layers: The sampling layers, or their names; None for all of the model.
        images: How many images to write; 0 for none.
        image_shape: `(height, width)` or `(height, width, channels)` of examples that are
            vectors; None where they are images already.
        every: Run in the first and then every `every`-th epoch.

    Example:

    >>> layers = [keras.Input([3]), keras.layers.Dense(3), tfc.ConcreteSample(name="z")]
    >>> model = keras.Sequential(layers)
    >>> model.compile("sgd", "mse")
    >>> x, y = np.random.normal(size=[64, 3]), np.ones([64, 3])
    >>> summaries = tfc.callbacks.CodeSummaries("runs/codes", x)
    >>> _ = model.fit(x, y, callbacks=[summaries], verbose=0)
    >>> len(tf.io.gfile.listdir("runs/codes"))
    1
    """

    def __init__(
        self,
        log_dir: str | os.PathLike,
        data: Any,
        layers: Sequence[str] | None = None,
        images: int = 8,
        image_shape: Sequence[int] | None = None,
        every: int = 1,
    ) -> None:
        super().__init__(every)
        self.log_dir = os.fspath(log_dir)
        if isinstance(data, tf.data.Dataset):
            data = keras.utils.unpack_x_y_sample_weight(next(iter(data)))[0]
        self.data = keras.tree.map_structure(np.asarray, data)
        self.layers = layers
        self.images = check_count(images, "images", minimum=0)
        if image_shape is not None and len(image_shape) not in (2, 3):
            expected = "None, `(height, width)` or `(height, width, channels)`"
            raise invalid_value("image_shape", expected, image_shape)
        self.image_shape = image_shape
        if importlib.util.find_spec("tensorboard") is None:
            raise ImportError(
                "Event files are written with TensorBoard's help. Install it with "
                "`pip install tensorboard`."
            )

    def on_train_begin(self, logs: dict | None = None) -> None:
        super().on_train_begin(logs)
        self._names = {layer.name for layer in layers_with(self.model, "variable", self.layers)}
        self._writes = is_chief(self.model.distribute_strategy)
        writer = tf.summary.create_file_writer(self.log_dir) if self._writes else None
        self._writer = writer or tf.summary.create_noop_writer()
        self._wrote_data = False

    def on_train_end(self, logs: dict | None = None) -> None:
        self._writer.close()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if not self.is_due(epoch) or not self._writes:
            return
        with self._writer.as_default(step=epoch), tf.summary.record_if(True):
            self._write_codes()
            if self.images and hasattr(self.model, "decode"):
                self._write_images()
        self._writer.flush()

    def _write_codes(self):
        states = {
            layer.name: layer.variable.num_states for layer in layers_with(self.model, "variable")
        }
        found = {}
        data = keras.tree.map_structure(tf.convert_to_tensor, self.data)
        argmax = inference_mode(self.model, "argmax")
        with preserved_state(self.model), argmax, record_codes() as records:
            self.model(data, training=False)
        for record in records:
            if record.name in self._names:
                found.setdefault(record.name, []).append(tf.reshape(record.codes, [-1]))
        for name, codes in found.items():
            codes = tf.concat(codes, 0)
            count = states[name] or int(tf.reduce_max(codes)) + 1
            _write_bars(f"codes/{name}", codes, count)
            tf.summary.histogram(f"usage/{name}", category_usage(codes, count).frequencies)

    def _write_images(self):
        first = self.data[: self.images]
        pictures = {
            "decoded": self.model.decode(self.model.encode(first)),
            "generated": self.model.generate(self.images, seed=0),
        }
        if not self._wrote_data:
            pictures["data"] = first
            self._wrote_data = True
        for name, values in pictures.items():
            values = self._as_images(np.asarray(values, np.float32))
            if values is not None:
                tf.summary.image(name, np.clip(values, 0.0, 1.0), max_outputs=self.images)

    def _as_images(self, values):
        """`[n, height, width, channels]`, or None where these are no images."""
        if self.image_shape is not None:
            values = values.reshape([len(values), *self.image_shape])
        if values.ndim == 3:
            values = values[..., np.newaxis]
        return values if values.ndim == 4 and values.shape[-1] in (1, 3, 4) else None


def _write_bars(tag, codes, num_classes):
    """A histogram with one bar for each class, around its number.

    `tf.summary.histogram` spreads its bars from the smallest code used to the largest.
    """
    metadata = importlib.import_module("tensorboard.plugins.histogram.metadata")
    numbers = tf.range(num_classes, dtype=tf.float64)
    counts = tf.math.bincount(tf.maximum(codes, 0), tf.cast(codes >= 0, tf.float64), num_classes)
    bars = tf.stack([numbers - 0.5, numbers + 0.5, counts], axis=-1)
    tf.summary.write(tag, bars, metadata=metadata.create_summary_metadata(None, None))
