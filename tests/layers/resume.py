"""Trains a classifier with a discrete bottleneck, in one go or in two processes.

Run as `python resume.py MODE PATH`: `whole` trains 4 epochs and prints the losses;
`first` trains 2 epochs and saves the model; `second` loads it and trains the other 2.
"""

import json
import sys

import keras
import numpy as np

import tfconcrete as tfc


def make_model():
    inputs = keras.Input([16])
    logits = keras.layers.Dense(12, activation="relu")(inputs)
    codes = tfc.GapStraightThrough(temperature=0.5, name="z")(keras.layers.Reshape([3, 4])(logits))
    soft = tfc.ConcreteSample(tfc.schedules.ExponentialAnnealing(1.0, 0.5, rate=0.01), name="soft")(
        keras.layers.Dense(5)(inputs)
    )
    rao = tfc.layers.GumbelRao(num_samples=5)(keras.layers.Dense(5)(inputs))
    bits = tfc.layers.BinConcreteSample(name="bits")(keras.layers.Dense(5)(inputs))
    merged = keras.layers.Concatenate()(
        [keras.layers.Flatten()(codes), soft, rao, tfc.layers.Centering()(bits)]
    )
    model = keras.Model(inputs, keras.layers.Dense(10)(merged))
    model.compile(
        keras.optimizers.Adam(1e-2),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=True,
        steps_per_execution=50,
    )
    return model


def train(model, first_epoch, last_epoch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=[1600, 16]).astype("float32")
    y = rng.integers(0, 10, size=[1600])
    history = model.fit(
        x, y, batch_size=32, initial_epoch=first_epoch, epochs=last_epoch, shuffle=False, verbose=0
    )
    return [float(loss).hex() for loss in history.history["loss"]]


def main(mode, path):
    keras.utils.set_random_seed(3)
    if mode == "second":
        losses = train(keras.models.load_model(path), 2, 4)
    else:
        model = make_model()
        losses = train(model, 0, 2 if mode == "first" else 4)
        if mode == "first":
            model.save(path)
    print(json.dumps(losses))


if __name__ == "__main__":
    main(*sys.argv[1:])
