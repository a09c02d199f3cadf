"""How close a code was to another one: the scores behind the argmaxes of a signature."""

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import (
    convert_variables_to_constants_v2,
)

# Between an argmax and the output that holds it: what changes no order.
_PASSING = {"Identity", "SelectV2", "Cast", "Reshape", "Squeeze", "ExpandDims", "Select"}
_COMPARISONS = {"Greater", "GreaterEqual", "Less", "LessEqual"}


class Margins:
    """The scores from which a signature's codes are chosen, where they can be found.

    Args:
        function: A signature's `ConcreteFunction`.
        inputs: Arrays by input name.
    """

    def __init__(self, function, inputs):
        self._scores, self._ranked = {}, set()
        try:
            frozen = convert_variables_to_constants_v2(function)
        except (ValueError, KeyError, tf.errors.OpError):  # such as lookup tables
            return
        names = sorted(function.structured_outputs)
        feeds = [tensor.name.split(":")[0] for tensor in frozen.inputs]
        choices = {
            name: _choice(output.op)
            for name, output in zip(names, frozen.outputs, strict=True)
            if output.dtype.is_integer
        }
        choices = {name: op for name, op in choices.items() if op is not None}
        if not choices:
            return
        fetches = [tuple(op.inputs) for op in choices.values()]
        arguments = [tf.constant(inputs[name]) for name in feeds]
        answers = frozen.prune(frozen.inputs, fetches)(*arguments)
        for (name, op), (first, second) in zip(choices.items(), answers, strict=True):
            if op.type == "TopKV2":
                # A code for each of the k largest, all with the scores of one row.
                shape = frozen.outputs[names.index(name)].shape.as_list()
                lead = [-1 if size is None else size for size in shape[:-1]]
                scores = first.numpy().reshape([*lead, 1, first.shape[-1]])
                scores = np.repeat(scores, int(second), axis=-2)
                self._ranked.add(name)
            elif op.type == "ArgMax":
                scores = np.moveaxis(first.numpy(), int(second), -1)
            else:  # two classes, of which one has the score 0
                difference = first.numpy() - second.numpy()
                scores = np.stack([np.zeros_like(difference), difference], axis=-1)
            self._scores[name] = scores.astype(np.float64)

    def known(self, name):
        """Whether the scores behind an output are known."""
        return name in self._scores

    def of(self, name):
        """The distances of the best two scores, of the shape of the codes.

        Of the k largest, each one's distance to the next.
        """
        ordered = np.sort(self._scores[name], axis=-1)
        if name not in self._ranked:
            return ordered[..., -1] - ordered[..., -2]
        gaps = np.diff(ordered[..., 0, :], axis=-1)[..., ::-1]
        return gaps[..., : ordered.shape[-2]]

    def between(self, name, codes, others):
        """The distances between the scores of two codes each; infinite for no class."""
        scores = self._scores[name]
        valid = (codes >= 0) & (others >= 0) & (others < scores.shape[-1])

        def score(indices):
            indices = np.where(valid, indices, 0)[..., np.newaxis]
            return np.take_along_axis(scores, indices, axis=-1)[..., 0]

        return np.where(valid, np.abs(score(codes) - score(others)), np.inf)


def _choice(op):
    """The op that chose a code: the nearest argmax or top-k, or comparison with a threshold."""
    waiting, seen = [op], set()
    while waiting:
        op = waiting.pop(0)
        if op.name in seen:
            continue
        seen.add(op.name)
        if op.type in ("ArgMax", "TopKV2") or op.type in _COMPARISONS:
            return op
        if op.type in _PASSING:
            # Of a selection, what is selected: the condition chooses no class.
            inputs = op.inputs[1:] if op.type.startswith("Select") else op.inputs
            waiting.extend(tensor.op for tensor in inputs)
    return None
