"""Wheel and source distribution: what is in them, and the README's ten lines from a wheel."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile

import pytest

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The folder with both files, built as `make dist` does but with this environment's tools."""
    pytest.importorskip("build", reason="`make dist` installs it")
    pytest.importorskip("setuptools", reason="builds without isolation")
    folder, source = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("source") / "copy"
    unneeded = shutil.ignore_patterns(
        ".git", ".venv", ".*_cache", ".hypothesis", "build", "dist", "output", "*.egg-info"
    )
    shutil.copytree(ROOT, source, ignore=unneeded)
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--skip-dependency-check",
        "--outdir",
        str(folder),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_metadata_is_what_an_index_takes(dist):
    pytest.importorskip("twine", reason="`make dist` installs it")
    files = [str(path) for path in dist.iterdir()]
    command = [sys.executable, "-m", "twine", "check", "--strict", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_wheel_holds_the_package_and_nothing_else(dist):
    [wheel] = dist.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "tfconcrete").rglob("*.py")}
    files.add("tfconcrete/py.typed")
    assert {name for name in names if ".dist-info/" not in name} == files


def test_the_source_distribution_holds_what_make_needs(dist):
    """Every file of the folders that the Makefile's targets read, and nothing that they made."""
    [archive] = dist.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {member.name.split("/", 1)[-1] for member in opened if member.isfile()}
    needed = {"Makefile", "README.md", "CHANGELOG.md", "CITATION.cff", "mkdocs.yml", "setup.cfg"}
    for folder in (
        "benchmarks",
        "docs",
        "keras_examples",
        "savedmodels",
        "tests",
        ".ci",
        ".github",
    ):
        paths = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
        needed |= {str(path.relative_to(ROOT)) for path in paths if path.suffix != ".pyc"}
    assert needed <= names, sorted(needed - names)[:10]
    assert not [name for name in names if "__pycache__" in name or name.startswith("build/")]


@pytest.fixture
def environment(tmp_path):
    """A new environment's interpreter, and where its packages are.

    It is empty but for the dependencies: these are not installed again (they are a gigabyte) but
    seen through a `.pth` file that names this environment's packages. `.pth` files there are not
    read, so that an editable installation of this package stays out of sight.
    """
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python", packages


def run(python, code, folder, **variables):
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-c", code],
        cwd=folder,
        env={**clean, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_ten_lines_from_the_wheel(dist, environment, tmp_path):
    """The wheel, installed with pip into a new environment, runs the README's first block."""
    python, packages = environment
    [wheel] = dist.glob("*.whl")
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(install, check=True)
    block = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    code = f"import tfconcrete\nassert {str(packages)!r} in tfconcrete.__file__\n{block.group(1)}"
    run(python, code, tmp_path)


def test_the_first_cell_of_a_notebook_installs(dist, environment, tmp_path):
    """Beside an uploaded source distribution, in an environment that has no tfconcrete."""
    pytest.importorskip("nbformat", reason="needs `pip install .[notebooks]`")
    sys.path.insert(0, str(ROOT / "docs" / "tools"))
    try:
        import notebooks
    finally:
        sys.path.remove(str(ROOT / "docs" / "tools"))
    python, _ = environment
    [archive] = dist.glob("*.tar.gz")
    shutil.copy(archive, tmp_path)
    cell = notebooks.INSTALL.replace("%matplotlib inline", "")
    code = f"{cell}\nimport tfconcrete, keras_examples.datasets as d\n"
    code += f"assert {str(tmp_path)!r} in d.__file__ and d.EMBEDDED.exists()\n"
    code += f"assert {str(tmp_path)!r} in tfconcrete.__file__, tfconcrete.__file__\n"
    # What the machine has is enough, and setuptools is there: no index, no isolated build.
    run(python, code, tmp_path, PIP_NO_INDEX="1", PIP_NO_BUILD_ISOLATION="0")
