"""Notebooks from the examples: `python docs/tools/notebooks.py FOLDER [--smoke]`.

The docstring's title and prose become the first cell, an install cell follows, then the
module's code, a cell for each group of definitions, and a last cell that runs `main`.
"""

import argparse
import ast
import inspect
import pathlib

import nbformat
from nbformat import v4

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = (
    "discrete_bottleneck_classifier",
    "discrete_vae",
    "masked_choice",
    "custom_training_loop",
    "concrete_figures",
    "estimator_comparison",
    "temperature_study",
    "density_estimation",
    "structured_prediction",
    "igr_vae",
    "joint_vae",
    "approximate_discrete",
    "relaxation_study",
    "feature_selection",
    "mixture_of_experts",
    "policy_gradient",
    "token_generator",
    "listops_tree_lstm",
    "export_and_serve",
)
# The others start processes of themselves, or keep the project's record of runs.
LEFT_OUT = ("multi_worker", "reproduce")

INSTALL = """\
# On Colab: installs the package, and unpacks the modules that the examples share. Both come from
# the source distribution: the one beside this notebook if you uploaded it, else the index's.
import glob, importlib.util, os, subprocess, sys, tarfile

def pip(*arguments):
    subprocess.run([sys.executable, "-m", "pip", *arguments, "--quiet"], check=True)

def missing(name):
    return importlib.util.find_spec(name) is None

if missing("tfconcrete") or missing("keras_examples"):
    if not glob.glob("tfconcrete-*.tar.gz"):
        pip("download", "--no-deps", "--no-binary", "tfconcrete", "tfconcrete")
    source = sorted(glob.glob("tfconcrete-*.tar.gz"))[-1]
    if missing("tfconcrete"):
        pip("install", f"./{source}[examples]")
    with tarfile.open(source) as archive:
        archive.extractall(filter="data")
    sys.path.insert(0, os.path.abspath(source.removesuffix(".tar.gz")))
os.environ["KERAS_BACKEND"] = "tensorflow"
%matplotlib inline
"""

SHOW = """\
import pathlib
from IPython.display import Image, display

for picture in sorted(pathlib.Path("output").glob("*.png")):
    print(picture)
    display(Image(picture))
"""


def cells(source):
    """The code cells of a module, without its docstring and its `__main__` block."""
    lines = source.splitlines()
    body = ast.parse(source).body[1:]
    body = [node for node in body if not ast.unparse(node).startswith("if __name__ ==")]
    groups, was_definition = [], None
    for node in body:
        is_definition = isinstance(node, (ast.FunctionDef, ast.ClassDef))
        if not groups or is_definition or was_definition:
            groups.append([])
        groups[-1].append(node)
        was_definition = is_definition
    starts = [_start(group[0]) for group in groups]
    ends = [*starts[1:], None]
    last = body[-1].end_lineno
    for start, end in zip(starts, ends, strict=True):
        yield "\n".join(lines[start : last if end is None else end]).strip("\n")


def _start(node):
    """The first line of a statement, its decorators and the comment above it included."""
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))]) - 1


def prose(source):
    """The docstring as Markdown: its title as a heading, its reference in italics."""
    text = inspect.cleandoc(ast.get_docstring(ast.parse(source)))
    first, _, rest = text.partition("\n")
    kept, title = [], first
    for line in rest.splitlines():
        if line.startswith("Title: "):
            title = line.removeprefix("Title: ")
        elif line.startswith("Reference: "):
            kept.append(f"*{line.removeprefix('Reference: ')}*")
        else:
            kept.append(line)
    return "\n".join([f"# {title}", "", first, *kept])


def notebook(name, smoke=False):
    """The notebook of an example."""
    source = (ROOT / "keras_examples" / f"{name}.py").read_text()
    arguments = ["--output", "output", *(["--smoke"] if smoke else [])]
    code = [INSTALL, *cells(source), f"main({arguments!r})", SHOW]
    made = v4.new_notebook(
        cells=[v4.new_markdown_cell(prose(source)), *map(v4.new_code_cell, code)],
        metadata={
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
            "colab": {"name": f"{name}.ipynb"},
        },
    )
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number}"  # the same file from the same source
    nbformat.validate(made)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--smoke", action="store_true", help="runs of seconds")
    settings = parser.parse_args()
    settings.folder.mkdir(parents=True, exist_ok=True)
    for name in EXAMPLES:
        path = settings.folder / f"{name}.ipynb"
        nbformat.write(notebook(name, settings.smoke), path)
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
