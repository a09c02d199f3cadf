"""Names, shapes and dtypes at a served model's boundary."""

import inspect

import keras
import tensorflow as tf

from tfconcrete._checks import invalid_value
from tfconcrete.export.names import input_names, stable_names, unique
from tfconcrete.layers.calls import first_call

# What an input may pass before it is read.
_PASSING = {"Identity", "Reshape", "ExpandDims", "Squeeze"}


def boundary_dtype(dtype):
    """float32 for every float, whatever the policy; other dtypes as they are."""
    dtype = tf.as_dtype(dtype)
    return tf.float32 if dtype.is_floating else dtype


def boundary_spec(shape, dtype, name):
    """The spec of one input: the batch, of any size, is dimension 0."""
    shape = tuple(shape)
    if not shape:
        raise ValueError(
            f"Cannot serve input '{name}': every input needs the batch as its first "
            "dimension, so that a server can batch requests. Received: a scalar."
        )
    return tf.TensorSpec((None, *shape[1:]), boundary_dtype(dtype), name=name)


class ModelBoundary:
    """How a Keras model is called with named tensors, and what it returns by name.

    Args:
        model: A built `keras.Model`: functional, sequential or subclassed.
        inputs: The symbolic inputs, where the model does not know them itself.
        names: Their names, where they are not the symbolic tensors' own.
        outputs: The names of the outputs, where the model does not know them itself.

    Attributes:
        specs: The input specs by name, floats as float32 and the batch unknown.
    """

    def __init__(self, model, inputs=None, names=None, outputs=None):
        self.model = model
        stable = stable_names(model)
        given = outputs or getattr(model, "output_names", None) or ()
        if not given and isinstance(model, keras.Sequential):
            given = [model.layers[-1].name]
        self._output_names = [stable.get(name, name) for name in given]
        structure = symbolic_inputs(model) if inputs is None else inputs
        if structure is not None:
            names = names or _functional_input_names(structure)
            self._arguments, guessed = {None: structure}, False
            self._dtypes = [x.dtype for x in keras.tree.flatten(structure)]
            shapes = [x.shape for x in keras.tree.flatten(structure)]
        else:
            self._arguments = _recorded_shapes(model)
            names = _argument_names(self._arguments)
            shapes = _flat_shapes(self._arguments)
            self._dtypes, guessed = _called_dtypes(model, self._arguments)
        self._guessed = guessed
        self.specs = {
            name: boundary_spec(shape, dtype, name)
            for name, shape, dtype in zip(names, shapes, self._dtypes, strict=True)
        }

    def call(self, tensors):
        """The model's outputs by name, from tensors by name (in the order of `specs`)."""
        values = [
            tf.cast(tensor, dtype) if tensor.dtype.is_floating else tensor
            for tensor, dtype in zip(tensors.values(), self._dtypes, strict=True)
        ]
        arguments = {}
        for name, structure in self._arguments.items():
            count = len(_flat_shapes({name: structure}))
            part, values = values[:count], values[count:]
            arguments[name] = _pack(structure, part)
        positional = [arguments.pop(None)] if None in arguments else []
        try:
            outputs = self.model(*positional, **arguments, **self._inference())
        except (TypeError, ValueError) as error:
            control_flow = isinstance(error, tf.errors.OperatorNotAllowedInGraphError)
            if self._guessed and not control_flow:
                raise _unknown_dtypes(self.model) from error
            raise
        if self._guessed and any(map(_is_converted, tensors.values())):
            raise _unknown_dtypes(self.model)
        return self._name_outputs(outputs)

    def _inference(self):
        parameters = inspect.signature(self.model.call).parameters
        return {"training": False} if "training" in parameters else {}

    def _name_outputs(self, outputs):
        flat = keras.tree.flatten_with_path(outputs)
        if isinstance(outputs, dict):
            names = ["_".join(str(part) for part in path) for path, _ in flat]
        elif len(self._output_names) == len(flat):
            names = list(self._output_names)
        else:
            names = [f"output_{index}" for index in range(len(flat))]
        return dict(zip(unique(names), (tensor for _, tensor in flat), strict=True))


def symbolic_inputs(model):
    """The symbolic inputs of a functional or sequential model, else None."""
    inputs = getattr(model, "inputs", None)
    if not inputs or not all(isinstance(x, keras.KerasTensor) for x in inputs):
        return None
    return inputs[0] if isinstance(model, keras.Sequential) else model.input


def _functional_input_names(structure):
    if isinstance(structure, dict):
        flat = keras.tree.flatten_with_path(structure)
        return unique("_".join(str(part) for part in path) for path, _ in flat)
    return input_names(tensor.name for tensor in keras.tree.flatten(structure))


def _is_shape(value):
    return isinstance(value, (tuple, list)) and all(
        size is None or isinstance(size, int) for size in value
    )


def _recorded_shapes(model):
    """The shapes a subclassed model was built or called with, by the argument of its `call`."""
    shapes = getattr(model, "_build_shapes_dict", None)
    parameters = inspect.signature(model.call).parameters
    if not model.built or not shapes:
        raise ValueError(
            f"Cannot export the model '{model.name}': it has not been built, so the shapes "
            "of its inputs are unknown. Call it once on a batch (or `fit` it) first."
        )
    required = [
        name
        for name, p in parameters.items()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        and p.default is p.empty
        and name not in ("training", "mask")
    ]
    if len(shapes) == 1:
        first = next(iter(parameters), "inputs")
        arguments = {first: next(iter(shapes.values()))}
    else:
        arguments = {name.removesuffix("_shape"): shape for name, shape in shapes.items()}
    for name, specs in first_call(model).items():
        if name in required and name not in arguments:
            arguments[name] = keras.tree.map_structure(lambda spec: tuple(spec.shape), specs)
    missing = [name for name in required if name not in arguments]
    if missing:
        raise invalid_value(
            "model",
            f"a model whose inputs are known (the shape of {', '.join(missing)} is not: call it "
            "once on a batch, pass all inputs in the first argument of `call`, as a dict, or "
            "write `build` with one `<argument>_shape` for each)",
            model,
        )
    return arguments


def _called_dtypes(model, arguments):
    """The dtypes with which a model was called, and whether some are a guess (float32).

    Keras' files hold none: a model that was read from one, or only built, is taken for one
    of floats until what it does with them shows otherwise.
    """
    called, guessed = first_call(model), False
    dtypes = []
    for name, structure in arguments.items():
        count = len(_flat_shapes({name: structure}))
        found = keras.tree.flatten(called.get(name, ()))
        guessed |= len(found) != count
        known = [spec.dtype.name for spec in found]
        dtypes += known if len(known) == count else ["float32"] * count
    return dtypes, guessed


def _is_converted(tensor):
    """Whether a float input is made a whole number, a bool or a string before all else."""
    waiting = list(tensor.consumers()) if tensor.dtype.is_floating else []
    while waiting:
        op = waiting.pop()
        if op.type == "AsString" or (op.type == "Cast" and not op.outputs[0].dtype.is_floating):
            return True
        if op.type in _PASSING:
            waiting.extend(op.outputs[0].consumers())
    return False


def _unknown_dtypes(model):
    return ValueError(
        f"Cannot export the model '{model.name}': the dtypes of its inputs are unknown, and "
        "float32 does not fit it (Keras' files hold the shapes of a subclassed model's inputs, "
        "not their dtypes). Call it once on a batch first."
    )


def _walk(structure, path=()):
    """Pairs of path and shape, in the order of `keras.tree` (dicts by sorted key)."""
    if isinstance(structure, keras.KerasTensor) or _is_shape(structure):
        yield path, structure
    elif isinstance(structure, dict):
        for key in sorted(structure):
            yield from _walk(structure[key], (*path, str(key)))
    else:
        for index, value in enumerate(structure):
            yield from _walk(value, (*path, str(index)))


def _flat_shapes(arguments):
    return [shape for structure in arguments.values() for _, shape in _walk(structure)]


def _argument_names(arguments):
    names = []
    for argument, structure in arguments.items():
        for path, _ in _walk(structure):
            by_key = isinstance(structure, dict) and len(arguments) == 1
            names.append("_".join(path if by_key else (argument, *path)))
    return unique(names)


def _pack(structure, values):
    values = iter(values)

    def fill(part):
        if isinstance(part, keras.KerasTensor) or _is_shape(part):
            return next(values)
        if isinstance(part, dict):
            filled = {key: fill(part[key]) for key in sorted(part)}
            return {key: filled[key] for key in part}
        return [fill(value) for value in part]

    return fill(structure)
