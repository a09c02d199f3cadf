"""Choosing among a varying set of options, with a class mask.

Title: Masked choices
Reference: Maddison, Mnih & Teh (2017), Eq. 10, with classes that are not always there.

A shop shows at most six offers, each with a price and a quality; how many there are, and
which slots they fill, differs from visit to visit. A network learns to pick the offer of
the best value from the value of its picks alone. Empty slots still show last week's
bargain, better than anything on sale, but they are masked: their probability, their sample
and their gradient are exactly zero, whatever the network says about them.
"""

import keras
import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from keras_examples import common

SLOTS = 6


def visits(number, seed):
    """Offers `[n, 6, 2]` (price, quality), and which slots hold one `[n, 6]`."""
    rng = np.random.default_rng(seed)
    offers = rng.uniform(size=[number, SLOTS, 2]).astype("float32")
    filled = rng.random([number, SLOTS]) < 0.6
    filled[np.arange(number), rng.integers(SLOTS, size=number)] = True
    offers[~filled] = (0.0, 2.0)
    return offers, filled


def value(offers):
    """What an offer is worth: quality less a price that hurts more the higher it is."""
    return offers[..., 1] - offers[..., 0] ** 2


def best_value(offers, filled):
    """The value of the best offer on sale at each visit."""
    return np.max(np.where(filled, value(offers), -np.inf), -1)


@keras.saving.register_keras_serializable(package="masked_choice")
class Worth(keras.layers.Layer):
    """The value of the chosen offer."""

    def call(self, offers, choice):
        return tf.reduce_sum(choice * value(offers), -1)

    def compute_output_shape(self, offers_shape, choice_shape):
        return offers_shape[:-2]


def build_model(seed):
    """Scores every offer by itself, then picks one of the slots that are filled."""
    offers = keras.Input([SLOTS, 2], name="offers")
    filled = keras.Input([SLOTS], name="filled", dtype="bool")
    hidden = keras.layers.Dense(32, "relu")(offers)
    scores = keras.layers.Reshape([SLOTS])(keras.layers.Dense(1)(hidden))
    choice = tfc.ConcreteSample(temperature=0.5, seed=seed, name="choice")(
        scores, class_mask=filled
    )
    worth = Worth(name="worth")(offers, choice)
    return keras.Model([offers, filled], worth), keras.Model([offers, filled], choice)


def regret(worth_wanted, worth):
    """How far the pick stays below the best one."""
    return worth_wanted - worth


def main(arguments=None):
    options = common.parser(__doc__, epochs=12)
    settings = common.parse(options, arguments)
    keras.utils.set_random_seed(settings.seed)
    size = 512 if settings.smoke else 8_192
    offers, filled = visits(size, settings.seed)
    test_offers, test_filled = visits(size, settings.seed + 1)

    model, chooser = build_model(settings.seed)
    model.compile(keras.optimizers.Adam(5e-3), loss=regret, jit_compile=True)
    best = best_value(offers, filled)
    epochs = 1 if settings.smoke else settings.epochs
    model.fit({"offers": offers, "filled": filled}, best, batch_size=128, epochs=epochs, verbose=2)

    picks = chooser.predict({"offers": test_offers, "filled": test_filled}, verbose=0)
    assert np.all(picks[~test_filled] == 0.0), "an empty slot was picked"
    worth = value(test_offers)
    found = np.sum(picks * worth, -1)
    best = best_value(test_offers, test_filled)
    random = np.sum(worth * test_filled, -1) / np.sum(test_filled, -1)
    optimal = np.mean(found >= best)
    print(f"best offer picked in {optimal:.1%} of {size:,} new visits")
    print(
        f"mean value: {found.mean():.3f}, of at most {best.mean():.3f}; "
        f"at random {random.mean():.3f}"
    )


if __name__ == "__main__":
    main()
