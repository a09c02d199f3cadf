"""What clients of the last version would find changed in a new one."""

from tfconcrete.export.saved_model import (
    dtype_name,
    read_meta_graph,
    signature_names,
    tensor_shape,
)
from tfconcrete.export.versions import version_folder, versions


def signature_changes(folder, path):
    """How the signatures of a SavedModel differ from those of the latest version.

    Args:
        folder: The folder of the new SavedModel.
        path: The model's folder, with the versions that there are.

    Returns:
        List of sentences; empty where nothing differs, or there is no other version.
    """
    numbers = versions(path)
    if not numbers:
        return []
    old, _ = read_meta_graph(version_folder(path, numbers[-1]))
    new, _ = read_meta_graph(folder)
    if old is None or new is None:
        return []
    changes = []
    for name in signature_names(old):
        if name not in signature_names(new):
            changes.append(f"the signature '{name}' is gone")
            continue
        before, after = old.signature_def[name], new.signature_def[name]
        for kind in ("inputs", "outputs"):
            changes += _tensor_changes(name, kind, getattr(before, kind), getattr(after, kind))
    return changes


def _tensor_changes(signature, kind, before, after):
    one = kind.removesuffix("s")
    for name in sorted(set(before) | set(after)):
        which = f"the {one} '{name}' of '{signature}'"
        if name not in after:
            yield f"{which} is gone"
        elif name not in before:
            yield f"{which} is new"
        elif _described(before[name]) != _described(after[name]):
            yield f"{which} was {_described(before[name])} and is {_described(after[name])}"


def _described(info):
    shape = tensor_shape(info)
    sizes = "any shape" if shape is None else [size if size is not None else "?" for size in shape]
    return f"{dtype_name(info.dtype)} {sizes}"
