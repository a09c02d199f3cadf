"""Run by `test_safe_loading.py`: loads files in a process that knows nothing of their making."""

import pathlib
import sys

import keras
import numpy as np

import tfconcrete  # noqa: F401  registers its classes

for path in sorted(pathlib.Path(sys.argv[1]).glob("*.keras")):
    model = keras.models.load_model(path, safe_mode=True)
    with np.load(path.with_suffix(".npz")) as arrays:
        found = keras.tree.flatten(model(arrays["x"], training=False))
        for index, value in enumerate(found):
            np.testing.assert_array_equal(value, arrays[f"y{index}"], err_msg=path.stem)
    print(path.stem, flush=True)
