"""`write_serving_config`: the text files that `tensorflow_model_server` is started with."""

import os
import pathlib
import re
from typing import Any

from absl import logging
from google.protobuf import text_encoding

from tfconcrete._checks import check_count, check_flag, invalid_type, invalid_value
from tfconcrete.export.saved_model import read_meta_graph, variable_inputs
from tfconcrete.export.versions import check_path, version_folder, versions, write_files
from tfconcrete.export.warmup import warmup_rows

BATCHING_FILE = "batching_parameters.txt"
# Rows that run together unless the caller says otherwise.
_EXECUTION = 128


def write_serving_config(
    path: str | os.PathLike,
    models: Any = None,
    *,
    base_path: str | os.PathLike | None = None,
    keep_versions: int = 1,
    max_batch_size: int = 10_000,
    max_execution_batch_size: int | None = None,
    batch_timeout_micros: int = 1000,
    max_enqueued_batches: int = 1000,
    num_batch_threads: int = 4,
    pad_variable_length_inputs: bool = False,
    monitoring: bool = True,
) -> dict[str, str]:
    """Writes `models.config`, `batching_parameters.txt` and `monitoring.config`.

    Start a server with them by

    ```
    tensorflow_model_server --rest_api_port=8501 --port=8500 \\
        --model_config_file=<path>/models.config \\
        --monitoring_config_file=<path>/monitoring.config
    ```

    and, where batching pays, also

    ```
        --enable_batching --batching_parameters_file=<path>/batching_parameters.txt
    ```

    **When to turn batching on.** It runs the rows of several waiting requests together, so
    it pays where one run costs about the same for one row as for many (a GPU, wide layers)
    and where many clients wait at once. It makes no request faster: each may wait
    `batch_timeout_micros` for company. `savedmodels/README.md` has figures. With batching a
    request of 0 rows gets no answer and holds a thread of the server for good:
    `tfc.export.client` builds none, other clients must not either.

    **Inputs of variable length** (a dimension of any size beside the batch) cannot be
    batched as they are: requests of different lengths would get errors. Where a model has
    one, no batching file is written, and a warning says so, unless you ask for
    `pad_variable_length_inputs=True`. The server then pads every input to the longest of
    its batch **with the first element of the request**, not with zeros, and cuts nothing
    off again. The answers stay right only if the model learns the true length from another
    input (one number a row), ignores everything beyond it, and has outputs without the
    variable dimension. A Keras mask is no such input.

    Each file is replaced whole: a server that reads them meanwhile sees the old text or
    the new one.

    Args:
        path: Folder to write to. It is also where models are looked for.
        models: Folders of models (what `save_discrete` was given as `path`): a list of
            paths, or a dict from the name to serve it under to the path. None for
            `path` itself where that holds versions, else all its subfolders that do.
        base_path: None to write absolute paths, or the folder (such as `"/models"` in a
            container) under which the server finds each model by its folder's name.
        keep_versions: How many of the latest versions a server keeps loaded.
        max_batch_size: Rows that one request may have. Larger ones are refused, warm-up
            records too: one of more rows fails the load of its version.
        max_execution_batch_size: Rows that are run together at most; requests of more are
            split. None for 128, or `max_batch_size` where that is less.
        batch_timeout_micros: How long a batch may wait for more rows.
        max_enqueued_batches: Batches that may wait before requests are turned away. The
            largest request must fit: it is split into
            `max_batch_size / max_execution_batch_size` batches.
        num_batch_threads: Batches that run at the same time.
        pad_variable_length_inputs: Whether the server pads inputs of variable length; see
            above.
        monitoring: Whether the server offers Prometheus metrics.

    Returns:
        dict of the paths written, by file name.

    Example:

    >>> layers = [keras.Input([3], name="x"), tfc.ConcreteSample(name="z")]
    >>> _ = tfc.export.save_discrete(keras.Sequential(layers), "served/tiny")
    >>> files = tfc.export.write_serving_config("served", base_path="/models")
    >>> print(open(files["models.config"]).read())
    model_config_list {
      config {
        name: "tiny"
        base_path: "/models/tiny"
        model_platform: "tensorflow"
        model_version_policy { latest { num_versions: 1 } }
      }
    }
    <BLANKLINE>
    """
    folder = check_path(path)
    found = _find_models(folder, models)
    if base_path is not None and not isinstance(base_path, (str, os.PathLike)):
        raise invalid_type("base_path", "None or the path of a folder", base_path)
    check_count(keep_versions, "keep_versions")
    batching = _batching_text(
        max_batch_size,
        max_execution_batch_size,
        {
            "batch_timeout_micros": check_count(batch_timeout_micros, "batch_timeout_micros", 0),
            "max_enqueued_batches": check_count(max_enqueued_batches, "max_enqueued_batches"),
            "num_batch_threads": check_count(num_batch_threads, "num_batch_threads"),
        },
    )
    check_flag(monitoring, "monitoring")
    check_flag(pad_variable_length_inputs, "pad_variable_length_inputs")
    _check_warmup(found, max_batch_size)
    texts = {BATCHING_FILE: batching, "monitoring.config": _monitoring_text(monitoring)}
    if pad_variable_length_inputs:
        texts[BATCHING_FILE] += "pad_variable_length_inputs: true\n"
    unpadded = {} if pad_variable_length_inputs else _variable_models(found)
    if unpadded:
        del texts[BATCHING_FILE]
        logging.warning(
            "No %s is written: the lengths of inputs differ from request to request (%s). "
            "Start the server without --enable_batching, or read about "
            "`pad_variable_length_inputs` in the documentation of `write_serving_config`.",
            BATCHING_FILE,
            unpadded,
        )
    # Last: a server that polls it finds the others in place.
    texts["models.config"] = _models_text(found, base_path, keep_versions)
    write_files(folder, texts, remove=() if BATCHING_FILE in texts else (BATCHING_FILE,))
    return {name: str(folder / name) for name in sorted(texts)}


def _batching_text(max_batch_size, max_execution_batch_size, numbers):
    limit = check_count(max_batch_size, "max_batch_size")
    if max_execution_batch_size is None:
        max_execution_batch_size = min(_EXECUTION, limit)
    rows = check_count(max_execution_batch_size, "max_execution_batch_size")
    if rows > limit:
        raise invalid_value(
            "max_execution_batch_size", f"at most max_batch_size={limit} rows", rows
        )
    if numbers["max_enqueued_batches"] * rows < limit:
        raise invalid_value(
            "max_enqueued_batches",
            f"room for a request of max_batch_size={limit} rows, which is split into "
            f"{-(-limit // rows)} batches",
            numbers["max_enqueued_batches"],
        )
    # Without splitting, a request of more rows than a batch holds is an error.
    values = {
        "max_batch_size": limit,
        **numbers,
        "enable_large_batch_splitting": "true",
        "max_execution_batch_size": rows,
    }
    return "".join(f"{name} {{ value: {value} }}\n" for name, value in values.items())


def _variable_models(models):
    """What makes requests for a model differ in shape, by the model's name."""
    found = {}
    for name, path in models.items():
        numbers = versions(path)
        if numbers:
            meta_graph, _ = read_meta_graph(version_folder(path, numbers[-1]))
            inputs = variable_inputs(meta_graph) if meta_graph is not None else []
            if inputs:
                found[name] = inputs
    return found


def _check_warmup(models, max_batch_size):
    """Raises where a warm-up record of a model has more rows than a request may have."""
    for name, path in models.items():
        for number in versions(path):
            rows = warmup_rows(version_folder(path, number))
            if rows > max_batch_size:
                raise invalid_value(
                    "max_batch_size",
                    f"at least {rows}, the rows of a warm-up record of '{name}' (a server "
                    "would fail to load it)",
                    max_batch_size,
                )


def _monitoring_text(enabled):
    value = "true" if enabled else "false"
    path = '"/monitoring/prometheus/metrics"'
    return f"prometheus_config {{\n  enable: {value}\n  path: {path}\n}}\n"


def _find_models(folder, models):
    """The folders of models by the names to serve them under."""
    if isinstance(models, (str, pathlib.PurePath)):
        models = [models]
    if models is None:
        candidates = [folder] if versions(folder) else sorted(folder.glob("*/"))
        models = [candidate for candidate in candidates if versions(candidate)]
        if not models:
            raise invalid_value(
                "path", "a folder with exported models (or give `models`)", str(folder)
            )
    if not isinstance(models, (dict, list, tuple)) or not models:
        raise invalid_type("models", "None, or paths in a list or by name in a dict", models)
    for path in models.values() if isinstance(models, dict) else models:
        if not isinstance(path, (str, os.PathLike)):
            raise invalid_type("models", "paths of folders", models)
    if isinstance(models, dict):
        found = {name: pathlib.Path(path) for name, path in models.items()}
    else:
        found = {pathlib.Path(path).resolve().name: pathlib.Path(path) for path in models}
    if len(found) != len(models):
        raise invalid_value("models", "folders of different names (or a dict)", models)
    for name in found:
        if not isinstance(name, str) or not re.fullmatch(r"(?!\.+$)[A-Za-z0-9_.-]+", name):
            expected = "names of ASCII letters, digits, '_', '.', '-', as parts of URLs"
            raise invalid_value("models", f"{expected} (give others in a dict)", name)
    return found


def _quoted(text):
    """A name or path as the server reads it: UTF-8, whatever the locale makes of the path."""
    try:
        text = os.fsencode(text).decode("utf-8")
    except ValueError as error:
        raise invalid_value("models", "paths in UTF-8, as a server reads them", text) from error
    return f'"{text_encoding.CEscape(text, as_utf8=True)}"'


def _models_text(models, base_path, keep_versions):
    lines = ["model_config_list {"]
    for name, path in models.items():
        where = path.resolve()
        if base_path is not None:
            where = pathlib.PurePosixPath(base_path) / where.name
        lines += [
            "  config {",
            f"    name: {_quoted(name)}",
            f"    base_path: {_quoted(where)}",
            '    model_platform: "tensorflow"',
            f"    model_version_policy {{ latest {{ num_versions: {keep_versions} }} }}",
            "  }",
        ]
    return "\n".join([*lines, "}", ""])
