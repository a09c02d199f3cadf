"""Run by `test_resume.py`: a training run that may be killed at any moment and started again.

`python resume.py FOLDER WAY` trains to the end and writes `weights.npz`. WAY is `checkpoint` or
`backup`. It prints a line for each batch, by which whoever kills it knows how far it got.
"""

import pathlib
import sys

import keras
import numpy as np

import tfconcrete as tfc

FOLDER = pathlib.Path(sys.argv[1])
EPOCHS, ROWS = 12, 96


def make():
    keras.utils.set_random_seed(0)
    schedule = tfc.schedules.ExponentialAnnealing(1.0, 0.3, rate=0.01)
    latent = tfc.GapStraightThrough(schedule, seed=1, name="z")
    encoder = keras.Sequential(
        [keras.Input((12,)), keras.layers.Dense(12), keras.layers.Reshape((3, 4))]
    )
    decoder = keras.Sequential(
        [keras.Input((3, 4)), keras.layers.Flatten(), keras.layers.Dense(12)]
    )
    model = tfc.models.DiscreteVAE(encoder, decoder, latent)
    model.compile("adam")
    return model


class Epochs(keras.utils.PyDataset):
    """Batches in an order that depends on the epoch alone, also after a restart."""

    def __init__(self):
        super().__init__()
        self.epoch = 0
        self.x = np.random.default_rng(0).integers(0, 2, [ROWS, 12]).astype("float32")

    def __len__(self):
        return ROWS // 8

    def __getitem__(self, index):
        order = np.random.default_rng(self.epoch).permutation(ROWS)
        rows = order[index * 8 : index * 8 + 8]
        return (self.x[rows],)


class Tell(keras.callbacks.Callback):
    """A line for each batch, and before the files of an epoch are written."""

    def on_train_batch_end(self, batch, logs=None):
        print("batch", flush=True)

    def on_epoch_end(self, epoch, logs=None):
        print("epoch", flush=True)


def main():
    model, start = make(), 0
    if sys.argv[2] == "checkpoint":
        path = FOLDER / "checkpoint.keras"
        if path.exists():
            model = keras.models.load_model(path)
            start = int(model.optimizer.iterations.numpy()) // (ROWS // 8)
        callbacks = [keras.callbacks.ModelCheckpoint(path)]
    else:
        folder = FOLDER / "backup"
        callbacks = [keras.callbacks.BackupAndRestore(folder, delete_checkpoint=False)]
    callbacks.insert(0, Tell())
    data = Epochs()

    def set_epoch(epoch, logs):
        data.epoch = epoch

    callbacks.append(keras.callbacks.LambdaCallback(on_epoch_begin=set_epoch))
    history = model.fit(
        data,
        epochs=EPOCHS,
        initial_epoch=start,
        callbacks=callbacks,
        verbose=0,
        shuffle=False,
    )
    arrays = {f"w{i}": v.numpy() for i, v in enumerate(model.variables)}
    arrays.update({f"o{i}": v.numpy() for i, v in enumerate(model.optimizer.variables)})
    arrays["seed"] = model.latent.seed_generator.state.numpy()
    arrays["loss"] = np.array(history.history.get("loss", [np.nan])[-1])
    np.savez(FOLDER / "weights.npz", **arrays)
    print("finished", flush=True)


if __name__ == "__main__":
    main()
