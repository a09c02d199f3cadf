"""Imports follow the way of the data: earlier stages or the own folder, never upward."""

import ast
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "tfconcrete"

STAGES = {
    "_version": 0,
    "_typing": 0,
    "_backend": 0,
    "_checks": 0,
    "_dtypes": 0,
    "_floors": 0,
    "_seeds": 0,
    "_softmax": 0,
    "_philox": 0,
    "_row_seeds": 0,
    "_streams": 0,
    "_workers": 0,
    "noise": 1,
    "relaxations": 2,
    "objectives": 3,
    "bijectors": 3,
    "schedules": 3,
    "estimators": 4,
    "distributions": 4,
    "variables": 5,
    "calibration": 5,
    "layers": 6,
    "diagnostics": 7,
    "models": 8,
    "callbacks": 8,
    "export": 9,
    "plots": 9,
}

# A schedule is what a layer's temperature may be; a stage's room is its folder's name.
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


def imported_rooms(path):
    """Every room of the package that a file imports from, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "tfconcrete":
                assert len(parts) > 1, f"{path}: imports the package itself"
                yield parts[1]


def violations(path):
    own = room(path)
    for other in imported_rooms(path):
        if other != own and STAGES[other] >= STAGES[own] and STAGES[own] > 0:
            yield f"{own} (stage {STAGES[own]}) imports {other} (stage {STAGES[other]})"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_upward_import(path):
    assert not list(violations(path))


def test_an_upward_import_would_be_seen(tmp_path, monkeypatch):
    """The rule itself is tested on a file that breaks it."""
    monkeypatch.setattr(f"{__name__}.PACKAGE", tmp_path)
    (tmp_path / "noise").mkdir()
    bad = tmp_path / "noise" / "bad.py"
    bad.write_text("def f():\n    from tfconcrete.layers import base\n")
    assert list(violations(bad)) == ["noise (stage 1) imports layers (stage 6)"]


def foreign_members(path):
    """Underscore members that a file reads of objects which are not its own.

    By a dot, by a string (`getattr`, `hasattr`, `setattr`, `attrgetter`), or by an import
    from another file of the package.
    """
    tree = ast.parse(path.read_text())
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    reads = []
    for node in ast.walk(tree):
        for owner, name in _members(node):
            if owner in ("self", "cls"):
                own |= {name} if isinstance(node, ast.Attribute) else set()
            elif not owner.startswith("super("):
                reads.append((node, name))
    return [
        f"{path.name}:{node.lineno} reads {ast.unparse(node)}"
        for node, name in reads
        if name not in own and ast.unparse(node) not in LIBRARY_MEMBERS
    ]


def _members(node):
    """`(owner, name)` of the underscore members that a node of the tree names."""
    if isinstance(node, ast.Attribute):
        found = [(ast.unparse(node.value), node.attr)]
    elif isinstance(node, ast.ImportFrom) and node.module.startswith("tfconcrete."):
        found = [(node.module, alias.name) for alias in node.names]
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in BY_STRING:
        position = BY_STRING[ast.unparse(node.func)]
        owner = ast.unparse(node.args[0]) if position else ast.unparse(node.func)
        found = [(owner, _start(name)) for name in node.args[position:]]
    else:
        found = []
    return [pair for pair in found if pair[1].startswith("_") and not pair[1].startswith("__")]


def _start(node):
    """What a string begins with, as far as the source says."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    value = node.value if isinstance(node, ast.Constant) else ""
    return value if isinstance(value, str) else ""


# Functions that name a member by a string, and the position of the first such string.
BY_STRING = {
    "getattr": 1,
    "hasattr": 1,
    "setattr": 1,
    "delattr": 1,
    "attrgetter": 0,
    "operator.attrgetter": 0,
    "methodcaller": 0,
    "operator.methodcaller": 0,
}
# Members of libraries that are public in all but name, or have no public way.
LIBRARY_MEMBERS = {
    "sys._getframe",
    "old._replace",  # of a named tuple
    "op.graph._get_function",  # TensorFlow's functions inside a graph
    "library._ZN10tensorflow21DisableXlaCompilationEv",  # a symbol of C++
    "getattr(logits, '_keras_mask', None)",  # of a Keras tensor
    "getattr(layer, '_layers', ())",  # of a Keras layer that is no model
    "getattr(model, '_build_shapes_dict', None)",  # of a built Keras model
}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_private_member_is_read_across_files(path):
    assert not foreign_members(path)


def test_a_foreign_private_member_would_be_seen(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text(
        "import operator\n"
        "from tfconcrete.layers.base import _hidden, shown\n"
        "def f(layer, name):\n"
        "    layer._relax(1), layer.relax(2), layer.__class__, layer.inner._deep\n"
        "    getattr(layer, '_a', None), hasattr(layer, '_b'), getattr(layer, 'c')\n"
        "    setattr(layer, f'_{name}', 1), operator.attrgetter('_d')(layer)\n"
        "    return getattr(layer, name)\n"
        "class C:\n"
        "    def g(self, other):\n"
        "        return self._own, other._own, getattr(self, f'_{other}'), super()._up()\n"
    )
    assert sorted(foreign_members(bad)) == [
        "bad.py:2 reads from tfconcrete.layers.base import _hidden, shown",
        "bad.py:4 reads layer._relax",
        "bad.py:4 reads layer.inner._deep",
        "bad.py:5 reads getattr(layer, '_a', None)",
        "bad.py:5 reads hasattr(layer, '_b')",
        "bad.py:6 reads operator.attrgetter('_d')",
        "bad.py:6 reads setattr(layer, f'_{name}', 1)",
    ]


def test_every_folder_has_a_stage():
    assert {room(path) for path in FILES} <= set(STAGES)


def test_only_plots_imports_matplotlib():
    for path in FILES:
        if room(path) == "plots":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module]
            assert not any(name.split(".")[0] == "matplotlib" for name in names), path


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_autograph_can_convert_every_function(path):
    """It warns of bodies that are a docstring alone and, in branches, of annotated names."""
    if path.relative_to(PACKAGE).parts[0] == "export":
        return  # its annotated names are in functions that run outside of graphs
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            assert node.body[1:] or ast.get_docstring(node) is None, node.name
            annotated = [n.target for n in ast.walk(node) if isinstance(n, ast.AnnAssign)]
            assert not [n.id for n in annotated if isinstance(n, ast.Name)], node.name
