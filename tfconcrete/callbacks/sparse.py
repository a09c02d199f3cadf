"""Callbacks that run in some epochs only."""

import keras

from tfconcrete._checks import check_count


class SparseCallback(keras.callbacks.Callback):
    """Runs in the first epoch of a training, whatever its number, and every `every`-th.

    In the first, so that `CSVLogger` and whoever else fixes the columns then has all of them.

    Args:
        every: A whole number.
    """

    def __init__(self, every: int = 1) -> None:
        super().__init__()
        self.every = check_count(every, "every")
        self._has_run = False

    def on_train_begin(self, logs: dict | None = None) -> None:
        self._has_run = False

    def is_due(self, epoch: int) -> bool:
        """Whether to run at the end of this epoch; once asked, the first one is over."""
        is_due = epoch % self.every == 0 or not self._has_run
        self._has_run = True
        return is_due
