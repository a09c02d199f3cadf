"""The loop over cells: one after another, what is finished is skipped."""

import contextlib
import datetime
import functools
import gc
import os
import pathlib
import subprocess
import time

import keras
import tensorflow as tf

import tfconcrete
from keras_examples.common import fail
from keras_examples.reproduction.cells import rounded

CODE = ("tfconcrete", "keras_examples/*.py", "benchmarks")  # what a result depends on


class Context:
    """What every experiment needs beside its cell.

    Args:
        data_dir: TFDS directory, None for the embedded images.
        smoke: whether to train on a few images only.
        pause_file: while this file exists, a run waits at the end of its epoch.
    """

    def __init__(self, data_dir=None, smoke=False, pause_file=None):
        self.data_dir, self.smoke, self.pause_file = data_dir, smoke, pause_file
        self.progress = None

    def callbacks(self):
        return [self.progress] if self.progress else []


class Progress(keras.callbacks.Callback):
    """Says after an epoch how far the run is and how long it, and the rest, will take.

    Args:
        title: of the run.
        epochs: how many it has.
        later: CPU seconds that the cells after it will take, or None where nobody knows. This
            run tells how long a CPU second takes on a machine that does other things too.
        pause_file: while this file exists, training waits.
    """

    def __init__(self, title, epochs, later=None, pause_file=None):
        super().__init__()
        self.title, self.epochs, self.later, self.pause_file = title, epochs, later, pause_file
        self.start, self.cpu_start = time.monotonic(), time.process_time()
        self._said = 0.0
        self._cpu = []  # at the ends of epochs

    @property
    def cpu_per_epoch(self):
        """Without the first, in which everything is compiled; None before there is a second."""
        later = len(self._cpu) - 1
        return (self._cpu[-1] - self._cpu[0]) / later if later > 0 else None

    def on_epoch_end(self, epoch, logs=None):
        while self.pause_file is not None and pathlib.Path(self.pause_file).exists():
            time.sleep(5.0)
        self._cpu.append(cpu_seconds())
        self.say(epoch + 1, logs or {})

    def say(self, done, logs):
        now = time.monotonic()
        if now - self._said < 15.0 and done < self.epochs:
            return
        self._said = now
        taken = now - self.start
        left = taken / done * (self.epochs - done)
        shown = " ".join(f"{k} {logs[k]:.1f}" for k in ("loss", "val_loss") if k in logs)
        rest = ""
        if self.later is not None:
            cpu = time.process_time() - self.cpu_start
            pace = taken / cpu if cpu > 0.1 * taken else 1.0  # else another process works
            rest = f", {duration(left + pace * self.later)} for all"
        print(
            f"{self.title}: {done}/{self.epochs} {shown}, {duration(left)} left{rest}", flush=True
        )


def duration(seconds):
    """`"1:05:00"`"""
    return str(datetime.timedelta(seconds=round(seconds)))


def cpu_seconds():
    """What this process and its children have computed."""
    return sum(os.times()[:4])


@functools.cache
def commit():
    """The commit of the code that runs, None outside of a repository."""
    folder = pathlib.Path(__file__).parent
    commands = (["rev-parse", "--short=10", "HEAD"], ["status", "--porcelain", "--", *CODE])
    try:
        found, changes = (
            subprocess.run(
                ["git", *command], cwd=folder.parents[1], capture_output=True, text=True, check=True
            ).stdout.strip()
            for command in commands
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return found + ("+changes" if changes else "")


@contextlib.contextmanager
def locked(path):
    """Holds the lock of a file, so that one run at a time has the machine."""
    if path is None:
        yield
        return
    import fcntl

    try:
        pathlib.Path(path).touch()
    except OSError as error:
        fail(f"--lock {path}: {error.strerror}")
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another run to free {path}", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    time.sleep(1.0)  # whoever waits goes first


def seconds_per_unit(store, experiment, options):
    """CPU seconds of an epoch (or step) in finished cells, the median; None where none is.

    Those cells are asked that have the most options in common; of these the longest, in which
    compiling weighs least.
    """

    def common(result):
        return sum(options.get(name) == value for name, value in result["options"].items())

    finished = store.all(experiment)
    closest = max(map(common, finished), default=None)
    finished = [result for result in finished if common(result) == closest]
    longest = max((result["length"] for result in finished), default=None)
    rates = sorted(_rate(result) for result in finished if result["length"] == longest)
    return rates[len(rates) // 2] if rates else None


def _rate(result):
    """CPU seconds of an epoch of a cell; one that stopped early has fewer than its length."""
    trained = len(result.get("history", {}).get("loss", ())) or result["length"]
    return result.get("cpu_per_epoch") or result["cpu_seconds"] / trained


def expected_seconds(cells, store):
    """CPU seconds that cells will take, by those that are finished; None where one is unknown."""
    total = 0.0
    for cell in cells:
        rate = seconds_per_unit(store, cell.experiment, cell.settings)
        if rate is None:
            return None
        total += rate * cell.length
    return total


def run_cells(table, cells, experiments, store, context, lock=None):
    """Runs what is not there yet.

    Args:
        table: the `Table`, for its name in titles and commands.
        cells: `(row, cell)` pairs, in the order to run them.
        experiments: `{name: Experiment}`.
        store: the `Store`.
        context: the `Context`.
        lock: path of a file to lock during each run.
    """
    waiting = [(row, cell) for row, cell in cells if store.read(cell) is None]
    commit()  # of the code as it is now, whatever happens to its folder later
    print(f"{table.name}: {len(cells)} cells, {len(cells) - len(waiting)} finished", flush=True)
    for number, (row, cell) in enumerate(waiting):
        with locked(lock), store.claimed(cell) as is_ours:
            if not is_ours:
                print(f"{row.label}, seed {cell.seed}: another process runs it", flush=True)
                continue
            if store.read(cell) is not None:
                continue
            experiment = experiments[cell.experiment]
            title = f"{table.name} {number + 1}/{len(waiting)}: {row.label}, seed {cell.seed}"
            later = expected_seconds([later for _, later in waiting[number + 1 :]], store)
            own = expected_seconds([cell], store)
            expected = f", about {duration(own)} of CPU time" if own is not None else ""
            print(f"{title}: {cell.length} {experiment.unit}{expected}", flush=True)
            context.progress = Progress(title, cell.length, later, context.pause_file)
            gc.collect()
            tf.get_logger().setLevel("ERROR")  # many models, many traces: no advice on that
            begin, cpu = time.monotonic(), cpu_seconds()
            result = experiment.run(cell, context)
            result |= {
                "seconds": time.monotonic() - begin,
                "cpu_seconds": cpu_seconds() - cpu,
                "cpu_per_epoch": context.progress.cpu_per_epoch,
                "unit": experiment.unit,
                "command": command(table, row, cell),
                "date": datetime.date.today().isoformat(),
                "version": tfconcrete.__version__,
                "commit": commit(),
            }
            result = rounded(result)
            path = store.write(cell, result)
        value = "diverged" if result[table.measure] is None else f"{result[table.measure]:.4g}"
        print(f"wrote {path}: {table.measure} {value}", flush=True)


def command(table, row, cell):
    """The command line that runs this cell again."""
    return (
        f"python -m keras_examples.reproduce {table.name} --rows {row.slug} "
        f"--epochs {cell.length} --seed {cell.seed}"
    )
