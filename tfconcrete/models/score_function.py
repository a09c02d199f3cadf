"""What models trained by a score-function estimator share: draws, surrogates, NVIL's state."""

from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import (
    check_choice,
    check_count,
    check_flag,
    check_number,
    invalid_type,
    invalid_value,
)
from tfconcrete._dtypes import working
from tfconcrete.estimators.surrogates import (
    nvil_surrogate,
    reinforce_surrogate,
    rloo_surrogate,
    vimco_surrogate,
)
from tfconcrete.layers.recorder import note_call
from tfconcrete.models.base import BoundModel
from tfconcrete.models.sampling import DiscreteSampling, unfold_rows
from tfconcrete.models.stacks import as_list, input_spec

_SURROGATES = {
    "reinforce": reinforce_surrogate,
    "vimco": vimco_surrogate,
    "rloo": rloo_surrogate,
}
_BASELINE_UNITS = 100
_EXPECTED = "a Keras model with an output [batch, 1]"


class ScoredSampling(DiscreteSampling):
    """Exact draws that keep the log probability of what was drawn.

    Args:
        latents, seeds: As in `DiscreteSampling`.
    """

    def __init__(self, latents, seeds):
        super().__init__(latents, seeds)
        self._posterior = None  # the parameters of z_1, `[batch, ...]`, for diagnostics
        self._log_q = 0.0

    def params(self, level, params):
        params = super().params(level, params)
        if self._posterior is None:
            self._posterior = params
        return params

    def sample(self, level, params):
        node, value = super().sample(level, params)
        latent = self._latents[level]
        self._log_q += latent.sum_variables(latent.variable.log_prob(value, params))
        note_call(latent.layer, params if level else self._posterior, value)
        return node, value

    def log_q(self, num_samples):
        """The log probability of all draws so far, `[num_samples, batch]`."""
        return unfold_rows(self._log_q, num_samples)


class ScoreFunctionTraining(BoundModel):
    """The estimator of a model, its state and its arguments; inherited before the model's own base.

    Attributes:
        estimators: `{name: (samples of each example by default, the fewest)}`.
    """

    estimators = {"reinforce": (1, 1), "nvil": (1, 1), "vimco": (5, 2), "rloo": (2, 2)}

    @classmethod
    def check_samples(cls, estimator, num_samples):
        """How many samples of each example an estimator takes, by default its own number."""
        default, minimum = cls.estimators[check_choice(estimator, "estimator", cls.estimators)]
        num_samples = default if num_samples is None else num_samples
        return check_count(num_samples, "num_samples", minimum)

    def set_estimator(self, estimator, baseline, normalize, decay):
        """Keeps the arguments of a model whose constructor has run, and makes NVIL's moments."""
        self.estimator = estimator
        self.normalize = check_flag(normalize, "normalize")
        self.decay = check_number(decay, "decay", "a number from 0 to 1", 0.0, 1.0)
        if estimator != "nvil" and baseline is not None:
            raise invalid_value("baseline", 'None unless estimator="nvil"', baseline)
        if baseline is not None and not isinstance(baseline, keras.layers.Layer):
            raise invalid_type("baseline", _EXPECTED, baseline)
        self.baseline = baseline
        self._has_own_baseline = baseline is not None
        if estimator == "nvil":
            self._moments = [
                self.add_weight(
                    name=name,
                    initializer="zeros",
                    trainable=False,
                    dtype="float32",
                    autocast=False,
                    aggregation="mean",
                )
                for name in ("signal_mean", "signal_variance")
            ]

    def build_baseline(self, x, *targets):
        """Makes NVIL's baseline where none was given, and sees that it fits.

        Args:
            x: `KerasTensor` of the data or the context, or a list of them.
            *targets: `KerasTensor` of what else it reads.
        """
        if self.estimator != "nvil":
            return
        specs = keras.tree.flatten([x, *targets])
        if not self._has_own_baseline:
            self.baseline = _default_baseline(specs)
        inputs = getattr(self.baseline, "inputs", None)
        if inputs and len(inputs) != len(specs):
            expected = f"a model of {len(specs)} inputs, not {len(inputs)}"
            raise invalid_value("baseline", expected, self.baseline)
        if self.baseline.built and any(None in spec.shape[1:] for spec in specs):
            return
        # A call builds what `build` leaves without weights.
        zeros = keras.tree.map_structure(_zeros, self._baseline_inputs(x, *targets))
        with tf.init_scope():
            value = self.baseline(zeros)
        if getattr(value, "shape", None) not in ((1,), (1, 1)):
            raise invalid_value("baseline", _EXPECTED, self.baseline)

    def _baseline_inputs(self, x, *targets):
        """What a baseline reads: x or `[x, y]`; the default one, a tensor after the other."""
        if self._has_own_baseline:
            return [x, *targets] if targets else x
        specs = keras.tree.flatten(input_spec(as_list(self.encoder)[0]))
        names = [spec.name for spec in specs if spec is not None]
        if isinstance(x, dict) and names and set(names) <= set(x):
            x = [x[name] for name in names]  # as the encoder picks them
        flat = keras.tree.flatten([x, *targets])
        return flat[0] if len(flat) == 1 else flat

    def check_scored(self, latents):
        """Raises unless the mass of what is drawn has a gradient."""
        for latent in latents:
            if latent.variable.num_params > 1:
                expected = "a layer of categorical or binary variables, not an IGRSample"
                raise invalid_type("latent", expected, latent.layer)

    def scored(self, terms, values, log_q, x, *targets):
        """Training terms with the estimator's loss.

        Args:
            terms: `{name: [batch]}`, the metrics.
            values: tensor `[m, batch]`, what is maximised, log weights for VIMCO.
            log_q: tensor `[m, batch]`.
            x, *targets: what NVIL's baseline reads, as in `build_baseline`.
        """
        if self.estimator != "nvil":
            return {**terms, "loss": -_SURROGATES[self.estimator](values, log_q)}
        seen = keras.tree.map_structure(tf.convert_to_tensor, self._baseline_inputs(x, *targets))
        baseline = tf.reshape(working(self.baseline(seen, training=True)), [-1])
        moments = [tf.convert_to_tensor(moment) for moment in self._moments]
        surrogate, auxiliary, moments = nvil_surrogate(
            values, log_q, baseline, moments, self.normalize, self.decay
        )
        return {**terms, "loss": -surrogate, "auxiliary": auxiliary, "moments": moments}

    def after_step(self, terms: dict[str, Any]) -> None:
        if "moments" in terms:
            for weight, value in zip(self._moments, terms["moments"], strict=True):
                weight.assign(value)

    def get_config(self) -> dict[str, Any]:
        own = self.baseline if self._has_own_baseline else None
        return {
            **super().get_config(),
            "estimator": self.estimator,
            "baseline": own and keras.saving.serialize_keras_object(own),
            "normalize": self.normalize,
            "decay": self.decay,
        }


def _zeros(spec):
    return tf.zeros([1 if size is None else size for size in spec.shape], spec.dtype)


def _default_baseline(specs):
    """100 tanh units that read everything in a row."""
    for spec in specs:
        if None in spec.shape[1:] or tf.as_dtype(spec.dtype) == tf.string:
            expected = "a model of one's own where data are no numbers or have no fixed size"
            raise invalid_value("baseline", expected, None)
    layers = [
        keras.layers.Dense(_BASELINE_UNITS, activation="tanh"),
        keras.layers.Dense(1),
    ]
    if len(specs) == 1:
        return keras.Sequential([keras.layers.Flatten(), *layers], name="baseline")
    inputs = [keras.Input(spec.shape[1:]) for spec in specs]
    value = keras.layers.Concatenate()([keras.layers.Flatten()(x) for x in inputs])
    for layer in layers:
        value = layer(value)
    return keras.Model(inputs, value, name="baseline")
