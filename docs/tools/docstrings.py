"""Keras' own docstring sections, as Markdown that the API pages can show.

mkdocstrings reads Google's sections (`Args`, `Returns`, `Raises`). `Call arguments`,
`Fields` and shapes become lists under a bold title here, `Reference` a paragraph.
"""

import re

import griffe

LISTS = ("Call arguments", "Fields", "Input shape", "Output shape")
PARAGRAPHS = ("Reference", "References", "Example", "Examples")
SECTION = re.compile(
    rf"^({'|'.join(LISTS + PARAGRAPHS)}):[ \t]*\n(\n?(?:[ ]{{4}}.*\n|\n(?=[ ]{{4}}))*)",
    re.MULTILINE,
)
DOCTEST = re.compile(r"^>>> (?:.+\n?)+", re.MULTILINE)
ENTRY = re.compile(r"^[ ]{4}(\*{0,2}\w[\w, ]*): ", re.MULTILINE)


def as_markdown(text):
    """The docstring with Keras' sections written as Markdown."""
    text = SECTION.sub(_section, text + "\n")
    return DOCTEST.sub(_fenced, text).rstrip("\n")


def _fenced(match):
    return f"```pycon\n{match.group(0).rstrip()}\n```\n"


def _section(match):
    title, body = match.groups()
    if title in LISTS and ENTRY.search(body):
        items = ENTRY.sub(r"- **\1**: ", body)
        items = re.sub(r"^[ ]{4}(?!- )", "  ", items, flags=re.MULTILINE)
        return f"**{title}**\n\n{items}\n"
    dedented = re.sub(r"^[ ]{4}", "", body, flags=re.MULTILINE)
    return f"**{title}**\n\n{dedented}\n"


class KerasDocstrings(griffe.Extension):
    """Rewrites every docstring before mkdocstrings parses it."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
