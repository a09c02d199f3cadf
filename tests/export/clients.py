"""Clients that ask a server without a pause."""

import threading
import time

import numpy as np


class Clients:
    """Threads that ask one thing for as long as the block lasts.

    Args:
        ask: Function that asks once and returns an array.
        expected: The right answer.
        count: How many ask at the same time.

    Attributes:
        right, wrong: Numbers of answers.
        failures: What was raised instead of an answer.
        seconds: How long each answer took.
    """

    def __init__(self, ask, expected, count):
        self.failures, self.wrong, self.right, self.seconds = [], 0, 0, []
        self._ask, self._expected, self._stop = ask, expected, threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run) for _ in range(count)]

    def _run(self):
        while not self._stop.is_set():
            start = time.perf_counter()
            try:
                answer = self._ask()
            except (OSError, RuntimeError) as error:
                self.failures.append(error)
                continue
            self.seconds.append(time.perf_counter() - start)
            same = np.array_equal(answer, self._expected)
            with self._lock:
                self.right, self.wrong = self.right + same, self.wrong + (not same)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()
