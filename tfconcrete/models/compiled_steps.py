"""`steps_per_execution` steps as one XLA program.

Keras compiles one step and starts that program again for each of them, with new buffers
for all weights and moments. Here the steps are a loop inside the program, over batches that
were put on top of each other.
"""

import keras
import numpy as np
import tensorflow as tf

# Batches held for one program; where this many bytes are fewer than all, it runs again.
_HELD_BYTES = 2**26


class CompiledSteps:
    """A train or test function, as `fit` and `evaluate` call them.

    Args:
        update: function of a batch that does one step.
        results: function without arguments, what to log after the last step.
        num_steps: how many steps a call does, fewer where the data end.
        check: function of batches on top of each other that raises before bad ones are used.
        one_step: Keras' function, for what is no iterator over tensors.
    """

    def __init__(self, update, results, num_steps, check, one_step):
        self.num_steps, self.check, self.one_step = num_steps, check, one_step
        # A function of its own: to what it calls, this is a step and no loop.
        update = tf.function(update, autograph=False)

        def program(batches, count):
            def body(i):
                update(tf.nest.map_structure(lambda stack: stack[i], batches))
                return i + 1

            tf.while_loop(lambda i: i < count, body, [tf.zeros([], tf.int32)])
            return results()

        self._program = tf.function(
            program, jit_compile=True, autograph=False, reduce_retracing=True
        )

    def __call__(self, iterator):
        if not is_of_tensors(iterator):
            return self.one_step(iterator)
        logs, held, left = None, [], self.num_steps
        while left:
            batch = next(iterator, None)
            if held and (batch is None or _shapes(batch) != _shapes(held[0])):
                logs, held = self._run(held), []
            if batch is None:
                break
            held.append(batch)
            left -= 1
            if len(held) == self._most(batch):
                logs, held = self._run(held), []
        if held:
            logs = self._run(held)
        if logs is None:
            raise StopIteration
        return logs

    def _most(self, batch):
        """How many such batches a program takes."""
        size = sum(x.shape.num_elements() * x.dtype.size for x in tf.nest.flatten(batch))
        return min(self.num_steps, max(1, _HELD_BYTES // max(1, size)))

    def _run(self, batches):
        """Steps on batches of one shape; the same program however many they are."""
        padding = [batches[-1]] * (self._most(batches[0]) - len(batches))
        stacks = tf.nest.map_structure(lambda *x: tf.stack(x), *batches, *padding)
        self.check(stacks)
        return self._program(stacks, np.int32(len(batches)))


def is_of_tensors(data):
    """Whether these are batches that can be put on top of each other."""
    return isinstance(data, (tf.data.Dataset, tf.data.Iterator)) and all(
        isinstance(spec, tf.TensorSpec) and spec.dtype != tf.string
        for spec in keras.tree.flatten(data.element_spec)
    )


def _shapes(batch):
    return [x.shape for x in tf.nest.flatten(batch)]
