"""A long run in short: nothing is traced again, no object is left behind, memory is flat."""

import keras
import numpy as np
import pytest

from benchmarks import long_run


def records(slope, noise=0.0, number=40):
    rng = np.random.default_rng(0)
    return [
        {"epoch": 10 * i, "bytes": 1e9 + 10 * slope * i + noise * rng.normal()}
        for i in range(number)
    ]


def test_growth_is_the_slope():
    assert long_run.growth(records(3000.0)) == pytest.approx((3000.0, 0.0), abs=800.0)
    slope, error = long_run.growth(records(0.0, noise=1e5))
    assert abs(slope) < 4 * error
    slope, error = long_run.growth(records(5e4, noise=1e5))
    assert slope > 4 * error


@pytest.mark.slow
def test_a_leak_is_seen(monkeypatch):
    class Leak(keras.callbacks.Callback):
        kept = []

        def on_epoch_end(self, epoch, logs=None):
            self.kept.append([[] for _ in range(100)] + [np.zeros(2**17)])
            self.model.make_test_function(force=True)

    monkeypatch.setitem(long_run.CONTESTANTS, "leak", (long_run.plain, lambda x: [Leak()]))
    monkeypatch.setattr(long_run, "WARM_UP", 4)
    monkeypatch.setattr(long_run, "EVERY", 2)
    found = long_run.run("leak", minutes=5.0, epochs=29)
    assert long_run.growth(found, "objects")[0] >= 100
    assert long_run.growth(found)[0] > 0.5 * 2**20
    assert found[-1]["traces"] > found[0]["traces"]


@pytest.mark.slow
def test_a_run_with_everything_is_flat():
    found = long_run.in_a_process("tfconcrete, validation and callbacks", 15.0, epochs=131)
    assert [record["epoch"] for record in found] == list(range(20, 131, 10))
    for key in ("traces", "graphs"):
        assert found[-1][key] == found[0][key], key
    assert abs(long_run.growth(found, "objects")[0]) < 1.0
    # 34 to 67 KiB an epoch is what a graph or a dataset left behind each time would take, or
    # two of Keras' evaluations in early versions; an allocator's steps are a few.
    slope, error = long_run.growth(found)
    assert slope < 2**15 + 4 * error
