"""Division by a temperature."""

from tfconcrete._dtypes import cast


def cool(scores, temperature):
    """`scores / temperature`, as a product with the inverse.

    Eager TensorFlow computes both gradients of a quotient, also the one that nobody asks
    for, which is three more passes over the scores.

    Args:
        scores: float tensor.
        temperature: positive number or tensor that broadcasts against `scores`.

    Returns:
        Tensor of the dtype of `scores`.
    """
    return scores * (1.0 / cast(temperature, scores.dtype))
