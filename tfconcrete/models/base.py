"""The one `train_step` of the package: a model says what its terms are, this does the rest."""

import math
import os
from typing import Any

import keras
import tensorflow as tf

from tfconcrete.layers import sampling_layers
from tfconcrete.layers.seeded import within_one_model
from tfconcrete.models.data import (
    assert_finite,
    assert_in_range,
)
from tfconcrete.models.fitting import Fitting
from tfconcrete.models.replicas import (
    batch_share,
    check_compilable,
    clipped_together,
    compiled_gradient,
)
from tfconcrete.models.signature import Signature, one_or_list
from tfconcrete.models.stacks import as_list, input_spec, is_given_name
from tfconcrete.objectives.likelihoods import Likelihood, get_likelihood

_LOG_2 = math.log(2.0)


class BoundModel(Fitting):
    """A model that is trained on a relaxed bound and evaluated on the discrete one.

    Subclasses have an `encoder` (a Keras model from x, or a list whose first one is that)
    and implement

    - `training_terms(x, y)`: a dict of `[batch]` tensors in nats, among them `"loss"`, the
      negative bound, and the metrics that `term_names` lists; an `"auxiliary"` loss may be
      added, and anything else that `after_step` wants;
    - `discrete_terms(x, y)`: the same of the discrete model, with its `"relaxed_loss"`;
    - `target(x, y)` where the likelihood does not describe x, with `target_name`;
    - `signatures()` to serve more than `call`.

    Metrics: `loss`, the terms, `bits_per_dim`, and in evaluation `discretization_gap`, by how
    many nats the discrete loss exceeds that of the relaxed model.

    Args:
        likelihood: A name or a `tfc.objectives.Likelihood`.
        **kwargs: `name`, `dtype` and the other arguments of `keras.Model`.

    Example:

    >>> class Memory(tfc.models.BoundModel):
    ...     "A target remembered by one discrete variable, without a posterior."
    ...     target_name = "y"
    ...
    ...     def __init__(self, encoder, latent, decoder):
    ...         super().__init__("bernoulli")
    ...         self.encoder, self.latent, self.decoder = encoder, latent, decoder
    ...         self.built = True
    ...
    ...     def call(self, x, training=None):
    ...         z = self.latent(self.encoder(x), training=training)
    ...         return self.likelihood.mean(self.decoder(z))
    ...
    ...     def _loss(self, value, y):
    ...         return -self.likelihood.log_prob(y, self.decoder(value))
    ...
    ...     def training_terms(self, x, y):
    ...         return {"loss": self._loss(self.latent.sample(self.encoder(x)).value, y)}
    ...
    ...     def discrete_terms(self, x, y):
    ...         logits, seed = self.encoder(x), self.latent.next_seed()
    ...         relaxed = self.latent.sample(logits, seed=seed, advance=False).value
    ...         exact = self.latent.variable.draw(logits, seed=seed)
    ...         return {"loss": self._loss(exact, y), "relaxed_loss": self._loss(relaxed, y)}
    ...
    ...     def target(self, x, y):
    ...         return y
    >>> encoder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    >>> decoder = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> model = Memory(encoder, tfc.ConcreteSample(seed=0), decoder)
    >>> model.compile("adam")
    >>> x, y = np.ones([8, 4], "float32"), np.ones([8, 2], "float32")
    >>> sorted(model.fit(x, y, verbose=0).history)
    ['bits_per_dim', 'loss']
    """

    term_names: tuple[str, ...] = ()
    # Which argument of `fit` the likelihood describes, and what a server calls the output.
    target_name = "x"
    output_name = "mean"

    def __init__(self, likelihood: str | Likelihood = "bernoulli", **kwargs) -> None:
        super().__init__(**kwargs)
        self.likelihood = get_likelihood(likelihood)
        self._compiles_replicas = False
        names = ("loss", *self.term_names, "bits_per_dim", "discretization_gap")
        self._means = {name: keras.metrics.Mean(name=name) for name in names}
        self._reported = ()

    def training_terms(self, x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
        """What one training step minimises and reports, by name, each `[batch]`."""
        raise NotImplementedError(
            f"Model `{type(self).__name__}` must define `training_terms(x, y)`."
        )

    def discrete_terms(self, x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
        """What one evaluation step reports, by name, each `[batch]`."""
        raise NotImplementedError(
            f"Model `{type(self).__name__}` must define `discrete_terms(x, y)`."
        )

    def target(self, x: tf.Tensor, y: tf.Tensor) -> Any:
        """What the likelihood describes."""
        return x

    def weigh_terms(
        self, terms: dict[str, Any], sample_weight: tf.Tensor | None
    ) -> dict[str, tf.Tensor]:
        """The training terms, where some depend on the weights of the batch's examples."""
        return terms

    def after_step(self, terms: dict[str, Any]) -> None:
        """What a model updates after each training step."""
        return  # AutoGraph cannot convert a body that is a docstring alone.

    def params_shape(self) -> Any:
        """The shape of the likelihood's parameters, or None where it is not known."""
        return None

    def input_specs(self) -> dict[str, tf.TensorSpec]:
        """`tf.TensorSpec`s of x by name, the batch of any size first and floats as float32."""
        specs = input_spec(as_list(self.encoder)[0])
        flat = keras.tree.flatten(specs)
        names = ["x"] if len(flat) == 1 else [f"x_{index}" for index in range(len(flat))]
        names = [
            spec.name if is_given_name(spec.name) else name
            for spec, name in zip(flat, names, strict=True)
        ]
        return {
            name: tf.TensorSpec((None, *spec.shape[1:]), _served_dtype(spec.dtype), name=name)
            for spec, name in zip(flat, names, strict=True)
        }

    def signatures(self) -> dict[str, Signature]:
        """The `Signature`s that an export writes, by name: `serving_default` is the call."""

        def call(tensors):
            return {self.output_name: self(one_or_list(tensors), training=False)}

        return {"serving_default": Signature(call, self.input_specs())}

    @property
    def metrics(self) -> list:
        return [*self._means.values(), *self._layer_metrics()]

    def _layer_metrics(self):
        """Metrics that sampling layers keep themselves."""
        return [metric for layer in sampling_layers(self) for metric in layer.metrics]

    def compile(
        self, optimizer: Any = "rmsprop", loss: Any = None, metrics: Any = None, **kwargs
    ) -> None:
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
        self._compiles_replicas = False
        if self._num_replicas() > 1:
            # Keras cannot compile a step of several replicas; this step compiles the
            # gradient of each, and leaves what they share outside.
            self._compiles_replicas = kwargs.get("jit_compile", "auto") is True
            kwargs["jit_compile"] = False
        super().compile(optimizer=optimizer, **kwargs)
        if self.built:
            # Weights loaded into an optimizer that is not built yet are lost: a resumed run
            # (`BackupAndRestore`) would start with fresh moments.
            self.optimizer.build(self.trainable_variables)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        self.compile(**keras.saving.deserialize_keras_object(config))

    def export(self, filepath: str | os.PathLike, *args, **kwargs) -> None:
        """Not for these models: `tfc.export.save_discrete` writes their signatures."""
        raise NotImplementedError(
            f"A {type(self).__name__} is exported with "
            f"`tfc.export.save_discrete(model, {str(filepath)!r})`, which serves its discrete "
            "form and its other signatures. Received: a call of `model.export`"
        )

    @within_one_model()
    def _train(self, data):
        x, y, sample_weight = self._unpack(data)
        share = batch_share(tf.shape(keras.tree.flatten(x)[0])[0])
        gradient = self._gradient
        if self._compiles_replicas:
            gradient = compiled_gradient(self, gradient)
        terms, gradients = gradient(x, y, sample_weight, share)
        gradients = clipped_together(self.optimizer, gradients)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        self.after_step(terms)
        self._count(x, y, terms, sample_weight)

    def _gradient(self, x, y, sample_weight, share):
        """The terms of a batch, and the gradient of its part of the whole step's loss."""
        with tf.GradientTape() as tape:
            terms = self.weigh_terms(self.training_terms(x, y), sample_weight)
            # Gradients are summed over the replicas.
            loss = self._total_loss(terms, sample_weight)
            loss *= tf.cast(share, loss.dtype)
            scaled = self.optimizer.scale_loss(loss)
        return terms, tape.gradient(scaled, self.trainable_weights)

    @within_one_model()
    def _test(self, data):
        x, y, sample_weight = self._unpack(data)
        for layer in sampling_layers(self):
            layer.note_compiled(training=False, model=self)
        terms = self.discrete_terms(x, y)
        terms["discretization_gap"] = terms["loss"] - terms["relaxed_loss"]
        self._count(x, y, terms, sample_weight)

    @within_one_model()
    def training_loss(
        self, x: tf.Tensor, y: tf.Tensor | None = None, sample_weight: tf.Tensor | None = None
    ) -> Any:
        """The scalar that `train_step` minimises, with the next noise of the latents."""
        terms = self.weigh_terms(self.training_terms(x, y), sample_weight)
        return self._total_loss(terms, sample_weight)

    def _total_loss(self, terms, sample_weight):
        values = terms["loss"] + terms.get("auxiliary", 0.0)
        if sample_weight is not None:
            values *= tf.cast(sample_weight, values.dtype)
        # Not `reduce_mean`: a replica may be left without examples at the end of an epoch.
        count = tf.cast(tf.size(values), values.dtype)
        return tf.math.divide_no_nan(tf.reduce_sum(values), count) + _sum(self.losses)

    def _unpack(self, data):
        """A batch, asserted to be data of the likelihood; XLA drops the assertion."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        self.ensure_built(x)
        x, y = assert_finite((x, y))
        if self.target_name == "x":
            x = assert_in_range(x, self._limits())
        else:
            y = assert_in_range(y, self._limits())
        return x, y, sample_weight

    def ensure_built(self, x: tf.Tensor) -> None:
        """Builds networks that did not know their input's shape, on the first data seen."""
        if not self.built:
            with tf.init_scope():
                self.build((None, *x.shape[1:]))

    def _count(self, x, y, terms, sample_weight):
        """Adds the terms of a batch to the metrics that they are reported by."""
        terms = dict(terms)
        dims = self.likelihood.num_dims(self.target(x, y))
        terms["bits_per_dim"] = terms["loss"] / (dims * _LOG_2)
        self._reported = tuple(name for name in self._means if name in terms)
        for name in self._reported:
            self._means[name].update_state(terms[name], sample_weight)

    def _results(self):
        """What is logged of the metrics that the last batch has changed."""
        logs = {name: self._means[name].result() for name in self._reported}
        logs.update({metric.name: metric.result() for metric in self._layer_metrics()})
        return self._as_logs(logs)

    def check_compilable(self) -> None:
        """Raises unless XLA can compile the gradient of each of several replicas."""
        check_compilable(self)


def _sum(losses):
    return tf.add_n([tf.cast(loss, tf.float32) for loss in losses]) if losses else 0.0


def _served_dtype(dtype):
    dtype = tf.as_dtype(dtype)
    return tf.float32 if dtype.is_floating else dtype
