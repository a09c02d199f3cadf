"""The selectors of the example: their logits learn at a rate of their own."""

import keras
import numpy as np
import pytest


@pytest.mark.parametrize("compiled", [False, True])
def test_logits_have_their_own_rate(example, compiled):
    """Adam's first step is the rate, wherever the gradient is not next to 0."""
    module = example("feature_selection")
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).normal(size=[64, 6]).astype("float32")
    selector = module.IndependentSelectors(2, temperature=1.0, seed=0)
    model = keras.Sequential([keras.Input([6]), selector, keras.layers.Dense(6)])
    before = model.get_weights()
    model.compile(module.TwoRates(module.RATE), "mse", jit_compile=compiled)
    model.train_on_batch(x, x)
    by_name = zip(model.weights, before, strict=True)
    moved = {w.name: np.abs(w.numpy() - old).max() for w, old in by_name if w.trainable}
    assert moved["logits"] == pytest.approx(module.LOGITS_RATE, rel=1e-2)
    assert moved["kernel"] == pytest.approx(module.RATE, rel=1e-2)
