"""Two networks agree on a language: one writes tokens in an RNN, the other reads them.

Title: Sampling tokens inside an RNN
Reference: `tfc.layers.SamplingCell`; Fan et al. (2022) for the straight-through gradient.

The writer sees a thing with three properties and writes four tokens, one in each step of an
RNN; each is a discrete draw that the next step reads. The reader sees the tokens alone and
guesses the properties. Both learn from the guesses, through the draws. There are 4,096
messages of 8 tokens for 216 things: enough for a language in which all can be told apart.

The writer is exported by itself: its messages are int32 codes `[batch, time]`.
"""

import keras
import numpy as np

import tfconcrete as tfc
from keras_examples import common

PROPERTIES, VALUES = 3, 6
TOKENS, LENGTH = 8, 4


def things():
    """All things: one-hot properties `[216, 18]`, and their values `[216, 3]`."""
    values = np.indices([VALUES] * PROPERTIES).reshape([PROPERTIES, -1]).T
    return np.eye(VALUES, dtype="float32")[values].reshape([len(values), -1]), values


def build_models(seed):
    """The whole game for `fit`, and the writer for messages."""
    thing = keras.Input([PROPERTIES * VALUES], name="thing")
    plan = keras.layers.Dense(64, "relu")(thing)
    sampler = tfc.GapStraightThrough(temperature=1.0, seed=seed, name="token")
    cell = tfc.layers.SamplingCell(keras.layers.GRUCell(64), sampler, TOKENS)
    steps = keras.layers.RepeatVector(LENGTH)(plan)
    message = keras.layers.RNN(cell, return_sequences=True, name="writer")(steps)
    heard = keras.layers.GRU(64, name="reader")(message)
    guess = keras.layers.Dense(PROPERTIES * VALUES)(keras.layers.Dense(64, "relu")(heard))
    guess = keras.layers.Reshape([PROPERTIES, VALUES], name="guess")(guess)
    codes = tfc.layers.Codes(name="message")(message)
    return keras.Model(thing, guess), keras.Model(thing, {"message": codes})


def main(arguments=None):
    options = common.parser(__doc__, epochs=60)
    settings = common.parse(options, arguments)
    keras.utils.set_random_seed(settings.seed)
    inputs, values = things()
    game, writer = build_models(settings.seed)
    game.compile(
        keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=not settings.smoke,
    )
    epochs = 1 if settings.smoke else settings.epochs
    # Every epoch shows each thing twenty times.
    repeated = np.tile(np.arange(len(inputs)), 2 if settings.smoke else 20)
    game.fit(inputs[repeated], values[repeated], batch_size=72, epochs=epochs, verbose=2)

    _, accuracy = game.evaluate(inputs, values, batch_size=len(inputs), verbose=0)
    messages = writer.predict(inputs, verbose=0)["message"]
    different = len(np.unique(messages, axis=0))
    print(f"properties guessed: {accuracy:.1%}; {different} messages for {len(inputs)} things")
    for index in (0, 1, 6, 36, len(inputs) - 1):
        print(f"  thing {values[index]} is written {messages[index]}")
    path = tfc.export.save_discrete(writer, settings.output / "token_writer")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
