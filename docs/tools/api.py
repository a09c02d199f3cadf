"""The API pages: one for each room of the package, from its `__all__`, and the sources.

Everything is read from the files, without importing the package.
"""

import ast
import inspect
import pathlib

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "tfconcrete"


def rooms():
    """Names of the public rooms, as `tfconcrete/__init__.py` lists them."""
    return [name for name in public_names(PACKAGE) if (PACKAGE / name).is_dir()]


def public_names(folder):
    """`__all__` of a package's folder."""
    for node in ast.parse((folder / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return sorted(ast.literal_eval(node.value), key=lambda name: (name.islower(), name))
    raise ValueError(f"{folder} has no __all__")


def definitions(folder):
    """`{public name: (file, name there, line)}` of a room; no entry for a submodule."""
    found = {}
    names = public_names(folder)
    for node in ast.parse((folder / "__init__.py").read_text()).body:
        if isinstance(node, ast.ImportFrom):
            path = ROOT.joinpath(*node.module.split(".")).with_suffix(".py")
            for alias in node.names:
                if (alias.asname or alias.name) in names and path.exists():
                    found[alias.asname or alias.name] = (path, alias.name)
        elif isinstance(node, ast.Assign) and ast.unparse(node.value) in found:
            found[ast.unparse(node.targets[0])] = found[ast.unparse(node.value)]
    return {name: (*place, _line(*place)) for name, place in found.items()}


def _line(path, name):
    for node in ast.parse(path.read_text()).body:
        targets = getattr(node, "targets", [])
        names = [getattr(node, "name", None), *(ast.unparse(target) for target in targets)]
        if name in names:
            return node.lineno
    raise ValueError(f"{path} does not define {name}")


def _assigned_docstring(path, name):
    """The text of `name.__doc__ = ...`, which a named tuple has."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == f"{name}.__doc__":
            return inspect.cleandoc(ast.literal_eval(node.value))
    return None


def _summary(room):
    text = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text()))
    first, _, rest = text.partition("\n")
    return first.rsplit(" (stage", 1)[0].rstrip(".") + ".", rest.strip()


def source_page(path):
    """Where the source of a file is shown, from the root of the site."""
    return f"source/{path.relative_to(ROOT).with_suffix('')}.md"


def room_page(room, as_markdown):
    """The Markdown of `api/<room>.md`."""
    summary, rest = _summary(room)
    places = definitions(PACKAGE / room)
    lines = [f"# tfc.{room}", "", summary, "", rest, ""]
    for name in public_names(PACKAGE / room):
        if name not in places:
            lines += _submodule(room, name)
            continue
        path, original, line = places[name]
        target = f"../{source_page(path)}#__codelineno-0-{line}"
        link = f"[{path.relative_to(ROOT)}, line {line}]({target})"
        text = _assigned_docstring(path, original)
        if text is not None or original != name:
            text = as_markdown(text or f"The same as `{original}`.")
            lines += [f"## {name} {{ #tfconcrete.{room}.{name} }}", "", text]
        else:
            lines += [f"::: tfconcrete.{room}.{name}"]
        lines += ["", f"Source: {link}", "{ .source-link }", ""]
    return "\n".join(lines)


def _submodule(room, name):
    path = PACKAGE / room / f"{name}.py"
    link = f"[{path.relative_to(ROOT)}](../{source_page(path)})"
    return [f"::: tfconcrete.{room}.{name}", "", f"Source: {link}", "{ .source-link }", ""]


def index_page():
    """The Markdown of `api/index.md`: every room and its names."""
    lines = [
        "# API",
        "",
        "`import tfconcrete as tfc`. `ConcreteSample`, `ExpConcreteSample`, "
        "`GapStraightThrough`, `IGRSample` and `gumbel_softmax` are also `tfc.X`; everything "
        "else is in its room.",
        "",
    ]
    for room in rooms():
        links = [
            f"[`{name}`]({room}.md#tfconcrete.{room}.{name})"
            for name in public_names(PACKAGE / room)
        ]
        lines += [f"## [tfc.{room}]({room}.md)", "", _summary(room)[0], "", ", ".join(links), ""]
    return "\n".join(lines)


def source_pages():
    """`{page: Markdown}` for every file of the package."""
    pages = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(ROOT)
        header = "---\nsearch:\n  exclude: true\nhide: [toc]\n---\n"
        code = path.read_text().rstrip()
        block = f'````{{.python linenums="1"}}\n{code}\n````'
        pages[source_page(path)] = f"{header}# {name}\n\n{block}\n"
    return pages
