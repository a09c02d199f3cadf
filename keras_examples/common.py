"""What every example shares: its command line, and errors of one line."""

import argparse
import pathlib
import sys

import keras


def fail(message):
    """Ends the example with one clear line and exit code 2."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage above it."""

    def error(self, message):
        fail(message)


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults, except those that say nothing."""

    def _get_help_string(self, action):
        silent = action.default is None or action.default is False
        return action.help if silent else super()._get_help_string(action)


def parser(description, epochs=None, data=False):
    """The options that examples have in common.

    Args:
        description: the example's docstring; its first line is shown by --help.
        epochs: default of --epochs; no such option where None.
        data: whether the example reads data (adds --data-dir).
    """
    options = OneLineParser(
        description=description.strip().splitlines()[0],
        formatter_class=HelpFormatter,
    )
    options.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("output"), help="folder to write to"
    )
    options.add_argument("--seed", type=int, default=0, help="seed of all randomness")
    options.add_argument("--smoke", action="store_true", help="a run of seconds, for testing")
    if epochs is not None:
        options.add_argument("--epochs", type=int, default=epochs, help="passes over the data")
    if data:
        options.add_argument(
            "--data-dir",
            type=pathlib.Path,
            default=None,
            help="TFDS directory with the full data (default: the embedded 6,000 images)",
        )
    return options


def positive(text):
    """The type of an option that takes a positive number."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be positive, not {text}")
    return value


def not_negative(text):
    """The type of an option that takes a positive number or zero."""
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must not be negative, not {text}")
    return value


def parse(options, arguments=None):
    """Parses the command line, checks the shared options and makes the output folder."""
    settings = options.parse_args(arguments)
    epochs = getattr(settings, "epochs", None)
    if epochs is not None and epochs < 1:
        fail(f"--epochs must be at least 1, not {epochs}")
    if not 0 <= settings.seed < 2**31:
        fail(f"--seed must be from 0 to {2**31 - 1}, not {settings.seed}")
    data_dir = getattr(settings, "data_dir", None)
    if data_dir is not None and not data_dir.is_dir():
        fail(f"--data-dir {data_dir} is not a folder")
    try:
        settings.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"--output {settings.output} cannot be made: {error.strerror}")
    return settings


def write_table(path, title, header, rows, note=""):
    """Writes a Markdown table, prints it, and returns its path.

    Args:
        path: file to write.
        title: heading above the table.
        header: names of the columns.
        rows: sequences of cells; floats are shown with two decimals.
        note: a paragraph below the table.
    """
    cells = [[f"{x:.2f}" if isinstance(x, float) else str(x) for x in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    lines = [
        "| " + " | ".join(x.ljust(width) for x, width in zip(row, widths, strict=True)) + " |"
        for row in (header, ["-" * width for width in widths], *cells)
    ]
    text = "\n".join([f"# {title}", "", *lines, *(["", note] if note else [])])
    path.write_text(text + "\n")
    print(text)
    return path


def save_figure(figure, folder, name):
    """Writes `<folder>/<name>.png`, closes the figure, and returns the path."""
    import matplotlib.pyplot as plt

    path = folder / f"{name}.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


class RunProgress(keras.callbacks.Callback):
    """One progress bar for a whole training run, for examples that train many.

    Args:
        name: what the run is called.
    """

    def __init__(self, name):
        super().__init__()
        self.name = name

    def on_train_begin(self, logs=None):
        print(self.name)
        self._bar = keras.utils.Progbar(self.params["epochs"], unit_name="epoch")

    def on_epoch_end(self, epoch, logs=None):
        shown = [(name, logs[name]) for name in ("loss", "val_loss") if name in logs]
        self._bar.stateful_metrics.update(name for name, _ in shown)
        self._bar.update(epoch + 1, shown)
