"""`write_serving_config`: the text files that `tensorflow_model_server` is started with."""

import pathlib
import re

from tfconcrete._checks import check_count, check_flag, invalid_type, invalid_value
from tfconcrete.export.versions import check_path, versions


def write_serving_config(
    path,
    models=None,
    *,
    base_path=None,
    keep_versions=1,
    max_batch_size=128,
    batch_timeout_micros=1000,
    max_enqueued_batches=100,
    num_batch_threads=4,
    monitoring=True,
):
    """Writes `models.config`, `batching_parameters.txt` and `monitoring.config`.

    Start a server with them by

    ```
    tensorflow_model_server --rest_api_port=8501 --port=8500 \\
        --model_config_file=<path>/models.config \\
        --enable_batching --batching_parameters_file=<path>/batching_parameters.txt \\
        --monitoring_config_file=<path>/monitoring.config
    ```

    Args:
        path: Folder to write to. It is also where models are looked for.
        models: Folders of models (what `save_discrete` was given as `path`): a list of
            paths, or a dict from the name to serve it under to the path. None for
            `path` itself where that holds versions, else all its subfolders that do.
        base_path: None to write absolute paths, or the folder (such as `"/models"` in a
            container) under which the server finds each model by its folder's name.
        keep_versions: How many of the latest versions a server keeps loaded.
        max_batch_size: Rows that are run together at most; larger requests are split.
        batch_timeout_micros: How long a batch may wait for more rows.
        max_enqueued_batches: Batches that may wait before requests are turned away.
        num_batch_threads: Batches that run at the same time.
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
    check_count(keep_versions, "keep_versions")
    numbers = {
        "max_batch_size": check_count(max_batch_size, "max_batch_size"),
        "batch_timeout_micros": check_count(batch_timeout_micros, "batch_timeout_micros", 0),
        "max_enqueued_batches": check_count(max_enqueued_batches, "max_enqueued_batches"),
        "num_batch_threads": check_count(num_batch_threads, "num_batch_threads"),
    }
    check_flag(monitoring, "monitoring")
    batching = [f"{name} {{ value: {value} }}" for name, value in numbers.items()]
    # Without splitting, a request of more rows than a batch holds is an error.
    batching += [
        "enable_large_batch_splitting { value: true }",
        f"max_execution_batch_size {{ value: {numbers['max_batch_size']} }}",
    ]
    enabled = "true" if monitoring else "false"
    texts = {
        "models.config": _models_config(found, base_path, keep_versions),
        "batching_parameters.txt": "\n".join(batching) + "\n",
        "monitoring.config": "prometheus_config {\n"
        f'  enable: {enabled}\n  path: "/monitoring/prometheus/metrics"\n}}\n',
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return {name: str(folder / name) for name in texts}


def _find_models(folder, models):
    if models is None:
        candidates = [folder] if versions(folder) else sorted(folder.glob("*/"))
        found = {p.resolve().name: p for p in candidates if versions(p)}
        if not found:
            raise invalid_value(
                "path", "a folder with exported models (or give `models`)", str(folder)
            )
        return found
    if isinstance(models, (str, pathlib.Path)):
        models = [models]
    if isinstance(models, dict):
        found = {name: pathlib.Path(p) for name, p in models.items()}
    elif isinstance(models, (list, tuple)) and models:
        found = {pathlib.Path(p).resolve().name: pathlib.Path(p) for p in models}
    else:
        raise invalid_type("models", "None, or paths in a list or by name in a dict", models)
    if len(found) != len(models):
        raise invalid_value("models", "folders of different names (or a dict)", models)
    for name in found:
        if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+", name):
            raise invalid_value("models", "names of letters, digits, '_', '.', '-'", name)
    return found


def _quoted(text):
    return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _models_config(models, base_path, keep_versions):
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
