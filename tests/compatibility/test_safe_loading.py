"""`.keras` files load with `safe_mode=True` and no `custom_objects`; nothing is pickled."""

import ast
import pathlib
import subprocess
import sys
import zipfile

import keras
import numpy as np
import pytest

from tests.devices.models import MODELS, PIXELS
from tests.devices.sampling_layers import LAYERS, OTHER_LAYERS

ROOT = pathlib.Path(__file__).parents[2]
# What holds functions or classes of this test's own, which whoever loads it must bring.
OF_THE_TEST = ("DistributionSample", "SamplingLayer", "Replicated", "BoundModel")


def _slug(name):
    return "".join(letter if letter.isalnum() else "_" for letter in name)


def in_models():
    """`{name: (model, x)}`: every layer inside a functional model, and every model."""
    x = np.random.default_rng(0).normal(size=[5, 12]).astype("float32")
    for name, make in LAYERS.items():
        inputs = keras.Input((12,))
        logits = keras.layers.Reshape((3, 4))(keras.layers.Dense(12)(inputs))
        is_pair = name.startswith("IGR")
        outputs = make()([logits, logits] if is_pair else logits)
        yield name, keras.Model(inputs, outputs), x
    for name, make in OTHER_LAYERS.items():
        layer, example = make()
        if name.startswith(OF_THE_TEST) or isinstance(example, (tuple, list)):
            continue
        inputs = keras.Input(example.shape[1:])
        yield name, keras.Model(inputs, layer(inputs)), np.ones(example.shape, "float32")
    for name, make in MODELS.items():
        if not name.startswith(OF_THE_TEST):
            model = make()
            model.compile("adam")
            yield name, model, np.ones([5, PIXELS], "float32")


@pytest.mark.slow
def test_every_layer_and_model_loads_elsewhere(tmp_path):
    names = []
    for name, model, x in in_models():
        path = tmp_path / f"{_slug(name)}.keras"
        outputs = keras.tree.flatten(model(x, training=False))
        model.save(path)
        arrays = {f"y{i}": np.asarray(value) for i, value in enumerate(outputs)}
        np.savez(path.with_suffix(".npz"), x=x, **arrays)
        names.append(path.stem)
        with zipfile.ZipFile(path) as archive:
            suffixes = {pathlib.Path(member).suffix for member in archive.namelist()}
        assert suffixes <= {".json", ".h5"}, name
    done = subprocess.run(
        [sys.executable, "-m", "tests.compatibility.loader", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == sorted(names)
    assert len(names) >= len(LAYERS) + len(MODELS)


def test_nothing_is_pickled():
    forbidden = {"pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
    for folder in ("tfconcrete", "keras_examples", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                names = set()
                if isinstance(node, ast.Import):
                    names = {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    names = {node.module.split(".")[0]}
                elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                    names = {"pickle"} if getattr(node.value, "value", True) else set()
                assert not names & forbidden, path
