"""A digit classifier with a discrete bottleneck: one layer in a functional model.

Title: A discrete bottleneck in ten lines
Reference: Fan et al. (2022), the Gapped Straight-Through estimator.

The image is squeezed into eight variables of sixteen classes each, 32 bits in all, and
the class is read off those. In training `GapStraightThrough` passes one-hot draws forward
and a low-variance gradient back; at inference the same layer is an argmax. Nothing else in
the model knows about it: `compile`, `fit` and `predict` are Keras as always.
"""

import keras

import tfconcrete as tfc
from keras_examples import common, datasets


def build_model(seed):
    """784 pixels to 8 x 16 codes to 10 classes."""
    inputs = keras.Input([28, 28], name="image")
    hidden = keras.layers.Flatten()(inputs)
    hidden = keras.layers.Dense(256, "relu")(hidden)
    logits = keras.layers.Reshape([8, 16])(keras.layers.Dense(8 * 16)(hidden))
    codes = tfc.GapStraightThrough(temperature=0.5, seed=seed, name="codes")(logits)
    outputs = keras.layers.Dense(10, name="digit")(keras.layers.Flatten()(codes))
    return keras.Model(inputs, outputs)


def main(arguments=None):
    options = common.parser(__doc__, epochs=8, data=True)
    settings = common.parse(options, arguments)
    keras.utils.set_random_seed(settings.seed)
    data_dir = datasets.data_directory(settings.data_dir)
    (x, y), (x_test, y_test) = datasets.load_images(
        "mnist", data_dir=data_dir, smoke=settings.smoke
    )

    model = build_model(settings.seed)
    model.summary()
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=True,
    )
    epochs = 1 if settings.smoke else settings.epochs
    model.fit(x, y, batch_size=64, epochs=epochs, verbose=2)

    loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
    print(f"discrete model on {len(x_test):,} test digits: {accuracy:.1%} right, loss {loss:.3f}")
    encoder = keras.Model(model.input, model.get_layer("codes").output)
    codes = encoder.predict(x_test[:5], verbose=0).argmax(-1)
    for digit, code in zip(y_test[:5], codes, strict=True):
        print(f"a {digit} is the code {' '.join(f'{c:2d}' for c in code)}")
    path = settings.output / "discrete_bottleneck_classifier.keras"
    model.save(path)
    print(f"wrote {path}; next: tfc.export.save_discrete(model, 'served') for TF Serving")


if __name__ == "__main__":
    main()
