"""Several replicas and several workers, in processes of their own."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import keras
import numpy as np
import psutil
import pytest
import tensorflow as tf

from tfconcrete._workers import is_chief, place_among_workers
from tfconcrete.models.replicas import (
    batch_share,
    mean_over_replicas,
    refuse_parameter_servers,
)

HERE = pathlib.Path(__file__).parent


@pytest.mark.slow
def test_two_replicas():
    script = HERE / "replicas.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "replicas agree" in done.stdout


def free_ports(number):
    sockets = [socket.socket() for _ in range(number)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


@pytest.mark.slow
def test_two_workers(tmp_path):
    hosts = [f"127.0.0.1:{port}" for port in free_ports(2)]
    # Both have the index 0: a chief and a worker.
    cluster = {"chief": hosts[:1], "worker": hosts[1:]}
    processes = []
    for index, job in enumerate(cluster):
        config = {"cluster": cluster, "task": {"type": job, "index": 0}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(config)}
        log = (tmp_path / f"log_{index}").open("w")
        processes.append(
            subprocess.Popen(
                [sys.executable, str(HERE / "workers.py"), str(tmp_path)],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        )
    try:
        codes = [process.wait(timeout=600) for process in processes]
    finally:
        for process in processes:
            process.kill()
    logs = [(tmp_path / f"log_{index}").read_text() for index in range(2)]
    assert codes == [0, 0], logs[0][-3000:] + logs[1][-3000:]
    for name in ("vae", "vae_xla", "joint", "score", "predictor", "functional"):
        first, second = (np.load(tmp_path / f"{name}_{index}.npy") for index in range(2))
        np.testing.assert_array_equal(first, second)
        assert [path.name for path in (tmp_path / name).iterdir()] == ["1"]
    model = keras.models.load_model(tmp_path / "vae.keras")
    for name in ("likelihood", "loss"):
        np.testing.assert_array_equal(*(np.load(tmp_path / f"{name}_{i}.npy") for i in range(2)))
    x = np.random.default_rng(0).integers(0, 2, [21, 6]).astype(np.float32)
    bias = np.array([3.0, -3.0, 2.0, -2.0, 1.0, -1.0])
    np.testing.assert_array_equal(model.decoder.layers[-1].bias.numpy(), bias)
    expected = x @ bias - np.sum(np.log1p(np.exp(bias)))
    np.testing.assert_allclose(np.load(tmp_path / "likelihood_0.npy"), expected, rtol=1e-5)
    np.testing.assert_allclose(np.load(tmp_path / "loss_0.npy"), -expected.mean(), rtol=1e-5)


def test_parameter_servers_are_refused():
    class Stub(tf.distribute.ParameterServerStrategy):
        def __init__(self):
            pass

    with pytest.raises(ValueError, match="ParameterServerStrategy"):
        refuse_parameter_servers(Stub())


@pytest.mark.parametrize(
    ("jobs", "task", "place", "chief"),
    [
        ({"worker": ["a", "b"]}, ("worker", 0), (0, 2), True),
        ({"worker": ["a", "b"]}, ("worker", 1), (1, 2), False),
        ({"chief": ["a"], "worker": ["b", "c"]}, ("chief", 0), (0, 3), True),
        ({"chief": ["a"], "worker": ["b", "c"]}, ("worker", 0), (1, 3), False),
        ({"chief": ["a"], "worker": ["b", "c"]}, ("worker", 1), (2, 3), False),
    ],
)
def test_the_place_among_workers(jobs, task, place, chief):
    class Stub(tf.distribute.MultiWorkerMirroredStrategy):
        cluster_resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(jobs), task_type=task[0], task_id=task[1]
        )

        def __init__(self):
            pass

    assert place_among_workers(Stub()) == place
    assert is_chief(Stub()) == chief


def test_the_chief_is_everybody_alone():
    assert is_chief()
    assert float(batch_share(7)) == 1.0
    values = tf.constant([1.0, 2.0, 6.0])
    assert float(mean_over_replicas(values)) == 3.0
    assert float(mean_over_replicas(values, [1, 1, 0])) == 1.5


@pytest.mark.slow
def test_a_lost_worker_is_made_up_for(tmp_path):
    """Worker 1, then worker 0 is killed in the second epoch: all go on from the checkpoint."""
    process = subprocess.Popen(
        [sys.executable, "-m", "keras_examples.multi_worker", "--smoke", "--output", str(tmp_path)],
        cwd=HERE.parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    rounds, victims = [[]], [1, 0]
    for line in process.stdout:
        rounds[-1].append(line)
        if "start again" in line:
            rounds.append([])
        if line.startswith("Epoch 2/2") and victims:
            workers = psutil.Process(process.pid).children()
            sorted(workers, key=lambda worker: worker.create_time())[victims.pop(0)].kill()
    assert process.wait(timeout=300) == 0, rounds
    epochs = [[line[:9] for line in lines if line.startswith("Epoch")] for lines in rounds]
    assert epochs == [["Epoch 1/2", "Epoch 2/2"], ["Epoch 2/2"], ["Epoch 2/2"]]
    assert any("2 workers: discrete bound" in line for line in rounds[-1])
    assert (tmp_path / "served" / "multi_worker" / "1").is_dir()
