"""Two workers on this machine train one model, with one command.

Every worker runs the same program; `TF_CONFIG` tells it who it is. Here the first process
starts the others itself. On a cluster that is the scheduler's work:

- Kubernetes: an indexed Job of N pods behind a headless service; in each pod
  TF_CONFIG={"cluster": {"worker": ["job-0.svc:2222", ..., "job-(N-1).svc:2222"]},
             "task": {"type": "worker", "index": $JOB_COMPLETION_INDEX}}.
- Slurm: `srun` starts the program once a task, and TF_CONFIG is made of `SLURM_JOB_NODELIST`
  and `SLURM_PROCID`.

Both are written out in docs/guides/devices.md.

A worker that dies stops the others (they wait for it in vain); all of them are started again,
and training goes on from the last checkpoint.
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

from keras_examples import common


def free_ports(number):
    """Ports of this machine that nobody listens on."""
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def launch(settings, arguments):
    """Runs all workers to their end; whether all of them got there."""
    workers = [f"127.0.0.1:{port}" for port in free_ports(settings.workers)]
    root = pathlib.Path(__file__).resolve().parents[1]
    processes = []
    for index in range(settings.workers):
        config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "TF_CONFIG": json.dumps(config),
            "PYTHONPATH": os.pathsep.join(paths),
        }
        heard = {"stdout": subprocess.PIPE if index == 0 else subprocess.DEVNULL, "text": True}
        command = [sys.executable, "-m", "keras_examples.multi_worker", *map(str, arguments)]
        processes.append(
            subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, **heard)
        )

    def show():
        for line in processes[0].stdout:
            print(line, end="", flush=True)

    echo = threading.Thread(target=show)
    echo.start()
    try:
        while any(process.poll() is None for process in processes):
            if any(process.poll() for process in processes):
                return False
            time.sleep(0.2)
        return not any(process.poll() for process in processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()
        echo.join()


def work(settings):
    """What every worker does."""
    import tensorflow as tf

    # Before anything else touches TensorFlow: the workers find each other.
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    import keras

    import tfconcrete as tfc
    from keras_examples import architectures, datasets

    (train, _), (test, _) = datasets.load_images(data_dir=settings.data_dir, smoke=settings.smoke)
    keras.utils.set_random_seed(settings.seed)
    path = settings.output / "multi_worker.keras"
    with strategy.scope():
        if path.exists():
            model = keras.models.load_model(path)
        else:
            latent = tfc.GapStraightThrough(0.5, seed=settings.seed, name="z")
            model = tfc.models.DiscreteVAE(*architectures.gst_pair(), latent)
            model.compile(keras.optimizers.Adam(1e-3), jit_compile=settings.xla)
    steps = -(-len(train) // BATCH)
    model.fit(
        train,
        batch_size=BATCH,
        epochs=settings.epochs,
        initial_epoch=int(model.optimizer.iterations.numpy()) // steps,
        callbacks=[keras.callbacks.ModelCheckpoint(path)],
        verbose=2 if is_first() else 0,
    )
    bound = model.evaluate(test, batch_size=BATCH, verbose=0, return_dict=True)["loss"]
    version = tfc.export.save_discrete(model, settings.output / "served" / "multi_worker")
    if is_first():
        workers = strategy.num_replicas_in_sync
        print(f"{workers} workers: discrete bound {bound:.2f} nats, exported to {version}")


def is_first():
    """Whether this is worker 0."""
    return json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0


def main(arguments=None):
    options = common.parser(__doc__, epochs=3, data=True)
    options.add_argument("--workers", type=int, default=2, help="how many processes")
    options.add_argument("--restarts", type=int, default=3, help="after a lost worker")
    options.add_argument("--xla", action="store_true", help="compile each worker's gradient")
    settings = common.parse(options, arguments)
    if settings.smoke:
        settings.epochs = min(settings.epochs, 2)
    if settings.workers < 2:
        common.fail("--workers must be at least 2")
    if "TF_CONFIG" in os.environ:
        work(settings)
        return
    for _ in range(1 + settings.restarts):
        if launch(settings, sys.argv[1:] if arguments is None else arguments):
            return
        print("a worker was lost: all start again from the last checkpoint", flush=True)
    common.fail(f"a worker was lost {1 + settings.restarts} times")


BATCH = 100

if __name__ == "__main__":
    main()
