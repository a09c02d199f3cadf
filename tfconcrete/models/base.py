"""The one `train_step` of the package: a model says what its terms are, this does the rest."""

import math

import keras
import tensorflow as tf

from tfconcrete.layers.modes import sampling_layers
from tfconcrete.models.data import assert_finite_batch, check_finite_data

_LOG_2 = math.log(2.0)


class BoundModel(keras.Model):
    """A model that is trained on a relaxed bound and evaluated on the discrete one.

    Subclasses implement `_training_terms(x, y)` and `_discrete_terms(x, y)`. Both return a
    dict of `[batch]` tensors in nats, among them `"loss"`, the negative bound, and the
    metrics that `term_names` lists; `_training_terms` may add an `"auxiliary"` loss, and
    `_discrete_terms` has the `"relaxed_loss"`. `_target(x, y)` is what the likelihood
    describes.

    Metrics: `loss`, the terms, `bits_per_dim`, and in evaluation `discrete_gap`, by how many
    nats the discrete loss exceeds that of the relaxed model (with the same noise, so that the
    difference is less noisy than its terms; from 64 classes on draws have noise of their own).
    """

    term_names = ()

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        names = ("loss", *self.term_names, "bits_per_dim", "discrete_gap")
        self._means = {name: keras.metrics.Mean(name=name) for name in names}

    @property
    def metrics(self):
        return [*self._means.values(), *self._layer_metrics()]

    def _layer_metrics(self):
        """Metrics that sampling layers keep themselves."""
        return [metric for layer in sampling_layers(self) for metric in layer.metrics]

    def compile(self, optimizer="rmsprop", loss=None, metrics=None, **kwargs):
        """Configures training; the bound is the loss and has its own metrics.

        Args:
            optimizer: A Keras optimizer or its name.
            loss, metrics: Must be None.
            **kwargs: `jit_compile`, `steps_per_execution`, `run_eagerly` and the other
                arguments of `keras.Model.compile`.
        """
        for name, value in (("loss", loss), ("metrics", metrics)):
            if value is not None:
                raise ValueError(
                    f"Invalid value received for argument `{name}`. Expected None: a "
                    f"{type(self).__name__} is trained on its own bound and reports "
                    f"{', '.join(self._means)}. Received: {name}={value}"
                )
        if self._num_replicas() > 1 and kwargs.get("jit_compile", "auto") == "auto":
            kwargs["jit_compile"] = False
        super().compile(optimizer=optimizer, **kwargs)

    def compile_from_config(self, config):
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def fit(self, x=None, y=None, *args, validation_data=None, **kwargs):
        """`keras.Model.fit`, after checking the data and the distribution strategy."""
        self._check_distribution()
        return super().fit(
            check_finite_data(x, "x", self.jit_compile),
            check_finite_data(y, "y", self.jit_compile),
            *args,
            validation_data=check_finite_data(
                validation_data, "validation_data", self.jit_compile
            ),
            **kwargs,
        )

    def evaluate(self, x=None, y=None, *args, **kwargs):
        """`keras.Model.evaluate`: the discrete bound, with exact one-hot samples."""
        self._check_distribution()
        if not kwargs.get("_use_cached_eval_dataset", False):
            x = check_finite_data(x, "x", self.jit_compile)
            y = check_finite_data(y, "y", self.jit_compile)
        return super().evaluate(x, y, *args, **kwargs)

    def train_step(self, data):
        x, y, sample_weight = self._unpack(data)
        with tf.GradientTape() as tape:
            terms = self._training_terms(x, y)
            loss = self._total_loss(terms, sample_weight)
            # Gradients are summed over the replicas.
            scaled = self.optimizer.scale_loss(loss / self._num_replicas())
        weights = self.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(scaled, weights), weights, strict=True))
        self._after_step(terms)
        return self._report(x, y, terms, sample_weight)

    def test_step(self, data):
        x, y, sample_weight = self._unpack(data)
        terms = self._discrete_terms(x, y)
        terms["discrete_gap"] = terms["loss"] - terms["relaxed_loss"]
        return self._report(x, y, terms, sample_weight)

    def training_loss(self, x, y=None, sample_weight=None):
        """The scalar that `train_step` minimises, with the next noise of the latents."""
        return self._total_loss(self._training_terms(x, y), sample_weight)

    def _total_loss(self, terms, sample_weight):
        loss = _mean(terms["loss"] + terms.get("auxiliary", 0.0), sample_weight)
        return loss + _sum(self.losses)

    def _unpack(self, data):
        """A batch, asserted to be finite; XLA drops the assertion."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        self._ensure_built(x)
        return *assert_finite_batch((x, y)), sample_weight

    def _ensure_built(self, x):
        """Builds networks that did not know their input's shape, on the first data seen."""
        if not self.built:
            with tf.init_scope():
                self.build((None, *x.shape[1:]))

    def _training_terms(self, x, y):
        raise NotImplementedError

    def _discrete_terms(self, x, y):
        raise NotImplementedError

    def _target(self, x, y):
        return x

    def _after_step(self, terms):
        """What a model updates after each training step."""
        return  # AutoGraph cannot convert a body that is a docstring alone.

    def _report(self, x, y, terms, sample_weight):
        target = self._target(x, y)
        terms = dict(terms)
        terms["bits_per_dim"] = terms["loss"] / (self.likelihood.num_dims(target) * _LOG_2)
        logs = {}
        for name, mean in self._means.items():
            if name in terms:
                mean.update_state(terms[name], sample_weight)
                logs[name] = self._as_log(mean.result())
        for metric in self._layer_metrics():
            logs[metric.name] = self._as_log(metric.result())
        return logs

    def _as_log(self, value):
        # Keras reduces the logs of several workers along their first dimension.
        strategy = tf.distribute.get_strategy()
        several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        return tf.reshape(value, [1]) if several else value

    def _num_replicas(self):
        return self.distribute_strategy.num_replicas_in_sync

    def _check_distribution(self):
        """Keras cannot run several replicas with XLA or several steps per execution."""
        replicas = self._num_replicas()
        if replicas == 1 or not self.compiled:
            return
        for name, value, expected in (
            ("steps_per_execution", self.steps_per_execution, 1),
            ("jit_compile", bool(self.jit_compile), False),
        ):
            if value != expected:
                raise ValueError(
                    f"Invalid value received for argument `{name}`. Expected {expected} with "
                    f"{replicas} replicas: Keras cannot distribute the step otherwise. "
                    f"Received: {name}={value}. Compile the model again."
                )


def _mean(values, sample_weight):
    if sample_weight is not None:
        values *= tf.cast(sample_weight, values.dtype)
    return tf.reduce_mean(values)


def _sum(losses):
    return tf.add_n([tf.cast(loss, tf.float32) for loss in losses]) if losses else 0.0
