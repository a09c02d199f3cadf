"""Straight-through estimators in a loop of one's own: functions and `tf.GradientTape`.

Title: Functions, no layers
Reference: Fan et al. (2022), Table 1; Jang, Gu & Poole (2017).

Everything the layers do is a function: logits, a temperature and a seed in, a sample out.
The loop below clusters digits with one discrete variable of sixteen classes, a mean image
for each class and a linear encoder, and runs once for each estimator, so that their losses
can be compared side by side.
"""

import keras
import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from keras_examples import common, datasets

CLASSES = 16
ESTIMATORS = {
    "gapped": lambda logits, seed: tfc.estimators.gapped_straight_through(logits, 0.5, seed=seed),
    "stgs": lambda logits, seed: tfc.gumbel_softmax(logits, tau=0.5, hard=True, seed=seed),
    "straight_through": lambda logits, seed: tfc.estimators.straight_through(
        logits, 1.0, seed=seed
    ),
    "reinmax": lambda logits, seed: tfc.estimators.reinmax(logits, 1.0, seed=seed),
}


def train(images, estimator, steps, seed):
    """Trains encoder and class means by hand; returns the loss of every step."""
    rng = np.random.default_rng(seed)
    pixels = images.shape[1]
    encoder = tf.Variable(rng.normal(size=[pixels, CLASSES], scale=0.02).astype("float32"))
    means = tf.Variable(rng.normal(size=[CLASSES, pixels], scale=0.1).astype("float32"))
    optimizer = keras.optimizers.Adam(1e-2)
    optimizer.build([encoder, means])

    @tf.function(jit_compile=True)
    def step(batch, number):
        with tf.GradientTape() as tape:
            logits = batch @ encoder
            # A step number and a run seed make a seed: no state, the same in every mode.
            code = estimator(logits, tf.stack([seed, number]))
            error = tf.nn.sigmoid_cross_entropy_with_logits(labels=batch, logits=code @ means)
            probs = tf.nn.softmax(logits)
            entropy = -tf.reduce_sum(probs * tf.nn.log_softmax(logits), -1)
            kl = np.log(CLASSES) - entropy
            loss = tf.reduce_mean(tf.reduce_sum(error, -1) + kl)
        gradients = tape.gradient(loss, [encoder, means])
        return loss, gradients

    losses = []
    for number in range(steps):
        batch = images[rng.integers(len(images), size=128)]
        loss, gradients = step(tf.constant(batch), tf.constant(number))
        optimizer.apply(gradients, [encoder, means])
        losses.append(float(loss))
    return np.array(losses)


def main(arguments=None):
    options = common.parser(__doc__, data=True)
    options.add_argument("--steps", type=int, default=400, help="updates for each estimator")
    settings = common.parse(options, arguments)
    if settings.steps < 1:
        common.fail(f"--steps must be at least 1, not {settings.steps}")
    steps = 20 if settings.smoke else settings.steps
    data_dir = datasets.data_directory(settings.data_dir)
    [(images, _)] = datasets.load_images("mnist", ["train"], data_dir, settings.smoke)
    images = images.reshape([len(images), -1])
    tail = max(1, steps // 10)
    for name, estimator in ESTIMATORS.items():
        losses = train(images, estimator, steps, settings.seed)
        print(f"{name:17s} loss {losses[:tail].mean():7.2f} -> {losses[-tail:].mean():7.2f} nats")


if __name__ == "__main__":
    main()
