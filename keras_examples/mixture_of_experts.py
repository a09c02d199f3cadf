"""Hard routing: one or two of eight experts for each image, and a served graph that says which.

Title: Mixture of experts
Reference: Shazeer et al. (2017), "Outrageously Large Neural Networks"; Ahmed et al. (2023),
"SIMPLE", for the gradient of the routing.

Digits lie in one of four directions, and nobody says in which. Eight small experts share
the work: a router gives each a logit, and a `SubsetSample` layer opens exactly k of them,
in training by a draw whose gradient is that of the exact probabilities to be opened, at
inference the k largest. Without care a few experts take everything; a term that makes the
mean probabilities of a batch even keeps all of them in use. How even the load is on new
images, and what each expert does, is read from the codes, which the exported graph gives
next to the prediction: a server can fetch the experts it needs and no others.
"""

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from keras_examples import common, datasets

EXPERTS, HIDDEN, DIGITS, DIRECTIONS = 8, 12, 10, 4


@keras.saving.register_keras_serializable(package="mixture_of_experts")
class EvenLoad(keras.layers.Layer):
    """Passes logits on, and adds a loss that is 0 where experts are opened equally often."""

    def __init__(self, k, weight, **kwargs):
        super().__init__(**kwargs)
        self.k, self.weight = k, weight

    def call(self, logits):
        opened = tfc.relaxations.k_subset_marginals(logits, self.k)
        share = tf.reduce_mean(opened, 0) / self.k
        self.add_loss(self.weight * (EXPERTS * tf.reduce_sum(share**2) - 1.0))
        return logits

    def get_config(self):
        return {**super().get_config(), "k": self.k, "weight": self.weight}


@keras.saving.register_keras_serializable(package="mixture_of_experts")
class Mixed(keras.layers.Layer):
    """The mean of the opened experts' answers."""

    def __init__(self, k, **kwargs):
        super().__init__(**kwargs)
        self.k = k

    def call(self, answers, opened):
        return tf.einsum("beo,be->bo", answers, opened) / self.k

    def compute_output_shape(self, answers_shape, opened_shape):
        return (answers_shape[0], answers_shape[2])

    def get_config(self):
        return {**super().get_config(), "k": self.k}


def build_model(k, pixels, balance, seed):
    """All experts are computed here; what a server computes is up to the codes."""
    keras.utils.set_random_seed(seed)
    image = keras.Input([pixels], name="image")
    hidden = keras.layers.Dense(64, "relu")(image)
    logits = EvenLoad(k, balance)(keras.layers.Dense(EXPERTS)(hidden))
    opened = tfc.layers.SubsetSample(k, seed=seed, name="router")(logits)
    inside = keras.layers.EinsumDense(
        "bi,eih->beh", (EXPERTS, HIDDEN), activation="relu", bias_axes="eh"
    )(image)
    answers = keras.layers.EinsumDense("beh,eho->beo", (EXPERTS, DIGITS), bias_axes="eo")(inside)
    return keras.Model(image, Mixed(k, name="digit")(answers, opened))


def one_expert(pixels, seed):
    """A single expert for everything: what routing has to beat."""
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input([pixels], name="image"),
            keras.layers.Dense(HIDDEN, "relu"),
            keras.layers.Dense(DIGITS),
        ]
    )


def turn(images, labels, seed):
    """Each image in one of four directions; `(pixels, digits, directions)`."""
    directions = np.random.default_rng(seed).integers(DIRECTIONS, size=len(images))
    turned = images.copy()
    for direction in range(1, DIRECTIONS):
        of_this = directions == direction
        turned[of_this] = np.rot90(images[of_this], direction, axes=(1, 2))
    return turned.reshape(len(images), -1), labels, directions


def train(model, data, epochs, name):
    pixels, digits, _ = data
    model.compile(
        keras.optimizers.Adam(2e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=True,
        steps_per_execution=20,
    )
    callbacks = [common.RunProgress(name)]
    model.fit(pixels, digits, batch_size=128, epochs=epochs, verbose=0, callbacks=callbacks)


def misread(model, data):
    pixels, digits, _ = data
    found = model.predict(pixels, batch_size=1000, verbose=0).argmax(-1)
    return 100.0 * float(np.mean(found != digits))


def load_of(codes):
    """`category_usage` of all experts that were opened."""
    return tfc.diagnostics.category_usage(tf.reshape(codes, [-1]), num_classes=EXPERTS)


def serve(model, k, data, folder):
    """Exports the model; its answer and codes through the exported graph."""
    path = tfc.export.save_discrete(model, folder / f"top_{k}_experts")
    served = tf.saved_model.load(str(path))
    answer = served.signatures["serving_default"](image=tf.constant(data[0]))
    with tfc.layers.record_codes() as records:
        expected = model(data[0], training=False)
    codes = answer["router_codes"].numpy()
    assert np.array_equal(codes, records[0][1].numpy()), "served codes differ"
    np.testing.assert_allclose(answer["digit"], expected, rtol=1e-4, atol=1e-4)
    print(f"wrote {path}: router_codes {codes.shape}, e.g. {codes[0].tolist()}")
    return codes


def draw_figure(codes, data, folder):
    """How often each expert is opened, by direction and by digit."""
    figure, axes = plt.subplots(len(codes), 2, figsize=(9, 2.9 * len(codes)), squeeze=False)
    for row, (k, opened) in zip(axes, codes.items(), strict=True):
        for axis, groups, names in (
            (row[0], data[2], [f"{90 * d}°" for d in range(DIRECTIONS)]),
            (row[1], data[1], [str(d) for d in range(DIGITS)]),
        ):
            counts = np.array(
                [
                    np.bincount(opened[groups == group].ravel(), minlength=EXPERTS)
                    for group in range(len(names))
                ],
                float,
            )
            shares = counts / np.maximum(counts.sum(-1, keepdims=True), 1.0)
            image = axis.imshow(shares, cmap="viridis", vmin=0.0, aspect="auto")
            axis.set(yticks=range(len(names)), yticklabels=names, xticks=range(EXPERTS))
            axis.set_xlabel("expert")
            figure.colorbar(image, ax=axis, fraction=0.05)
        row[0].set_title(f"top-{k}: experts by direction", fontsize=10)
        row[1].set_title(f"top-{k}: experts by digit", fontsize=10)
    figure.tight_layout()
    return common.save_figure(figure, folder, "mixture_of_experts")


def main(arguments=None):
    options = common.parser(__doc__, epochs=30, data=True)
    options.add_argument(
        "--balance", type=common.positive, default=0.1, help="weight of the term for even load"
    )
    settings = common.parse(options, arguments)
    data_dir = datasets.data_directory(settings.data_dir)
    pairs = datasets.load_images("mnist", ["train", "test"], data_dir, settings.smoke)
    data, test = (turn(*pair, settings.seed + i) for i, pair in enumerate(pairs))
    epochs = 1 if settings.smoke else settings.epochs
    pixels = data[0].shape[1]

    single = one_expert(pixels, settings.seed)
    train(single, data, epochs, "one expert")
    rows = [["one expert", "", misread(single, test), "", ""]]
    codes = {}
    for k in (1, 2):
        for balance in (0.0, settings.balance):
            model = build_model(k, pixels, balance, settings.seed)
            train(model, data, epochs, f"top-{k}, balance {balance}")
            with tfc.layers.record_codes() as records:
                model(test[0], training=False)
            usage = load_of(records[0][1])
            rows.append(
                [
                    f"top-{k} of {EXPERTS}",
                    balance,
                    misread(model, test),
                    float(usage.perplexity),
                    int(usage.dead_classes),
                ]
            )
        codes[k] = serve(model, k, test, settings.output)
    table = common.write_table(
        settings.output / "mixture_of_experts.md",
        f"Digits in four directions, {len(data[0]):,} training images",
        ["routing", "balance", "test error, %", "experts in use (perplexity)", "never opened"],
        rows,
    )
    figure = draw_figure(codes, test, settings.output)
    print(f"wrote {table}\nwrote {figure}")


if __name__ == "__main__":
    main()
