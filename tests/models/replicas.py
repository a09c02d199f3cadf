"""Run by `test_distribution.py` in a process of its own: two logical CPUs, two replicas."""

import keras
import numpy as np
import tensorflow as tf

import tfconcrete as tfc

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
x = np.random.default_rng(0).integers(0, 2, [32, 6]).astype(np.float32)


def make(**arguments):
    encoder = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4)])
    decoder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6)])
    model = tfc.models.DiscreteVAE(encoder, decoder, tfc.layers.BinConcreteSample(seed=0))
    model.compile(keras.optimizers.SGD(0.1), **arguments)
    return model


with strategy.scope():
    for arguments in ({"steps_per_execution": 2}, {"jit_compile": True}):
        model = make(**arguments)
        before = model.get_weights()
        try:
            model.fit(x, verbose=0)
        except ValueError as error:
            assert next(iter(arguments)) in str(error) and "2 replicas" in str(error), error
        else:
            raise AssertionError(f"{arguments} did not raise")
    model = make()
    weights = model.get_weights()
    history = model.fit(x, batch_size=16, epochs=3, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    found = model.evaluate(x, batch_size=16, verbose=0, return_dict=True)
    assert np.isfinite(found["loss"])
    assert model.predict(x, batch_size=16, verbose=0).shape == (32, 6)

    # One step of the whole batch moves the weights as far as one device would: gradients
    # are averaged over the replicas, not summed. The output bias sees no noise to first
    # order: compare its gradient with that of the mean over the batch.
    model = make()
    model.decoder.layers[-1].kernel.assign(tf.zeros([4, 6]))
    bias = model.decoder.layers[-1].bias.numpy()
    model.fit(x, batch_size=32, epochs=1, shuffle=False, verbose=0)
    expected = bias + 0.1 * (x - 0.5).mean(0)
    found = model.decoder.layers[-1].bias.numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)
print("replicas agree")
