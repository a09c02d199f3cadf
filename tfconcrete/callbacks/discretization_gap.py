"""`DiscretizationGap`: what the discrete model loses against the relaxed one."""

from typing import Any

from tfconcrete.callbacks.sparse import SparseCallback
from tfconcrete.diagnostics.discretization_gap import evaluate_gap


class DiscretizationGap(SparseCallback):
    """Evaluates the model with relaxed and with discrete samples, every few epochs.

    For the loss and every metric `<name>` it logs `val_relaxed_<name>` (the training
    samples, all other layers in inference mode), `val_discrete_<name>` (discrete samples:
    exact draws in the models of `tfc.models` and where a layer says `inference="sample"`,
    else the argmax) and `val_argmax_<name>` (what is served); and two differences of losses:
    `discretization_gap`, discrete minus relaxed, and `argmax_gap`, argmax minus discrete,
    the one that matters for straight-through layers, whose training samples are exact draws.
    Of the models of `tfc.models` the relaxed loss alone is known. The model's seeds, schedules
    and other state are left alone, so training goes as it would without. A callback that
    monitors one of these (`keras.callbacks.ModelCheckpoint`) needs its `mode="min"`.

    Args:
        data: What `fit` takes as `validation_data`: `(x, y)`, `(x, y, sample_weight)`, a
            `tf.data.Dataset`, or the inputs alone.
        every: Evaluate in the first and then every `every`-th epoch.
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
    ['argmax_gap', 'discretization_gap', 'loss', 'val_argmax_loss', 'val_discrete_loss',
     'val_relaxed_loss']
    """

    def __init__(
        self, data: Any, every: int = 1, batch_size: int | None = None, steps: int | None = None
    ) -> None:
        super().__init__(every)
        self.data = data
        self._arguments = {"batch_size": batch_size, "steps": steps}

    def on_train_begin(self, logs: dict | None = None) -> None:
        super().on_train_begin(logs)
        self._functions = {}

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if logs is None or not self.is_due(epoch):
            return
        gap = evaluate_gap(self.model, self.data, self._functions, **self._arguments)
        for kind in ("relaxed", "discrete", "argmax"):
            values = getattr(gap, kind)
            logs.update({f"val_{kind}_{name}": value for name, value in values.items()})
        if "loss" in gap.gap:
            logs["discretization_gap"] = gap.gap["loss"]
            logs["argmax_gap"] = gap.argmax_gap["loss"]
