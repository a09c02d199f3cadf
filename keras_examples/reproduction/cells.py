"""One training run as a cell of a table, and the folder that keeps what was measured."""

import base64
import contextlib
import dataclasses
import json
import math
import os
import pathlib
import re
import sys
import zlib

import numpy as np

from keras_examples.common import fail


@dataclasses.dataclass(frozen=True)
class Cell:
    """A run: an experiment with its options, how long, and from which seed.

    Attributes:
        experiment: key of `EXPERIMENTS`.
        options: what sets this run apart from others of the experiment, `(name, value)` pairs.
        length: epochs, or steps where the experiment counts steps.
        seed: of all randomness.
    """

    experiment: str
    options: tuple
    length: int
    seed: int

    @property
    def settings(self):
        return dict(self.options)

    @property
    def name(self):
        """The cell's file name: the same options, in the same order, the same name."""
        values = "_".join(re.sub(r"[^\w.~-]", "", str(value)) for _, value in self.options)
        return f"{self.experiment}/{values}_{self.length}_seed{self.seed}"


class Store:
    """A folder with one JSON file for each finished cell.

    A file is written at once, under another name first, so that a killed run leaves nothing
    that could be taken for a result.

    Args:
        folder: where the files are.
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self._read = {}

    def path(self, cell):
        return self.folder / f"{cell.name}.json"

    def read(self, cell):
        """The result of a cell, None where it is not finished."""
        path = self.path(cell)
        if not path.exists():
            return None
        result, error = _read_result(path)
        if error:
            fail(error)
        if result["options"] != cell.settings:
            fail(f"{path} has the options {result['options']}, not {cell.settings}")
        return result

    def write(self, cell, result):
        path = self.path(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {**dataclasses.asdict(cell), "options": cell.settings, **result}
        unfinished = path.with_suffix(f".{os.getpid()}.tmp")
        lines = ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in content.items())
        unfinished.write_text("{\n" + lines + "\n}\n")
        os.replace(unfinished, path)
        self._read.pop(cell.experiment, None)
        return path

    def all(self, experiment):
        """The results of an experiment, in the order of their names."""
        if experiment not in self._read:
            paths = sorted((self.folder / experiment).glob("*.json"))
            found = [_read_result(path) for path in paths]
            self._read[experiment] = [result for result, error in found if not error]
            for error in filter(None, (error for _, error in found)):
                print(f"left out: {error}", file=sys.stderr)
        return self._read[experiment]

    @contextlib.contextmanager
    def claimed(self, cell):
        """Whether a cell is this process's to run: not while another process runs it."""
        try:
            import fcntl
        except ImportError:  # a system without such locks
            yield True
            return
        path = self.path(cell).with_suffix(".lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            try:
                yield True
            finally:
                path.unlink(missing_ok=True)


KEYS = {"experiment", "options", "length", "seed"}  # of every result


def _read_result(path):
    """`(result, None)` of a file, or `({}, what is wrong with it)`."""
    try:
        result = json.loads(path.read_text())
        wrong = "it lacks what every run has" if not set(result) >= KEYS else None
    except (ValueError, TypeError) as error:
        result, wrong = {}, error
    if wrong is None:
        return result, None
    return {}, f"{path} is no result of a run ({wrong}): delete it to run its cell again"


def rounded(value, digits=6):
    """Numbers of a nested structure with so many significant digits, None for what diverged."""
    if isinstance(value, dict):
        return {key: rounded(inner, digits) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(inner, digits) for inner in value]
    if isinstance(value, (bool, int, str)) or value is None:
        return value
    number = float(value)
    return float(f"{number:.{digits}g}") if math.isfinite(number) else None


def packed(values):
    """Numbers in [0, 1] as text, to 1/255: images and points of the simplex for figures."""
    values = np.asarray(values)
    content = zlib.compress(np.uint8(np.round(255 * values)).tobytes(), 9)
    return {"shape": list(values.shape), "content": base64.b64encode(content).decode()}


def unpacked(text):
    """The array behind `packed`."""
    content = zlib.decompress(base64.b64decode(text["content"]))
    return np.frombuffer(content, np.uint8).reshape(text["shape"]) / np.float32(255)
