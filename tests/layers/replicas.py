"""Two logical CPUs under MirroredStrategy: each replica draws its own noise."""

import keras
import numpy as np
import tensorflow as tf

import tfconcrete as tfc


def main():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    schedule = tfc.schedules.ExponentialAnnealing(1.0, 0.1, rate=0.1)
    with strategy.scope():
        layer = tfc.ConcreteSample(temperature=schedule, seed=0, name="z")
        inputs = keras.Input([4])
        hidden = tfc.layers.Centering(name="c")(keras.layers.Dense(4)(inputs))
        model = keras.Model(inputs, layer(hidden))
        model.compile("sgd", "mse")

    noise = strategy.run(tf.function(lambda: layer(tf.zeros([100, 4]), training=True)))
    first, second = (value.numpy() for value in strategy.experimental_local_results(noise))
    assert not np.any(first == second), "both replicas drew the same noise"
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.2

    x = np.random.default_rng(0).normal(size=[24, 4]).astype("float32")
    model.fit(x, x, batch_size=8, epochs=2, verbose=0)
    np.testing.assert_allclose(layer.temperature.numpy(), np.exp(-0.1 * 6), rtol=1e-6)
    scheduler = tfc.callbacks.DiscretizationGap((x, x), batch_size=8)
    history = model.fit(x, x, batch_size=8, verbose=0, callbacks=[scheduler]).history
    assert history["val_discrete_loss"] != history["val_relaxed_loss"]
    print("different noise")


if __name__ == "__main__":
    main()
