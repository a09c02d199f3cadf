"""Where a layer is being called: inside which model, which compiled function, which loop."""

import gc
import inspect
import sys
import weakref

import keras
import tensorflow as tf
from keras.src.backend.common import global_state
from tensorflow.python.eager import record
from tensorflow.python.framework import func_graph
from tensorflow.python.ops import control_flow_v2_func_graphs as loop_graphs

_BODIES = (
    loop_graphs.WhileBodyFuncGraph,
    loop_graphs.WhileCondFuncGraph,
    loop_graphs.CondBranchFuncGraph,
)
_LOOPS = (keras.layers.RNN, keras.layers.TimeDistributed)
# Of models that were called: the specs of their arguments. Keras keeps the shapes of some.
_first_calls = weakref.WeakKeyDictionary()
_symbolic_calls = weakref.WeakSet()


def current_call():
    """Keras' record of the outermost layer call under way (`entry_layer`), or None."""
    return global_state.get_global_attribute("current_call_ctx")


def function_graph():
    """The graph of the `tf.function` being traced, outside its loops and branches.

    None where calls run eagerly.
    """
    if tf.executing_eagerly():
        return None
    graph = tf.compat.v1.get_default_graph()
    while isinstance(graph, _BODIES):
        graph = graph.outer_graph
    return graph


def outermost_function(graph):
    """The graph of the outermost `tf.function` around a graph."""
    while isinstance(getattr(graph, "outer_graph", None), func_graph.FuncGraph):
        graph = graph.outer_graph
    return graph


def is_in_graph_loop():
    """Whether ops made now are part of a loop's or a branch's body."""
    return not tf.executing_eagerly() and isinstance(tf.compat.v1.get_default_graph(), _BODIES)


def is_differentiated(tensors):
    """Whether a `GradientTape` records what is computed from these tensors."""
    kinds = (tf.Tensor, tf.Variable, keras.Variable)
    flat = [x for x in tf.nest.flatten(tensors) if isinstance(x, kinds)]
    return record.should_record_backprop([tf.convert_to_tensor(x) for x in flat])


def is_said(argument):
    """Whether a call argument of the outermost layer was given, and is no default of its own.

    Where that is not known, it counts as given.
    """
    call = _entry_call()
    if call is None or "original_kwargs" not in call:
        return True
    return argument in call["original_kwargs"] or argument not in call["kwargs"]


def could_train():
    """Whether the outermost layer has weights to train, or stands behind what has."""
    call = _entry_call()
    if call is None or call["self"].trainable_variables:
        return True
    return is_differentiated([call["args"], call["kwargs"]])


def held_graphs():
    """The graphs of all compiled functions that somebody can still call.

    A graph may outlive its function: TensorFlow's registry of custom gradients keeps it.
    """
    gc.collect()
    kind = tf.types.experimental.ConcreteFunction
    return {id(o.graph) for o in gc.get_objects() if issubclass(type(o), kind)}


def is_in_keras_loop():
    """Whether a Keras layer that calls others once for each time step is calling."""
    return any(isinstance(caller["self"], _LOOPS) for caller in _keras_callers())


def _keras_callers():
    """The variables of Keras' methods under way, innermost first.

    Of nobody else's: looking at a frame's variables keeps them alive as long as the frame.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("keras.") and "self" in frame.f_locals:
            yield frame.f_locals
        frame = frame.f_back


def _entry_call():
    """The variables of Keras' `__call__` of the outermost layer under way, or None."""
    entry = getattr(current_call(), "entry_layer", None)
    found = None
    for caller in _keras_callers():
        if caller["self"] is entry and {"args", "kwargs"} <= set(caller):
            found = caller
    return found


def note_entry():
    """Remembers shapes and dtypes with which the outermost model under way was first called.

    Keras keeps the shapes of what `build` takes and no dtypes; an export needs all. A call
    on symbolic tensors counts only until there is one on data: Keras makes some itself,
    with a guess.
    """
    entry = getattr(current_call(), "entry_layer", None)
    if entry is None or (entry in _first_calls and entry not in _symbolic_calls):
        return
    call = _entry_call()
    if call is not None:
        _note(entry, call["args"], call["kwargs"])


def _note(entry, args, kwargs):
    try:
        arguments = inspect.signature(entry.call).bind_partial(*args, **kwargs).arguments
    except TypeError:
        return
    specs = {}
    for name, value in arguments.items():
        leaves = keras.tree.flatten(value)
        if leaves and all(hasattr(leaf, "dtype") and hasattr(leaf, "shape") for leaf in leaves):
            specs[name] = keras.tree.map_structure(_spec, value)
    _first_calls[entry] = specs
    flat = keras.tree.flatten(list(arguments.values()))
    if any(isinstance(leaf, keras.KerasTensor) for leaf in flat):
        _symbolic_calls.add(entry)
    else:
        _symbolic_calls.discard(entry)


def _spec(tensor):
    return tf.TensorSpec(tensor.shape, keras.backend.standardize_dtype(tensor.dtype))


def first_call(model):
    """The specs with which a model was first called, by the argument of its `call`.

    Args:
        model: A Keras model that holds a sampling layer.

    Returns:
        dict of structures of `tf.TensorSpec`s; empty where no call was seen.
    """
    return _first_calls.get(model, {})
