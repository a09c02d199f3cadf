"""`GradientDiagnostics`: the gradients that reach the logits, and the classes in use."""

import warnings
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import check_count, invalid_type
from tfconcrete.callbacks.chosen_layers import layers_with, prefixes
from tfconcrete.callbacks.sparse import SparseCallback
from tfconcrete.diagnostics.category_usage import category_usage
from tfconcrete.diagnostics.gradient_statistics import gradient_variance, vanishing_gradients
from tfconcrete.layers import preserved_state, record_calls


class GradientDiagnostics(SparseCallback):
    """Logs the variance of the gradient at the logits, vanishing gradients, class usage.

    At the end of an epoch the loss is differentiated `num_samples` times on the same
    batch, each time with new noise. For each sampling layer this logs

    - `gradient_variance`: the variance of the gradient with respect to the layer's
      logits, averaged over its entries (GST, Figure 3);
    - `vanishing_gradients`: the share of its entries that are exactly zero (IGR,
      Figure 4);
    - `perplexity`: exp of the entropy of the class frequencies, averaged over the
      variables of the layer;
    - `dead_classes`: how many classes are never drawn, over all variables. A warning
      says when classes have died.

    With several layers each name is preceded by `<layer>_`. The model's weights, seeds,
    schedules and other state are left alone, so training goes as it would without.

    Args:
        data: One batch: `(x, y)`, `(x, y, sample_weight)` or x alone; or a
            `tf.data.Dataset`, whose first batch is taken. It should be large against the
            number of classes, else rare classes look dead.
        layers: The sampling layers, or their names; None for all of the model.
        num_samples: How many gradients to draw, at least 2.
        every: Run in the first and then every `every`-th epoch.
        loss: None for the loss of training (a `tfc.models` model's bound, the compiled
            loss of another), or a callable `loss(model, x, y, sample_weight)` that calls
            the model in training mode.

    Example:

    >>> layers = [keras.Input([3]), keras.layers.Dense(3), tfc.ConcreteSample()]
    >>> model = keras.Sequential(layers)
    >>> model.compile("sgd", "mse")
    >>> x, y = np.random.normal(size=[64, 3]), np.ones([64, 3])
    >>> callback = tfc.callbacks.GradientDiagnostics((x, y))
    >>> history = model.fit(x, y, callbacks=[callback], verbose=0)
    >>> sorted(history.history)
    ['dead_classes', 'gradient_variance', 'loss', 'perplexity', 'vanishing_gradients']
    """

    def __init__(
        self,
        data: Any,
        layers: Sequence[str] | None = None,
        num_samples: int = 10,
        every: int = 1,
        loss: Any = None,
    ) -> None:
        super().__init__(every)
        if loss is not None and not callable(loss):
            raise invalid_type("loss", "None or a callable", loss)
        self.data = data
        self.layers = layers
        self.num_samples = check_count(num_samples, "num_samples", minimum=2)
        self.loss = loss

    def on_train_begin(self, logs: dict | None = None) -> None:
        super().on_train_begin(logs)
        self._found = layers_with(self.model, "temperature", self.layers)
        self._num_classes = {}
        self._dead = {}
        self._draw = tf.function(self._draw_gradients)
        data = self.data
        if isinstance(data, tf.data.Dataset):
            data = next(iter(data))
        self._batch = keras.tree.map_structure(
            lambda x: None if x is None else tf.convert_to_tensor(x),
            keras.utils.unpack_x_y_sample_weight(data),
        )

    def _compiled_loss(self, model, x, y, sample_weight):
        if hasattr(model, "training_loss"):
            return model.training_loss(x, y, sample_weight)
        y_pred = model(x, training=True)
        return model.compute_loss(
            x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True
        )

    def _draw_gradients(self, x, y, sample_weight):
        """For each layer the gradients at its logits, and the codes drawn, call by call."""
        loss_of = self.loss or self._compiled_loss
        with tf.GradientTape() as tape, record_calls() as calls:
            # Logits that depend on no weight are differentiated too.
            for tensor in keras.tree.flatten(x):
                if tensor.dtype.is_floating:
                    tape.watch(tensor)
            loss = loss_of(self.model, x, y, sample_weight)
        logits, codes = [], []
        for layer in self._found:
            own = [call for call in calls if call[0] is layer]
            if not own:
                raise ValueError(f"Layer '{layer.name}' was not called with the model.")
            logits.append([call[1] for call in own])
            variable = layer.variable
            codes.append([variable.codes_of(layer.from_output(call[2])) for call in own])
            shapes = keras.tree.map_structure(lambda x: x.shape, own[0][1])
            self._num_classes[layer.name] = variable.states_along(shapes)
        gradients = tape.gradient(loss, logits, unconnected_gradients="zero")
        return list(zip(gradients, codes, strict=True))

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if logs is None or not self.is_due(epoch):
            return
        with preserved_state(self.model):
            draws = [self._draw(*self._batch) for _ in range(self.num_samples)]
        for index, (layer, prefix) in enumerate(prefixes(self._found)):
            gradients, codes = zip(*(draw[index] for draw in draws), strict=True)
            gradients = tf.nest.map_structure(lambda *g: tf.stack(g), *gradients)
            logs[f"{prefix}gradient_variance"] = float(gradient_variance(gradients))
            logs[f"{prefix}vanishing_gradients"] = float(vanishing_gradients(gradients))
            drawn = [tf.concat(c, 0) for c in zip(*codes, strict=True)]
            usages = [category_usage(c, self._num_classes[layer.name]) for c in drawn]
            perplexities = tf.concat([tf.reshape(u.perplexity, [-1]) for u in usages], 0)
            dead = sum(int(tf.reduce_sum(u.dead_classes)) for u in usages)
            logs[f"{prefix}perplexity"] = float(tf.reduce_mean(perplexities))
            logs[f"{prefix}dead_classes"] = dead
            self._warn(layer, dead, epoch)

    def _warn(self, layer, dead, epoch):
        if dead > self._dead.get(layer.name, 0):
            warnings.warn(
                f"Epoch {epoch + 1}: {dead} classes of layer '{layer.name}' are never drawn "
                f"on this batch (before: {self._dead.get(layer.name, 0)}). A higher "
                "temperature, or a larger weight of the KL term, may bring them back.",
                stacklevel=2,
            )
        self._dead[layer.name] = dead
