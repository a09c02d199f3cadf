"""Training on several replicas and workers: what Keras leaves undone under `tf.distribute`."""

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from tfconcrete._workers import is_chief, is_multi_worker
from tfconcrete.layers.inference import all_layers
from tfconcrete.layers.seeded import SeededLayer
from tfconcrete.layers.tempered import TemperedLayer


def num_replicas():
    """How many replicas share the present step; 1 outside a strategy."""
    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def summed_over_replicas(value):
    """The sum of a scalar over the replicas of the present step, without gradient."""
    if num_replicas() == 1:
        return value
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.stop_gradient(value))


def batch_share(batch_size):
    """This replica's share of the examples of the whole step.

    Gradients are summed over the replicas: the mean over a replica's examples counts by this
    share, which differs from 1 / replicas where the last batch does not divide.
    """
    count = tf.cast(batch_size, tf.float32)
    return tf.math.divide_no_nan(count, summed_over_replicas(count))


def mean_over_replicas(values, weight=None):
    """The mean of values `[batch]` over all replicas; its gradient is the local mean's."""
    weight = tf.ones_like(values) if weight is None else tf.cast(weight, values.dtype)
    weight = tf.reshape(weight, tf.shape(values))
    total, count = tf.reduce_sum(weight * values), tf.reduce_sum(weight)
    local = tf.math.divide_no_nan(total, count)
    if num_replicas() == 1:
        return local
    everywhere = tf.math.divide_no_nan(summed_over_replicas(total), summed_over_replicas(count))
    return local + tf.stop_gradient(everywhere - local)


def clipped_together(optimizer, gradients):
    """A replica's gradients, which add up to what the optimizer's clipping makes of the sum.

    Keras clips the part of each replica, and adds them up afterwards.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if num_replicas() == 1 or not (inner.clipnorm or inner.global_clipnorm or inner.clipvalue):
        return gradients
    # A scaled loss is unscaled before the clipping.
    scale = optimizer.scale_loss(tf.ones([]))
    known = [tf.convert_to_tensor(x) / scale for x in gradients if x is not None]
    context = tf.distribute.get_replica_context()
    total = context.all_reduce(tf.distribute.ReduceOp.SUM, known)
    if inner.clipnorm:
        total = [tf.clip_by_norm(x, inner.clipnorm) for x in total]
    elif inner.global_clipnorm:
        total, _ = tf.clip_by_global_norm(total, inner.global_clipnorm)
    else:
        total = [tf.clip_by_value(x, -inner.clipvalue, inner.clipvalue) for x in total]
    shares = iter([x * scale / num_replicas() for x in total])
    return [None if x is None else next(shares) for x in gradients]


def refuse_parameter_servers(strategy):
    """Raises under a `ParameterServerStrategy`, which Keras 3 cannot `fit` with."""
    if isinstance(strategy, tf.distribute.ParameterServerStrategy):
        raise ValueError(
            "Invalid distribution strategy. Expected none, a `MirroredStrategy` or a "
            "`MultiWorkerMirroredStrategy`: Keras 3 does not train with `fit` under a "
            f"`ParameterServerStrategy`. Received: {type(strategy).__name__}"
        )


def check_settings(model):
    """Raises before training where Keras cannot distribute what the model was compiled with."""
    strategy = model.distribute_strategy
    refuse_parameter_servers(strategy)
    replicas = strategy.num_replicas_in_sync
    if replicas == 1 or not model.compiled:
        return
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    used = [
        ("steps_per_execution", model.steps_per_execution, 1, "cannot distribute such a step"),
        ("jit_compile", bool(model.jit_compile), False, "cannot compile a step of theirs"),
    ]
    for name in ("gradient_accumulation_steps", "ema_overwrite_frequency"):
        value = getattr(optimizer, name, None)
        value = None if name.startswith("ema") and not optimizer.use_ema else value
        used.append((name, value, None, "decides in the middle of a step, where replicas wait"))
    for loss in keras.tree.flatten(getattr(model, "loss", None)):
        reduction = getattr(loss, "reduction", None)
        if reduction in ("sum", "mean_with_sample_weight"):
            used.append(("reduction", reduction, "'sum_over_batch_size'", "takes means of parts"))
    for name, value, expected, why in used:
        if value != expected:
            raise ValueError(
                f"Invalid value received for argument `{name}`. Expected {expected} with "
                f"{replicas} replicas: Keras {why}. Received: {name}={value}. Compile the model "
                "again."
            )


@contextlib.contextmanager
def written_by_chief(strategy, path, overwrite=True):
    """Where to write a file that then appears whole, and only that of the chief.

    All workers must save, since reading metrics takes all of them, but one file is enough.
    It is written under another name and renamed: a run that is killed meanwhile finds the
    last whole one.
    """
    folder, name = os.path.split(os.path.abspath(os.fspath(path)))
    is_file = os.path.isdir(folder) and not os.path.isdir(path)
    if is_chief(strategy) and not (overwrite and is_file):
        yield path  # Keras has something to say or to ask about it
        return
    with tempfile.TemporaryDirectory(dir=folder if is_chief(strategy) else None) as other:
        written = os.path.join(other, name)
        yield written
        if is_chief(strategy):
            os.replace(written, path)


# Mixed into models, and checked as one.
if TYPE_CHECKING:
    from keras import Model as _Model
else:
    _Model = object


class Replicated(_Model):
    """Mends `fit`, `evaluate` and `predict` of a Keras model under `tf.distribute`.

    Put it before `keras.Model` in the bases of a model, functional or subclassed. Keras 3.15
    by itself cannot start `fit` on arrays with several workers, nor with a first batch that
    does not divide by the replicas, counts the examples of an uneven last batch by the wrong
    weights, and clips gradients before it adds them up. What Keras cannot distribute at all
    (`jit_compile=True`, `steps_per_execution` above 1, gradient accumulation, a moving average
    that overwrites weights) raises before training starts. Files of `save` and `save_weights`
    appear whole, whenever a run is killed; all workers call them, and worker 0 writes. The
    models of `tfc.models` have all this already.

    Example:

    >>> class ReplicatedModel(tfc.models.Replicated, keras.Model):
    ...     pass
    >>> inputs = keras.Input([3])
    >>> model = ReplicatedModel(inputs, tfc.ConcreteSample()(keras.layers.Dense(4)(inputs)))
    >>> model.compile("sgd", "mse")
    >>> history = model.fit(np.ones([8, 3]), np.ones([8, 4]), verbose=0)
    """

    def fit(self, *args, **kwargs) -> Any:
        """`keras.Model.fit`, after a look at what several replicas can run."""
        check_settings(self)
        return super().fit(*args, **kwargs)

    def evaluate(self, *args, **kwargs) -> Any:
        """`keras.Model.evaluate`, after the same look."""
        check_settings(self)
        return super().evaluate(*args, **kwargs)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        strategy = self.distribute_strategy
        if strategy.num_replicas_in_sync == 1 and not is_multi_worker(strategy):
            return super()._maybe_symbolic_build(iterator=iterator, data_batch=data_batch)
        if data_batch is None and iterator is not None:
            # The first replica's part is enough to know shapes by; Keras adds up all parts.
            for _, _, batches in iterator:
                batch = next(batches)
                data_batch = keras.tree.map_structure(
                    lambda x: strategy.experimental_local_results(x)[0], batch
                )
                break
        with strategy.scope():
            return self._symbolic_build(data_batch=data_batch)

    def train_step(self, data: Any) -> Any:
        if num_replicas() == 1 and not is_multi_worker(tf.distribute.get_strategy()):
            return super().train_step(data)
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        rows = tf.shape(keras.tree.flatten(x)[0])[0]
        share = batch_share(rows)
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            # Keras' losses are means over the local batch, divided by the replicas.
            loss = self.compute_loss(
                x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True
            )
            loss *= num_replicas()
            counted = tf.where(rows > 0, loss, tf.zeros_like(loss))
            scaled = self.optimizer.scale_loss(counted * tf.cast(share, loss.dtype))
        weights = self.trainable_weights
        gradients = clipped_together(self.optimizer, tape.gradient(scaled, weights))
        self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        self._loss_tracker.update_state(counted, sample_weight=rows)
        return self._as_logs(self.compute_metrics(x, y, y_pred, sample_weight=sample_weight))

    def test_step(self, data: Any) -> Any:
        return self._as_logs(super().test_step(data))

    def save(self, filepath: str | os.PathLike, overwrite: bool = True, **kwargs) -> None:
        """`keras.Model.save`: the file appears whole; every worker calls it."""
        with written_by_chief(self.distribute_strategy, filepath, overwrite) as path:
            return super().save(path, overwrite=overwrite, **kwargs)

    def save_weights(self, filepath: str | os.PathLike, overwrite: bool = True, **kwargs) -> None:
        """`keras.Model.save_weights`: the file appears whole; every worker calls it."""
        with written_by_chief(self.distribute_strategy, filepath, overwrite) as path:
            return super().save_weights(path, overwrite=overwrite, **kwargs)

    def _as_logs(self, logs):
        # Keras reduces the logs of several workers along their first dimension.
        if not is_multi_worker(tf.distribute.get_strategy()):
            return logs
        return {name: tf.reshape(value, [1]) for name, value in logs.items()}


def random_layers(model):
    """The layers of a model whose noise can be given for a whole step."""
    return [layer for layer in all_layers(model) if isinstance(layer, SeededLayer)]


def check_compilable(model):
    """Raises unless a replica's gradient can be compiled by XLA on its own.

    Inside such a function no variable may change that replicas share.
    """
    own = {id(variable) for layer in random_layers(model) for variable in layer.variables}
    for layer in all_layers(model):
        if isinstance(layer, (SeededLayer, keras.Model)):
            changes = isinstance(layer, SeededLayer) and bool(layer.metrics)
        else:
            changes = hasattr(layer, "seed_generator") or any(
                not v.trainable and id(v) not in own for v in layer.variables
            )
        if changes:
            raise ValueError(
                "Invalid value received for argument `jit_compile`. Expected False with "
                f"{model.distribute_strategy.num_replicas_in_sync} replicas: the layer "
                f"'{layer.name}' changes state in training, which XLA cannot share between "
                "replicas. Received: jit_compile=True. Compile the model again."
            )


def compiled_gradient(model, gradient):
    """`gradient(*tensors)` compiled by XLA for each replica, the noise drawn outside.

    Args:
        model: The model whose layers draw the noise.
        gradient: Function of tensors that reads variables and changes none.

    Returns:
        Function of the same tensors.
    """
    layers = random_layers(model)

    def with_noise(noise, *tensors):
        with contextlib.ExitStack() as stack:
            for layer, (seed, temperature) in zip(layers, noise, strict=True):
                stack.enter_context(layer.given_seed(seed))
                if temperature is not None:
                    stack.enter_context(layer.given_temperature(temperature))
            return gradient(*tensors)

    compiled = tf.function(with_noise, jit_compile=True, autograph=False)

    def run(*tensors):
        noise = [
            (
                layer.next_seed(),
                layer.current_temperature(advance=True)
                if isinstance(layer, TemperedLayer)
                else None,
            )
            for layer in layers
        ]
        return compiled(noise, *tensors)

    return run
