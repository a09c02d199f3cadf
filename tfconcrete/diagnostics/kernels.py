"""TensorFlow's kernel registrations: who can run where, and what it keeps in host memory.

The pip wheel registers the kernels of all devices, whether a device is there or not.
"""

import functools

import tensorflow as tf
from tensorflow.python.framework import kernels, op_def_registry

DEVICES = ("CPU", "GPU")
_ANY_DEVICE = "DEFAULT"


@functools.cache
def _registrations(op_type, device):
    """The kernels of one op for a device, those for any device last."""
    found = kernels.get_registered_kernels_for_op(op_type).kernel
    own = [kernel for kernel in found if kernel.device_type == device and not kernel.label]
    rest = [kernel for kernel in found if kernel.device_type == _ANY_DEVICE]
    return sorted(own, key=lambda kernel: -kernel.priority) + rest


def _fits(kernel, attributes):
    """Whether a kernel is registered for these dtypes."""
    for constraint in kernel.constraint:
        if constraint.name not in attributes:
            continue
        allowed = constraint.allowed_values.list.type
        value = attributes[constraint.name]
        if not allowed:
            continue
        given = value.list.type if value.HasField("list") else [value.type]
        if not set(given) <= set(allowed):
            return False
    return True


def find_kernel(op_type, attributes, device):
    """The `KernelDef` that runs a node on a device.

    Args:
        op_type: The op's name, as in `"MatMul"`.
        attributes: Map of the node's `AttrValue`s.
        device: `"CPU"` or `"GPU"`.

    Returns:
        A `KernelDef`, or None where the device has no kernel for these dtypes.
    """
    candidates = _registrations(op_type, device)
    return next((kernel for kernel in candidates if _fits(kernel, attributes)), None)


def lives_in_host_memory(op_type, attribute, dtype, argument, device):
    """Whether `op_type` keeps one argument of one dtype in host memory.

    An op that the device cannot run keeps all of them there.
    """
    if device == "CPU":
        return True
    attributes = {attribute: tf.compat.v1.AttrValue(type=dtype.as_datatype_enum)}
    kernel = find_kernel(op_type, attributes, device)
    return kernel is None or argument in kernel.host_memory_arg


def argument_names(op):
    """The names of an op's inputs and outputs, one for each tensor, as kernels call them.

    Args:
        op: A `tf.Operation`.

    Returns:
        `(input names, output names)`, lists.
    """
    definition = op_def_registry.get(op.type)
    attributes = op.node_def.attr
    return (
        _expand(definition.input_arg, attributes),
        _expand(definition.output_arg, attributes),
    )


def _expand(arguments, attributes):
    """An argument that stands for several tensors is repeated for each."""
    names = []
    for argument in arguments:
        if argument.number_attr:
            count = attributes[argument.number_attr].i
        elif argument.type_list_attr:
            count = len(attributes[argument.type_list_attr].list.type)
        else:
            count = 1
        names += [argument.name] * count
    return names
