"""`DiscretizationGap`: what the discrete model loses against the relaxed one."""

import keras

from tfconcrete._checks import check_count
from tfconcrete.diagnostics.gap import evaluate_in_mode, make_gap


class DiscretizationGap(keras.callbacks.Callback):
    """Evaluates the model with relaxed and with discrete samples, every few epochs.

    For the loss and every metric `<name>` it logs `val_relaxed_<name>` (the training
    samples, all other layers in inference mode) and `val_discrete_<name>` (what is
    exported: the argmax, or exact draws where a layer says `inference="sample"`), and
    `discretization_gap`, the discrete loss minus the relaxed one. The model's seeds,
    schedules and other state are left alone, so training goes as it would without.

    Args:
        data: What `fit` takes as `validation_data`: `(x, y)`, `(x, y, sample_weight)`, a
            `tf.data.Dataset`, or the inputs alone.
        every: Evaluate in every `every`-th epoch.
        batch_size: As in `model.evaluate`.
        steps: As in `model.evaluate`.

    Example:

    >>> layers = [keras.Input([3]), keras.layers.Dense(3), tfc.ConcreteSample()]
    >>> model = keras.Sequential(layers)
    >>> model.compile("sgd", "mse")
    >>> x, y = np.ones([4, 3]), np.ones([4, 3])
    >>> callback = tfc.callbacks.DiscretizationGap((x, y))
    >>> history = model.fit(x, y, callbacks=[callback], verbose=0)
    >>> sorted(history.history)
    ['discretization_gap', 'loss', 'val_discrete_loss', 'val_relaxed_loss']
    """

    def __init__(self, data, every=1, batch_size=None, steps=None):
        super().__init__()
        self.data = data
        self.every = check_count(every, "every")
        self._arguments = {"batch_size": batch_size, "steps": steps}

    def on_train_begin(self, logs=None):
        self._functions = {}

    def on_epoch_end(self, epoch, logs=None):
        if logs is None or (epoch + 1) % self.every:
            return
        relaxed, discrete = (
            evaluate_in_mode(self.model, self.data, mode, self._functions, **self._arguments)
            for mode in ("relaxed", "discrete")
        )
        gap = make_gap(relaxed, discrete).gap
        logs.update({f"val_relaxed_{name}": value for name, value in relaxed.items()})
        logs.update({f"val_discrete_{name}": value for name, value in discrete.items()})
        if "loss" in gap:
            logs["discretization_gap"] = gap["loss"]
