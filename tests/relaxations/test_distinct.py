"""Choices in turn at the ends of the number line; `tests/layers/test_feature_selector.py` has
the law of ordinary ones."""

import numpy as np
import pytest
import tensorflow as tf

from tfconcrete import relaxations


@pytest.mark.parametrize("favourite", [1e8, np.inf])
def test_what_one_row_takes_leaves_the_others_their_noise(favourite):
    """Both rows want class 0; the second draws from what is left, and half of each."""
    logits = tf.constant([[favourite, 0.0, 0.0, -np.inf]] * 2)
    draw = tf.function(
        lambda seed: relaxations.distinct_concrete(logits, 1.0, hard=False, seed=seed)
    )
    rows = np.array([draw(tf.constant([7, i])).numpy()[1] for i in range(400)])
    np.testing.assert_allclose(rows.sum(-1), 1.0, atol=1e-5)
    share = np.mean(rows.argmax(-1) == 1)
    assert abs(share - 0.5) < 4.5 * 0.5 / np.sqrt(400)
    np.testing.assert_array_equal(rows[:, [0, 3]], 0.0)
