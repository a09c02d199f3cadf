"""`save_discrete`: a trained model as a SavedModel whose sampling layers are argmaxes."""

import os
import warnings
from typing import Any

import keras
import tensorflow as tf

from tfconcrete._checks import check_flag, check_number, invalid_type, invalid_value
from tfconcrete._workers import is_chief
from tfconcrete.diagnostics.discretization_gap import evaluate_in_mode
from tfconcrete.export.changes import signature_changes
from tfconcrete.export.graph import strip_xla
from tfconcrete.export.signatures import make_endpoints, warmup_requests
from tfconcrete.export.versions import check_path, check_version, new_version
from tfconcrete.export.warmup import check_examples, serving_protos, write_warmup
from tfconcrete.layers import sampling_layers


def save_discrete(
    model: keras.Model,
    path: str | os.PathLike,
    version: int | None = None,
    *,
    warmup: Any = None,
    validation_data: Any = None,
    max_gap: float | None = None,
    new_signature: bool = False,
) -> str | os.PathLike | None:
    """Writes `<path>/<version>/`, a SavedModel for TF Serving with discrete argmaxes.

    `serving_default` gives the model's outputs, every sampling layer in argmax mode, and
    for each call of a sampling layer its int32 codes as `<layer name>_codes` (then
    `_codes_1`, ... for further calls of it; `[batch, time, ...]` under `TimeDistributed`).
    A layer called inside a loop or a branch has no such output: return its codes from the
    model. A code is -1, and the output NaN, where a logit is NaN. Inputs and outputs have
    the model's names, the batch of any size first, and float32 for floats whatever the dtype
    policy; other dtypes are those of the model's inputs, for a subclassed model those of its
    first call. Names that Keras makes up (`dense_7`, for which there are others in the next
    process) are counted anew inside the model (`dense`, `dense_1`), and inputs without a
    name are `x` (`x_0`, `x_1` where there are several): they stay when the same code
    exports again, and a hot swap breaks no client.

    A model with a method `signatures()` has the signatures that it returns: those of
    `tfc.models` are `encode` (to codes), `decode` (from codes; NaN for what is no code) and
    `generate` (from int32 seeds `[batch, 2]`, one image a row), the only one with random ops.

    The artifact holds the weights that the signatures read, once, and nothing else: no
    optimizer, no seed, no Python. It appears by one rename: a server sees the whole
    version or none, and an existing version is never touched.

    Args:
        model: A built Keras model with sampling layers: functional, sequential,
            subclassed, nested, or one of `tfc.models`.
        path: Folder of the model; made where it is missing.
        version: A free version number of at least 1; None for the next one.
        warmup: None, or a batch of examples as the model takes them (an array, a list,
            or a dict by input name), from which a warm-up request for every signature is
            made. Needs the `serving` extra.
        validation_data: None, or what `fit` takes as `validation_data`, for `max_gap`.
        max_gap: None, or how much larger the loss with the served argmax may be than that
            with the training samples (relaxed, or the exact draws of a straight-through
            layer) on `validation_data`; a larger one raises, and nothing is written.

        new_signature: Whether names, dtypes and shapes of the signatures are meant to
            differ from those of the latest version in `path`. Otherwise a difference is
            warned of, since clients of a server that changes over to the new version
            would meet it.

    Returns:
        The path of the version, of the type of `path`; None on the workers of a
        `MultiWorkerMirroredStrategy` other than the chief, which alone writes.

    Example:

    >>> inputs = keras.Input([8], name="image")
    >>> logits = keras.layers.Reshape([2, 3])(keras.layers.Dense(6)(inputs))
    >>> model = keras.Model(inputs, tfc.ConcreteSample(name="z")(logits))
    >>> tfc.export.save_discrete(model, "served/model")
    'served/model/1'
    >>> served = tf.saved_model.load("served/model/1").signatures["serving_default"]
    >>> sorted(served(image=tf.ones([5, 8])))
    ['z', 'z_codes']
    """
    folder = check_path(path)
    check_version(folder, version)
    _check_model(model)
    check_flag(new_signature, "new_signature")
    if warmup is not None:
        serving_protos("prediction_log_pb2")
    endpoints = make_endpoints(model)
    requests = {}
    if warmup is not None:
        examples = check_examples(warmup, endpoints[0].specs)
        requests = warmup_requests(endpoints, examples)
    _check_gap(model, validation_data, max_gap)
    if not is_chief(model.distribute_strategy):
        return None
    with new_version(folder, version) as (incomplete, result):
        _write(endpoints, incomplete)
        if requests:
            write_warmup(incomplete, folder.resolve().name, requests)
        changes = [] if new_signature else signature_changes(incomplete, folder)
    if changes:
        warnings.warn(
            f"{result['path']} has other signatures than the version before it, which clients "
            f"will meet when a server changes over: {'; '.join(changes)}. (Say "
            "`new_signature=True` where this is meant.)",
            stacklevel=2,
        )
    return type(path)(result["path"]) if isinstance(path, str) else result["path"]


def _check_model(model):
    if not isinstance(model, keras.Model):
        raise invalid_type("model", "a `keras.Model`", model)
    if not model.built:
        raise ValueError(
            f"Cannot export the model '{model.name}': it has not been built, so its weights "
            "and the shapes of its inputs are unknown. Call it once on a batch (or `fit` "
            "it) first."
        )
    if not sampling_layers(model):
        raise invalid_value(
            "model",
            "a model with a sampling layer of `tfc.layers`; for one without, use `model.export`",
            model,
        )


def _check_gap(model, validation_data, max_gap):
    if max_gap is None:
        return
    check_number(max_gap, "max_gap", "a non-negative number", 0.0)
    if validation_data is None:
        raise ValueError(
            "Invalid arguments. Expected `validation_data` with `max_gap`. Received: "
            f"max_gap={max_gap} and no `validation_data`"
        )
    if not getattr(model, "compiled", False):
        raise ValueError(
            f"Cannot compare the losses of the model '{model.name}': it is not compiled. "
            "Call `compile` with its loss before an export with `max_gap`."
        )
    relaxed, discrete = (
        evaluate_in_mode(model, validation_data, mode)["loss"] for mode in ("relaxed", "argmax")
    )
    gap = discrete - relaxed
    if not gap <= max_gap:
        raise ValueError(
            f"Not exported: the loss with the served argmax is {discrete:.6g}, that with "
            f"training samples {relaxed:.6g} on the validation data, worse by {gap:.6g}, "
            f"which is more than max_gap={max_gap}. Train at a lower temperature, or longer."
        )


def _write(endpoints, folder):
    module = tf.Module(name="discrete")
    variables = {id(v): v for endpoint in endpoints for v in endpoint.variables}
    module.weights = list(variables.values())
    module.resources = list(
        {id(r): r for endpoint in endpoints for r in endpoint.resources}.values()
    )
    tf.saved_model.save(
        module,
        os.fspath(folder),
        signatures={endpoint.name: endpoint.function for endpoint in endpoints},
        options=tf.saved_model.SaveOptions(experimental_custom_gradients=False),
    )
    strip_xla(folder)
