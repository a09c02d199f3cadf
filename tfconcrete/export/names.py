"""Names that last: what Keras makes up differs from model to model, what clients read must not.

Keras numbers layers without a name over the whole process (`dense_7`), so that the same
code gives other names in another process, or when it runs twice. Here such names are
counted anew inside each model.
"""

import re

from keras.src.utils.naming import to_snake_case

from tfconcrete.layers.inference import all_layers
from tfconcrete.models.stacks import is_given_name


def unique(names):
    """The names in order, repeated ones with the next free of _1, _2, ... appended."""
    names = list(names)
    taken, out = set(names), []
    for name in names:
        made, count = name, 0
        while made in out or (count and made in taken):
            count += 1
            made = f"{name}_{count}"
        out.append(made)
    return out


def input_names(names):
    """The names of inputs, `x` or `x_<position>` for those that nobody named."""
    names = list(names)
    made = ["x"] if len(names) == 1 else [f"x_{index}" for index in range(len(names))]
    return unique(
        name if is_given_name(name) else other for name, other in zip(names, made, strict=True)
    )


def stable_names(model):
    """What layers and operations of a model are called outside, by their names in Keras.

    A name of the form that Keras gives a class (`dense`, `dense_7` for a `Dense`) becomes
    the first, second, ... of that class that was made for the model: `dense`, `dense_1`.
    All other names stay.

    Args:
        model: A Keras model.

    Returns:
        dict from a name to the name to use.
    """
    operations = list(getattr(model, "operations", None) or ())
    known = {id(operation) for operation in operations}
    operations += [layer for layer in all_layers(model) if id(layer) not in known]
    made_up = {}
    for operation in operations:
        kind = to_snake_case(type(operation).__name__)
        matched = re.fullmatch(rf"{kind}(?:_(\d+))?", operation.name)
        if matched:
            made_up.setdefault(kind, {})[operation.name] = int(matched[1] or 0)
    return {
        name: f"{kind}_{index}" if index else kind
        for kind, numbers in made_up.items()
        for index, name in enumerate(sorted(numbers, key=numbers.get))
    }
