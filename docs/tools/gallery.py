"""The gallery: what each example leaves behind, and the command behind it.

`python docs/tools/gallery.py FOLDER` makes those in keras_examples/images small, from the folder
that the examples wrote to.
"""

import ast
import html
import pathlib
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[2]
IMAGES = ROOT / "keras_examples" / "images"
WIDTH = 900


class Entry(NamedTuple):
    """One example: the arguments of its run, its picture (None: it prints), and what it shows.

    The picture is a name in keras_examples/images, or a path in the project.
    """

    example: str
    arguments: str
    picture: str | None
    caption: str


ENTRIES = [
    Entry(
        "discrete_vae",
        "",
        "discrete_vae.png",
        "The demo: reconstructions, codes, new digits, the bound, the use of every class.",
    ),
    Entry(
        "concrete_figures",
        "",
        "concrete_figure_2.png",
        "Concrete densities and samples at three temperatures, and the masses at 0.",
    ),
    Entry(
        "concrete_figures",
        "",
        "concrete_figure_3.png",
        "A binary unit as a function of its noise, at several temperatures.",
    ),
    Entry(
        "approximate_discrete",
        "",
        "approximate_poisson_50.png",
        "A Poisson law, by an IGR with as many classes as it needs and by fixed numbers.",
    ),
    Entry(
        "relaxation_study",
        "",
        "distances_figure_12.png",
        "How far from a vertex samples are, by temperature: the same number is warmer for IGR.",
    ),
    Entry(
        "policy_gradient",
        "",
        "policy_gradient.png",
        "Two couriers learn where to go, by straight-through samples and by the score function.",
    ),
    Entry(
        "feature_selection",
        "--seeds 1 --seed 10",
        "feature_selection.png",
        "Fifty pixels of 784 that an autoencoder chose to read, and digits made from them.",
    ),
    Entry(
        "mixture_of_experts",
        "--data-dir TFDS",
        "mixture_of_experts.png",
        "Which of eight experts open for which direction and digit, read from the served codes.",
    ),
    Entry(
        "export_and_serve",
        "--epochs 40 --output savedmodels",
        "savedmodels/mnist_vae.png",
        "Digits, what the served model decodes from their codes, and new ones.",
    ),
    Entry(
        "reproduce",
        "gst-table3",
        "keras_examples/results/gst-table3_val_loss.png",
        "The bound of the GST paper's VAE, by epoch.",
    ),
    Entry(
        "reproduce",
        "gst-figure3",
        "keras_examples/results/gst-figure3_variance.png",
        "The variance of its gradient.",
    ),
    Entry(
        "reproduce",
        "igr-figure2",
        "keras_examples/results/igr-figure2_fits.png",
        "Four discrete laws (lines), and what rounding fitted relaxations gives (bars).",
    ),
    Entry(
        "reproduce",
        "igr-figure5",
        "keras_examples/results/igr-figure5_distances.png",
        "How near to the vertices trained posteriors sample.",
    ),
    Entry(
        "reproduce",
        "report-temperatures",
        "keras_examples/results/report-temperatures_codes.png",
        "What each code of a tiny VAE stands for, by temperature.",
    ),
    Entry(
        "reproduce",
        "report-temperatures",
        "keras_examples/results/report-temperatures_values.png",
        "Its relaxed samples: near the vertices when cold, between them when warm.",
    ),
]


def others():
    """The examples without a picture here, each with the first line of its docstring."""
    shown = {entry.example for entry in ENTRIES}
    for path in sorted((ROOT / "keras_examples").glob("*.py")):
        text = path.read_text()
        if path.stem not in shown and 'if __name__ == "__main__"' in text:
            yield Entry(path.stem, "", None, ast.get_docstring(ast.parse(text)).split("\n")[0])


def location(entry):
    """The file of an entry's picture."""
    return (ROOT if "/" in entry.picture else IMAGES) / entry.picture


def command(entry):
    """What to type at the root of the project."""
    return f"python -m keras_examples.{entry.example} {entry.arguments}".strip()


def page(picture):
    """The Markdown of the page; `picture(name, path)` brings a file along."""
    figures, printed = [], []
    for entry in [*ENTRIES, *others()]:
        shown = html.escape(command(entry))
        if entry.picture is None:
            printed.append(f"| `{command(entry)}` | {entry.caption} |")
            continue
        path = location(entry)
        name = f"assets/gallery/{path.name}"
        picture(name, path)
        figures.append(
            f'<figure><a href="{name}"><img src="{name}" alt="{html.escape(entry.caption)}" '
            f'loading="lazy"></a><figcaption>{html.escape(entry.caption)}<br>'
            f"<code>{shown}</code></figcaption></figure>"
        )
    return "\n".join(
        [
            "---",
            "hide: [navigation, toc]",
            "---",
            "# Gallery",
            "",
            "Every picture with the command behind it, run at the root of the project on the "
            "embedded images (`--data-dir TFDS` and `reproduce`: on the full data; "
            "[Results](results.md) has the rows that were run, their length and their exact "
            "commands). `make demo` runs the first one.",
            "",
            '<div class="gallery">',
            *figures,
            "</div>",
            "",
            *(
                [
                    "## The other examples",
                    "",
                    "| command | what it shows |",
                    "|---|---|",
                    *printed,
                    "",
                ]
                if printed
                else []
            ),
        ]
    )


def shrink(source, target):
    """Writes the picture in 128 colours, at most WIDTH pixels wide."""
    from PIL import Image

    image = Image.open(source).convert("RGB")
    if image.width > WIDTH:
        size = (WIDTH, round(image.height * WIDTH / image.width))
        image = image.resize(size, Image.Resampling.LANCZOS)
    image.quantize(128).save(target, optimize=True)


def main(folder):
    for entry in ENTRIES:
        source = pathlib.Path(folder) / (entry.picture or "none")
        if entry.picture and "/" not in entry.picture and source.exists():
            shrink(source, IMAGES / source.name)
            print(f"wrote {IMAGES / source.name}")


if __name__ == "__main__":
    main(sys.argv[1])
