"""What MkDocs calls: pages and files of the site that are made, not written."""

import os
import pathlib
import re
import sys

import plotly
from mkdocs.structure.files import File

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import api
import docstrings
import gallery

ROOT = api.ROOT
FIGURES = ROOT / "build" / "explorer" / "figures.js"
EXPLORER = pathlib.Path(os.environ.get("EXPLORER_FIGURES", FIGURES))

PLOTLY = pathlib.Path(plotly.__file__).parent / "package_data" / "plotly.min.js"

# Pages of other folders: where each is shown, and the folder its links start from.
BORROWED = {
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "results.md": "keras_examples/RESULTS.md",
    "listops.md": "keras_examples/RESULTS_LISTOPS.md",
    "benchmarks.md": "benchmarks/README.md",
    "savedmodels.md": "savedmodels/README.md",
}


def on_config(config):
    """Puts a page for each room under API in the navigation."""
    pages = [{f"tfc.{room}": f"api/{room}.md"} for room in api.rooms()]
    for entry in config.nav:
        if "API" in entry:
            entry["API"] = [entry["API"], *pages]
    return config


def on_files(files, config):
    """Adds everything that is made to the files of the site."""

    def page(name, text):
        files.append(File.generated(config, name, content=text))

    def picture(name, path):
        if files.get_file_from_path(name) is None:
            files.append(File.generated(config, name, abs_src_path=str(path)))

    for room in api.rooms():
        page(f"api/{room}.md", api.room_page(room, docstrings.as_markdown))
    page("api/index.md", api.index_page())
    for name, text in api.source_pages().items():
        page(name, text)
    for name, source in BORROWED.items():
        page(name, _borrowed(ROOT / source, picture))
    page("gallery.md", gallery.page(picture))
    picture("assets/discrete_vae.png", ROOT / "keras_examples" / "images" / "discrete_vae.png")
    picture("assets/plotly.min.js", PLOTLY)
    if not EXPLORER.exists():
        raise FileNotFoundError(f"{EXPLORER} is missing: run `make docs`, which computes it")
    picture("assets/explorer_figures.js", EXPLORER)
    return files


def _borrowed(path, picture):
    """A page of the repository, its pictures brought along; other links stay as code."""
    text = path.read_text()

    def relocate(match):
        mark, label, target = match.groups()
        file = path.parent / target
        if mark and file.exists():
            name = f"assets/{file.relative_to(ROOT)}"
            picture(name, file)
            return f"![{label}]({name})"
        return f"{label} (`{target}`)" if file.exists() else match.group(0)

    return re.sub(r"(!?)\[([^\]]*)\]\(((?!https?:|#)[^)\s]+)\)", relocate, text)


def on_page_content(html, **_):
    """A description without a type before it needs no dash."""
    return re.sub(r'(<li class="doc-section-item field-body">)\s*–\s*(?=<div)', r"\1", html)
